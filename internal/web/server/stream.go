package server

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/sse"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// drainSpread is the time over which a process on its way out ends its streams,
// so that their clients do not all come back at once.
const drainSpread = 3 * time.Second

// streams is what every event stream needs.
type streams struct {
	verifier *auth.Verifier
	limiter  *ratelimit.Limiter
	draining <-chan struct{}
	spread   time.Duration   // drainSpread; tests shorten it
	running  *sync.WaitGroup // counts the open ones; nil: nobody waits for them
	memory   *Memory
	hold     *hold // of the one stream; nil: its events are not counted
	metrics  *telemetry.Metrics
	log      *slog.Logger
}

// open gives a stream of the principal its context. It outlives the handler and
// keeps nothing of the request but its id; it ends when the key is revoked, and
// by stop. A workspace that has as many streams as it may is refused.
func (s streams) open(ctx context.Context, principal auth.Principal) (_ context.Context, stop context.CancelFunc, err error) {
	closed, allowed := s.limiter.Open(ctx, principal.WorkspaceID, ratelimit.Stream)
	if !allowed {
		refusal := fault.New(fault.RateLimited, "This workspace has as many streams open as its plan allows. Close one first.")
		refusal.Reason, refusal.RetryAfter = "streams", ratelimit.StreamPause
		return nil, nil, refusal
	}
	own := postgres.Scope(telemetry.WithRequest(context.Background(), telemetry.RequestID(ctx)), principal.WorkspaceID)
	telemetry.Identify(own, principal.WorkspaceID, principal.KeyID)
	own, forget := s.verifier.UntilRevoked(own, principal)
	return own, func() {
		forget()
		closed()
	}, nil
}

// executionStream answers with the events of an execution.
func executionStream(ctx context.Context, stop context.CancelFunc, events <-chan api.ComponentExecutionEvent, s streams) response {
	return stream(ctx, stop, "execution", s, sse.Source[api.ComponentExecutionEvent]{Events: events, EncodeFunc: encodeEvent})
}

// eventID is the SSE id of the event of a state. The final one alone is finalEventID.
func eventID(state status.Execution) int64 {
	switch {
	case state.Terminal():
		return finalEventID
	case state == status.ExecutionCreated:
		return 1
	}
	return 2
}

const finalEventID = 3

// streamOver answers 204 to a client that has the final event of a stream, so that a standard
// EventSource does not connect again (decisions 4.5).
func streamOver(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// streamHead answers HEAD as GET would be answered, and opens no stream.
func streamHead(w http.ResponseWriter) error {
	sse.SetHeader(w.Header())
	w.WriteHeader(http.StatusOK)
	return nil
}

// stream answers with a stream of the kind: it hands the connection over and returns nil
// whatever happens, because an error would be written into the stream. ctx is not that of the
// request.
func stream[T any](ctx context.Context, stop context.CancelFunc, kind string, s streams, source sse.Source[T]) response {
	return func(w http.ResponseWriter) error {
		closed := s.metrics.StreamOpened(kind)
		if s.running != nil {
			s.running.Add(1)
		}
		source.HoldFunc = s.count
		sse.Detach(ctx, w, source, sse.Options{Drain: s.draining, DrainSpread: s.spread}, func(err error) {
			stop()
			closed()
			if err != nil {
				s.log.DebugContext(ctx, "a stream ended early", "error", err)
			}
			if s.running != nil {
				s.running.Done()
			}
		})
		return nil
	}
}

// of returns s for one stream of the principal. Its events count for the workspace.
func (s streams) of(principal auth.Principal) streams {
	s.hold = &hold{memory: s.memory, workspace: principal.WorkspaceID}
	return s
}

// count counts the bytes of an event until release is called. It returns UNAVAILABLE, which
// ends the stream, if too many bytes of other answers are in flight. The client gets the
// event when it reconnects.
func (s streams) count(bytes int) (release func(), err error) {
	if s.hold == nil || bytes <= uncounted {
		return func() {}, nil
	}
	if err := s.hold.grow(int64(bytes)); err != nil {
		return nil, err
	}
	return func() { s.hold.shrink(int64(bytes)) }, nil
}

// encodeEvent makes the frame of an event. The final one has no name, so that a
// plain onmessage listener hears it alone (decisions 4.5).
func encodeEvent(event api.ComponentExecutionEvent) (sse.Event, error) {
	data, err := strictjson.Encode(event)
	frame := sse.Event{ID: strconv.FormatInt(eventID(event.Status), 10), Data: data}
	if !event.Status.Terminal() {
		frame.Name = "progress"
	}
	return frame, err
}
