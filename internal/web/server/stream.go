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
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/sse"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// drainSpread is the time over which a draining process closes its streams, so that clients don't
// all reconnect at once.
const drainSpread = 3 * time.Second

// streams holds what all event streams need.
type streams struct {
	verifier *auth.Verifier
	people   *person.Service
	limiter  *ratelimit.Limiter
	draining <-chan struct{}
	spread   time.Duration   // drainSpread; tests shorten it
	running  *sync.WaitGroup // counts open streams; nil: not counted
	memory   *Memory
	hold     *hold // memory of the one stream; nil: its events aren't counted
	metrics  *telemetry.Metrics
	log      *slog.Logger
}

// open returns the context of a new stream of the caller. The context outlives the request and
// carries only its ID. It is canceled when the caller loses access, or by stop. open returns
// RATE_LIMITED if the workspace has as many open streams as its plan allows.
func (s streams) open(ctx context.Context) (_ context.Context, stop context.CancelFunc, err error) {
	call := callOf(ctx)
	principal := call.principal
	closed, allowed := s.limiter.Open(ctx, principal.WorkspaceID, ratelimit.Stream)
	if !allowed {
		refusal := fault.New(fault.RateLimited, "This workspace has as many open streams as its plan allows. Close one, then retry.")
		refusal.Reason, refusal.RetryAfter = "streams", ratelimit.StreamPause
		return nil, nil, refusal
	}
	own := call.reading(postgres.Scope(telemetry.WithRequest(context.Background(), telemetry.RequestID(ctx)), principal.WorkspaceID))
	telemetry.Identify(own, principal.WorkspaceID, principal.KeyID)
	var forget context.CancelFunc
	if call.session {
		own, forget = s.people.UntilSignedOut(own, call.visit.token, principal.WorkspaceID)
	} else {
		own, forget = s.verifier.UntilRevoked(own, principal)
	}
	return own, func() {
		forget()
		closed()
	}, nil
}

// executionStream returns a response that streams the events of an execution.
func executionStream(ctx context.Context, stop context.CancelFunc, events <-chan api.ComponentExecutionEvent, s streams) response {
	return stream(ctx, stop, "execution", s, sse.Source[api.ComponentExecutionEvent]{Events: events, EncodeFunc: encodeEvent})
}

// eventID returns the SSE ID of a state's event. Only a terminal state has finalEventID.
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

// streamOver responds with 204 to a client that already has the final event, so that a standard
// EventSource stops reconnecting (decisions 4.5).
func streamOver(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// streamHead responds to HEAD with the header of GET, without opening a stream.
func streamHead(w http.ResponseWriter) error {
	sse.SetHeader(w.Header())
	w.WriteHeader(http.StatusOK)
	return nil
}

// stream returns a response that sends the events of source. It detaches the connection from
// net/http, and always returns nil, because an error would be written into the stream. ctx must
// come from streams.open: the context of the request ends too early.
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
				s.log.DebugContext(ctx, "stream ended early", "error", err)
			}
			if s.running != nil {
				s.running.Done()
			}
		})
		return nil
	}
}

// of returns a copy of s for one stream of the principal. The stream's events count against the
// memory of the workspace.
func (s streams) of(principal auth.Principal) streams {
	s.hold = &hold{memory: s.memory, workspace: principal.WorkspaceID}
	return s
}

// count reserves the bytes of an event until release is called. It returns UNAVAILABLE, which
// closes the stream, if too many bytes of other responses are in flight. The client gets the
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

// encodeEvent returns the SSE event of an execution's event. Only the final event has no name, so
// that a plain onmessage listener receives only the final event (decisions 4.5).
func encodeEvent(event api.ComponentExecutionEvent) (sse.Event, error) {
	data, err := strictjson.Encode(event)
	frame := sse.Event{ID: strconv.FormatInt(eventID(event.Status), 10), Data: data}
	if !event.Status.Terminal() {
		frame.Name = "progress"
	}
	return frame, err
}
