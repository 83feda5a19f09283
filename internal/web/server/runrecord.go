package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/sse"
)

// wholeRun is the record of a run with all its stages. The stages are written as they are read,
// so a run with 50,000 stages needs no more memory than a small one.
type wholeRun struct {
	ctx        context.Context //nolint:containedctx // the generated code passes no context to write
	run        api.WorkflowRun
	stagesFunc func(context.Context) iter.Seq2[api.RunStage, error]
	log        *slog.Logger
	prefix     []byte // start of the object whose last field is the record; nil: the record is the whole body
}

const (
	// recordWindow is how many bytes a large record holds while it is sent: a page of stages, and
	// one encoded stage.
	recordWindow = 2 << 20
	// recordTimeout is how long a client may take to receive a record, even if it makes steady
	// progress.
	recordTimeout = 15 * time.Minute
)

// whole returns the run with all its stages, as a response to the request of ctx.
func (s *Server) whole(ctx context.Context, key notify.Key, record api.WorkflowRun) wholeRun {
	stages := func(ctx context.Context) iter.Seq2[api.RunStage, error] { return s.Runs.Stages(ctx, key) }
	return wholeRun{ctx: ctx, run: record, stagesFunc: stages, log: s.streams.log}
}

// write writes the record. It returns an error only if nothing was written. After that it aborts
// the connection.
func (a wholeRun) write(w http.ResponseWriter) error {
	head, err := strictjson.Encode(struct {
		api.WorkflowRun
		RunStages []api.RunStage `json:"runStages,omitempty"` // shadows the field of the record
	}{WorkflowRun: a.run})
	if err != nil {
		return err
	}
	if answer, ok := w.(*answer); ok {
		answer.window = recordWindow
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // each part still has its own; only test recorders don't support it
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), recordTimeout)
	defer cancel()
	out := bufio.NewWriterSize(w, uncounted)
	started := false
	for stage, err := range a.stagesFunc(ctx) {
		if err != nil && !started {
			return err // nothing was sent yet
		}
		if err == nil {
			err = a.writeStage(w, out, head, stage, started)
			started = true
		}
		if _, refused := errors.AsType[*fault.Error](err); refused {
			return err // from the first write, which sent nothing
		}
		if err != nil {
			a.log.Warn("record of a run cut off", "run_id", a.run.ID.String(), "error", err)
			panic(http.ErrAbortHandler) // the response has already started
		}
	}
	if !started {
		a.start(w, out, head)
	}
	_, _ = out.WriteString("]}")
	if a.prefix != nil {
		_ = out.WriteByte('}')
	}
	_ = out.WriteByte('\n')
	return out.Flush()
}

func (a wholeRun) start(w http.ResponseWriter, out *bufio.Writer, head []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = out.Write(a.prefix)
	_, _ = out.Write(bytes.TrimSuffix(head, []byte("}")))
	_, _ = out.WriteString(`,"runStages":[`)
}

func (a wholeRun) writeStage(w http.ResponseWriter, out *bufio.Writer, head []byte, stage api.RunStage, started bool) error {
	encoded, err := strictjson.Encode(stage)
	if err != nil {
		return err
	}
	if !started {
		a.start(w, out, head)
	} else {
		_ = out.WriteByte(',')
	}
	_, err = out.Write(encoded)
	return err
}

// runStream returns a response that streams the log of a run.
func runStream(ctx context.Context, stop context.CancelFunc, events <-chan api.RunEvent, s streams) response {
	return stream(ctx, stop, "run", s, sse.Source[api.RunEvent]{Events: events, EncodeFunc: encodeRunEvent})
}

// encodeRunEvent returns the SSE event of a run's event. Its ID is the sequence number in the
// log.
func encodeRunEvent(event api.RunEvent) (sse.Event, error) {
	data, err := strictjson.Encode(event)
	return sse.Event{ID: strconv.FormatInt(event.Seq, 10), Data: data}, err
}
