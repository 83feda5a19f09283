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

// Denials are recorded up to a burst and a rate per second for each workspace, so that repeated
// requests don't fill the database.
const (
	denialBurst = 60
	denialRate  = 1
	denialQueue = 1000 // events that wait to be written
)

// Timeouts for writing.
const (
	writePatience = 5 * time.Second // for one event
	drainPatience = 2 * time.Second // for all queued events when the process stops
)

// Book reads the audit log, and writes events that don't belong to a transaction, such as denials.
// It writes these events after the response, so that no request waits for the write. A crash loses
// queued events.
type Book struct {
	system, scoped postgres.DB
	waiting        chan pending
	limiter        *throttle.Limiter[uuid.UUID]
	lost           func()
	log            *slog.Logger
}

// pending is an event that waits to be written.
type pending struct {
	ctx    context.Context // has only the actor, the time and the request ID of the original
	record func(context.Context) error
}

// NewBook returns a Book. The connection system has the role postgres.System, and scoped has
// postgres.API. onLost is called for each event that isn't written, because there are too many or
// the database is unavailable.
func NewBook(system, scoped postgres.DB, onLost func(), log *slog.Logger) *Book {
	return &Book{
		system: system, scoped: scoped, lost: onLost, log: log, waiting: make(chan pending, denialQueue),
		limiter: throttle.NewLimiter[uuid.UUID](denialBurst, denialRate, time.Now),
	}
}

// Target returns a context for a request about one object. Denials recorded with the context
// contain the object's ID.
func Target(ctx context.Context, id uuid.UUID) context.Context {
	return context.WithValue(ctx, targetKey{}, id)
}

type targetKey struct{}

// Deny records that an operation in a workspace was denied to an actor, and the reason. It
// returns at once. Denials without a workspace are not recorded.
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

// Later calls record after the response, with the actor and the request of ctx, and the current
// time. It returns at once. If the queue is full, the event counts as lost.
func (b *Book) Later(ctx context.Context, record func(context.Context) error) {
	kept := happened(context.Background(), time.Now())
	kept = By(telemetry.WithRequest(kept, telemetry.RequestID(ctx)), actorOf(ctx))
	select {
	case b.waiting <- pending{kept, record}:
	default:
		b.lost()
	}
}

// Run writes queued events until ctx is done. Then it writes the remaining events, as far as time
// allows.
func (b *Book) Run(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainPatience, stop) })()
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

// write writes an event, unless working is cancelled.
func (b *Book) write(working context.Context, next pending) {
	if working.Err() != nil {
		b.lost()
		return
	}
	ctx, cancel := context.WithTimeout(next.ctx, writePatience)
	defer cancel()
	defer context.AfterFunc(working, cancel)()
	if err := next.record(ctx); err != nil {
		b.lost()
		b.log.WarnContext(ctx, "could not record an audit event", "error", err)
	}
}
