package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/auth"
	"github.com/weft-automation/weft/internal/sse"
	"github.com/weft-automation/weft/internal/telemetry"
)

// drainSpread is the time over which a process on its way out ends its streams,
// so that their clients do not all come back at once.
const drainSpread = 3 * time.Second

// errDraining is why a stream ends before its execution does.
var errDraining = errors.New("the process is stopping")

// streams is what every event stream needs.
type streams struct {
	verifier *auth.Verifier
	draining <-chan struct{}
	spread   time.Duration // drainSpread; tests shorten it
	metrics  *telemetry.Metrics
	log      *slog.Logger
}

// open gives a stream of the principal its context: it ends when the client
// goes away, when the key is revoked, and when the process stops.
func (s streams) open(ctx context.Context, principal auth.Principal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	revocable, stop := s.verifier.UntilRevoked(ctx, principal)
	if s.draining != nil {
		go func() {
			select {
			case <-revocable.Done():
				return
			case <-s.draining:
			}
			select {
			case <-revocable.Done():
			case <-time.After(rand.N(s.spread)):
				cancel(errDraining)
			}
		}()
	}
	return revocable, func() { stop(); cancel(context.Canceled) }
}

// executionStream answers with the events of an execution. It holds its
// context because the generated code gives Visit none.
type executionStream struct {
	ctx     context.Context
	stop    context.CancelFunc
	events  <-chan api.ComponentExecutionEvent
	streams streams
}

// VisitStreamComponentExecutionResponse writes the stream to its end. It
// returns nil whatever ends it: an error would be written into the stream.
func (s executionStream) VisitStreamComponentExecutionResponse(w http.ResponseWriter) error {
	defer s.stop()
	defer s.streams.metrics.StreamOpened("execution")()
	frames := make(chan sse.Event)
	go s.encode(frames)
	if err := sse.Serve(s.ctx, w, frames, sse.Options{}); err != nil {
		s.streams.log.DebugContext(s.ctx, "a stream ended early", "error", err)
	}
	return nil
}

// encode turns events into frames. The final one has no name, so that a plain
// onmessage listener hears it alone (decisions 4.5).
func (s executionStream) encode(frames chan<- sse.Event) {
	defer close(frames)
	for event := range s.events {
		data, err := json.Marshal(event)
		if err != nil {
			s.streams.log.ErrorContext(s.ctx, "an event could not be encoded", "error", err)
			return
		}
		frame := sse.Event{Data: data}
		if !event.Status.Terminal() {
			frame.Name = "progress"
		}
		select {
		case frames <- frame:
		case <-s.ctx.Done():
			return
		}
	}
}
