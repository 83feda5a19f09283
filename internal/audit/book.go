package audit

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/attempt"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/telemetry"
)

// What is denied is written down for a workspace so many times at once, and so many
// times a second from then on: who asks again and again fills no database.
const (
	denialBurst = 60
	denialRate  = 1
	denialQueue = 1000 // that wait to be written
)

// writePatience is how long one denial may take to be written.
const writePatience = 5 * time.Second

// Book is the events of all workspaces: it reads them, and writes down what was
// denied behind the answers, so that nobody waits for it. What a process has in
// hand when it dies is lost.
type Book struct {
	system, scoped postgres.DB
	denials        chan Event
	limiter        *attempt.Limiter[uuid.UUID]
	lost           func()
	log            *slog.Logger
}

// NewBook makes a Book. The connection system has the rights of postgres.System,
// scoped those of postgres.API. lost is called for each denial that is not
// written down: too many, or the database is away.
func NewBook(system, scoped postgres.DB, lost func(), log *slog.Logger) *Book {
	return &Book{
		system: system, scoped: scoped, lost: lost, log: log, denials: make(chan Event, denialQueue),
		limiter: attempt.NewLimiter[uuid.UUID](denialBurst, denialRate, time.Now),
	}
}

// Deny notes that actor was denied operation in a workspace, and why. It does not
// wait.
func (b *Book) Deny(ctx context.Context, workspaceID uuid.UUID, actor Actor, operation, reason string) {
	if b.limiter.Take(workspaceID) > 0 {
		b.lost()
		return
	}
	event := Event{
		WorkspaceID: workspaceID, Action: "access.denied", Actor: actor, SubjectKind: "operation", SubjectID: operation,
		Details: map[string]any{"reason": reason}, RequestID: telemetry.RequestID(ctx),
	}
	select {
	case b.denials <- event:
	default:
		b.lost()
	}
}

// Run writes what was denied until ctx ends, and then what is left.
func (b *Book) Run(ctx context.Context) {
	for {
		select {
		case event := <-b.denials:
			b.write(ctx, event)
		case <-ctx.Done():
			for {
				select {
				case event := <-b.denials:
					b.write(ctx, event)
				default:
					return
				}
			}
		}
	}
}

func (b *Book) write(ctx context.Context, event Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writePatience)
	defer cancel()
	if err := RecordTx(ctx, b.system, event); err != nil {
		b.lost()
		b.log.WarnContext(ctx, "a denial could not be recorded", "error", err)
	}
}
