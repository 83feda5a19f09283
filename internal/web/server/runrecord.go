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

// wholeRun is the record of a run with all of its stages, which are written as they are
// read: a run of 50,000 takes no more memory than a small one.
type wholeRun struct {
	ctx        context.Context //nolint:containedctx // the generated answer is written without one
	run        api.WorkflowRun
	stagesFunc func(context.Context) iter.Seq2[api.RunStage, error]
	log        *slog.Logger
	around     []byte // the beginning of the object that it is the last member of
}

const (
	// recordWindow is what the record of a large run holds while it is sent: a page of its
	// stages, and one of them encoded.
	recordWindow = 2 << 20
	// recordTimeout is how long a client may take to receive a record, even if it makes
	// progress all the time.
	recordTimeout = 15 * time.Minute
)

// whole returns the record as an answer to the request of ctx.
func (s *Server) whole(ctx context.Context, key notify.Key, record api.WorkflowRun) wholeRun {
	stages := func(ctx context.Context) iter.Seq2[api.RunStage, error] { return s.runs.Stages(ctx, key) }
	return wholeRun{ctx: ctx, run: record, stagesFunc: stages, log: s.streams.log}
}

// write writes the record.
func (a wholeRun) write(w http.ResponseWriter) error {
	head, err := strictjson.Encode(struct {
		api.WorkflowRun
		RunStages []api.RunStage `json:"runStages,omitempty"` // in the place of the record's
	}{WorkflowRun: a.run})
	if err != nil {
		return err
	}
	if answer, ok := w.(*answer); ok {
		answer.window, answer.deadline = recordWindow, time.Time{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), recordTimeout)
	defer cancel()
	out := bufio.NewWriterSize(w, uncounted)
	begun := false
	for stage, err := range a.stagesFunc(ctx) {
		if err != nil && !begun {
			return err // nothing was sent yet
		}
		if err == nil {
			err = a.writeStage(w, out, head, stage, begun)
			begun = true
		}
		if _, refused := errors.AsType[*fault.Error](err); refused {
			return err // by the first write, which wrote nothing
		}
		if err != nil {
			a.log.Warn("the record of a run was cut off", "run_id", a.run.ID.String(), "error", err)
			panic(http.ErrAbortHandler) // the rest cannot be told otherwise
		}
	}
	if !begun {
		a.begin(w, out, head)
	}
	_, _ = out.WriteString("]}")
	if a.around != nil {
		_ = out.WriteByte('}')
	}
	_ = out.WriteByte('\n')
	return out.Flush()
}

func (a wholeRun) begin(w http.ResponseWriter, out *bufio.Writer, head []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = out.Write(a.around)
	_, _ = out.Write(bytes.TrimSuffix(head, []byte("}")))
	_, _ = out.WriteString(`,"runStages":[`)
}

func (a wholeRun) writeStage(w http.ResponseWriter, out *bufio.Writer, head []byte, stage api.RunStage, begun bool) error {
	encoded, err := strictjson.Encode(stage)
	if err != nil {
		return err
	}
	if !begun {
		a.begin(w, out, head)
	} else {
		_ = out.WriteByte(',')
	}
	_, err = out.Write(encoded)
	return err
}

// runStream answers with the log of a run.
func runStream(ctx context.Context, stop context.CancelFunc, events <-chan api.RunEvent, s streams) response {
	return stream(ctx, stop, "run", s, sse.Source[api.RunEvent]{Events: events, EncodeFunc: encodeRunEvent})
}

// encodeRunEvent makes the frame of an event, under its number in the log.
func encodeRunEvent(event api.RunEvent) (sse.Event, error) {
	data, err := strictjson.Encode(event)
	return sse.Event{ID: strconv.FormatInt(event.Seq, 10), Data: data}, err
}
