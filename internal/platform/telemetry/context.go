package telemetry

import (
	"context"
	"log/slog"
	"sync"

	"github.com/google/uuid"
)

// request is what is known of the request under way. It is filled while the
// request goes inwards and read by the line that is logged on the way out, so
// it is shared and not copied.
type request struct {
	id string

	mu          sync.Mutex
	workspaceID uuid.UUID
	keyID       uuid.UUID
	executionID uuid.UUID
}

// execution is what is known of the execution at work.
type execution struct {
	workspaceID uuid.UUID
	executionID uuid.UUID
	module      string
	attempt     int
}

type (
	requestKey   struct{}
	executionKey struct{}
)

// WithRequest marks everything below ctx as part of one request.
func WithRequest(ctx context.Context, requestID string) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{id: requestID})
}

// RequestID is the id of the request that ctx belongs to, "" outside of one.
func RequestID(ctx context.Context) string {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r.id
	}
	return ""
}

// Identify notes who the request turned out to come from. Lines logged later,
// also by those who hold an outer context, carry it.
func Identify(ctx context.Context, workspaceID, keyID uuid.UUID) {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.workspaceID, r.keyID = workspaceID, keyID
	}
}

// Concerns notes which execution the request is about.
func Concerns(ctx context.Context, executionID uuid.UUID) {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.executionID = executionID
	}
}

// WithExecution marks everything below ctx as work on one execution. Attempt 0
// is left out of the lines.
func WithExecution(ctx context.Context, workspaceID, executionID uuid.UUID, module string, attempt int) context.Context {
	return context.WithValue(ctx, executionKey{}, execution{workspaceID, executionID, module, attempt})
}

// contextAttrs are the attributes of the request and of the execution.
func contextAttrs(ctx context.Context) []slog.Attr {
	var attrs []slog.Attr
	var workspaceID, executionID uuid.UUID
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		r.mu.Lock()
		workspaceID, executionID = r.workspaceID, r.executionID
		keyID := r.keyID
		r.mu.Unlock()
		attrs = append(attrs, slog.String("request_id", r.id))
		if keyID != uuid.Nil {
			attrs = append(attrs, slog.String("key_id", keyID.String()))
		}
	}
	e, running := ctx.Value(executionKey{}).(execution)
	if running {
		workspaceID, executionID = e.workspaceID, e.executionID
	}
	if workspaceID != uuid.Nil {
		attrs = append(attrs, slog.String("workspace_id", workspaceID.String()))
	}
	if executionID != uuid.Nil {
		attrs = append(attrs, slog.String("execution_id", executionID.String()))
	}
	if running {
		if e.module != "" {
			attrs = append(attrs, slog.String("module", e.module))
		}
		if e.attempt > 0 {
			attrs = append(attrs, slog.Int("attempt", e.attempt))
		}
	}
	return attrs
}
