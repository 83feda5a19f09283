package audit

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/platform/throttle"
)

// What is denied is written down for a workspace so many times at once, and so many
// times a second from then on: who asks again and again fills no database.
const (
	denialBurst = 60
	denialRate  = 1
	denialQueue = 1000 // that wait to be written
)

// How long writing takes at most.
const (
	writePatience = 5 * time.Second // for one denial
	drainPatience = 2 * time.Second // for all that is left when the process ends
)

// Book is the events of all workspaces: it reads them, and writes down what was
// denied behind the answers, so that nobody waits for it. What a process has in
// hand when it dies is lost.
type Book struct {
	system, scoped postgres.DB
	waiting        chan tale
	limiter        *throttle.Limiter[uuid.UUID]
	lost           func()
	log            *slog.Logger
}

// tale is what waits to be told.
type tale struct {
	ctx  context.Context // holds who, when and in which request, and nothing else of that
	tell func(context.Context) error
}

// NewBook makes a Book. The connection system has the rights of postgres.System,
// scoped those of postgres.API. lost is called for each denial that is not
// written down: too many, or the database is away.
func NewBook(system, scoped postgres.DB, lost func(), log *slog.Logger) *Book {
	return &Book{
		system: system, scoped: scoped, lost: lost, log: log, waiting: make(chan tale, denialQueue),
		limiter: throttle.NewLimiter[uuid.UUID](denialBurst, denialRate, time.Now),
	}
}

// Target is ctx for a request about one thing: what is denied in it says which.
func Target(ctx context.Context, id uuid.UUID) context.Context {
	return context.WithValue(ctx, targetKey{}, id)
}

type targetKey struct{}

// Deny notes that actor was denied operation in a workspace, and why. It does not
// wait. What is of no workspace is nobody's to read.
func (b *Book) Deny(ctx context.Context, workspaceID uuid.UUID, actor Actor, operation, reason string) {
	if workspaceID == uuid.Nil {
		return
	}
	if b.limiter.Take(workspaceID) > 0 {
		b.lost()
		return
	}
	event := Event{
		WorkspaceID: workspaceID, Action: "access.denied", Actor: actor, SubjectKind: "operation", SubjectID: operation,
		Details: map[string]any{"reason": reason}, RequestID: telemetry.RequestID(ctx),
	}
	if id, ok := ctx.Value(targetKey{}).(uuid.UUID); ok {
		event.Details["target"] = id
	}
	b.Later(ctx, func(ctx context.Context) error { return RecordTx(ctx, b.system, event) })
}

// Later lets tell write events behind an answer, as part of the request of ctx and
// of this moment. It does not wait; what cannot be told is counted as lost.
func (b *Book) Later(ctx context.Context, tell func(context.Context) error) {
	kept := happened(context.Background(), time.Now())
	kept = By(telemetry.WithRequest(kept, telemetry.RequestID(ctx)), actorOf(ctx))
	select {
	case b.waiting <- tale{kept, tell}:
	default:
		b.lost()
	}
}

// Run writes what was denied until ctx ends, and then what is left, as much as
// there is time for.
func (b *Book) Run(ctx context.Context) {
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainPatience, end) })()
	for {
		select {
		case next := <-b.waiting:
			b.write(working, next)
		case <-ctx.Done():
			for {
				select {
				case next := <-b.waiting:
					b.write(working, next)
				default:
					return
				}
			}
		}
	}
}

// write tells what is next, unless working has ended.
func (b *Book) write(working context.Context, next tale) {
	if working.Err() != nil {
		b.lost()
		return
	}
	ctx, cancel := context.WithTimeout(next.ctx, writePatience)
	defer cancel()
	defer context.AfterFunc(working, cancel)()
	if err := next.tell(ctx); err != nil {
		b.lost()
		b.log.WarnContext(ctx, "an event could not be recorded", "error", err)
	}
}
