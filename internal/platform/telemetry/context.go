package telemetry

import (
	"context"
	"log/slog"
	"sync"

	"github.com/google/uuid"
)

// request holds the attributes of the current request. Inner handlers set the attributes, and
// the log line of an outer handler reads them, so the struct is shared instead of copied.
type request struct {
	id string

	mu          sync.Mutex
	workspaceID uuid.UUID
	keyID       uuid.UUID
	executionID uuid.UUID
}

// execution holds the attributes of the current execution.
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

// WithRequest returns a context for one request.
func WithRequest(ctx context.Context, requestID string) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{id: requestID})
}

// RequestID returns the ID of the request of ctx, or "".
func RequestID(ctx context.Context) string {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r.id
	}
	return ""
}

// Identify records the workspace and the key of the request. Later log lines contain both, even
// if they use an outer context.
func Identify(ctx context.Context, workspaceID, keyID uuid.UUID) {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.workspaceID, r.keyID = workspaceID, keyID
	}
}

// Concerns records the execution that the request is about.
func Concerns(ctx context.Context, executionID uuid.UUID) {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.executionID = executionID
	}
}

// WithExecution returns a context for work on one execution. Attempt 0 is omitted from log
// lines.
func WithExecution(ctx context.Context, workspaceID, executionID uuid.UUID, module string, attempt int) context.Context {
	return context.WithValue(ctx, executionKey{}, execution{workspaceID, executionID, module, attempt})
}

// contextAttrs returns the attributes of the request and of the execution.
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
