package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/client"
)

// watch shows a run until it is final, then its stages.
func (s caller) watch(runID uuid.UUID, after int64) error {
	waiting := s.wait("Waiting for run %s", runID)
	defer waiting.end()
	var shown status.Run
	err := followStream(s.session, func() iter.Seq2[api.RunEvent, error] { return s.StreamRun(s.ctx, runID, after) }, func(event api.RunEvent) {
		if again := event.Seq <= after; again && !event.Status.Terminal() {
			return
		}
		after = event.Seq
		waiting.show(picture(event)...)
		if event.Status != shown {
			shown = event.Status
			waiting.say()
		}
	})
	waiting.end()
	if err != nil && s.ctx.Err() != nil {
		s.note("Stopped watching. The run continues. To follow it again: weft runs watch %s", runID)
		return errQuiet
	}
	if err != nil {
		return s.explain(err, s.credentials)
	}
	return s.summarize(runID)
}

// followStream calls each with every event of a stream, up to its final one. It opens the stream
// again if it breaks off.
func followStream[E any](s *session, open func() iter.Seq2[E, error], each func(E)) error {
	for broken := 0; ; broken++ {
		var failure error
		for event, err := range open() {
			if failure = err; err != nil {
				break
			}
			broken = 0
			each(event)
		}
		_, refused := errors.AsType[*client.Problem](failure)
		if failure == nil || s.ctx.Err() != nil || refused || broken == maxReconnects {
			return failure
		}
		s.note("the stream broke off (%v); reconnecting", failure)
		select {
		case <-time.After(time.Second):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// summarize prints the output of a finished run, and its stages as progress.
func (s caller) summarize(runID uuid.UUID) error {
	stages := newStageTable()
	run, err := s.Run(s.ctx, runID, stages.add)
	if err != nil {
		return s.explain(err, s.credentials)
	}
	reported := "" // with the result
	if run.Status == status.RunFailed {
		reported = failureOf(run.Error)
	}
	if err := stages.print(s.session, s.progress(), reported); err != nil {
		return err
	}
	if run.Status != status.RunCompleted {
		if err := stages.printItems(s.progress()); err != nil {
			return err
		}
	}
	var raw []byte
	if !s.tabular() { // the record, with its stages
		if raw, err = s.get(runsPath + "/" + runID.String()); err != nil {
			return err
		}
	}
	if err := s.print(raw, func(out io.Writer) error { return printOutput(out, run.Output) }); err != nil {
		return err
	}
	return s.concludeRun(run)
}

// concludeRun prints the result.
func (s *session) concludeRun(run api.WorkflowRun) error {
	took := time.Duration(0)
	if run.FinishedAt != nil {
		took = run.FinishedAt.Std().Sub(run.CreatedAt.Std())
	}
	switch run.Status {
	case status.RunCompleted:
		s.note("COMPLETED in %v, usage %s", took, usageOf(run))
		return nil
	case status.RunFailed:
		at := s.cell(at(run.Error, "componentId"))
		if at != "" {
			at = " at " + at
		}
		return fmt.Errorf("FAILED%s after %v, usage %s: %s", at, took, usageOf(run), failureOf(run.Error))
	default:
		reason := ""
		if run.CancelReason != nil {
			reason = ": " + printable(*run.CancelReason)
		}
		return fmt.Errorf("%s after %v, usage %s%s", run.Status, took, usageOf(run), reason)
	}
}

// failureOf returns the code and the message of an error in a record, or "" if it has another form.
func failureOf(raw json.RawMessage) string {
	var failure struct{ Code, Message string }
	if json.Unmarshal(raw, &failure) != nil || failure.Code == "" {
		return ""
	}
	return printable(failure.Code + ": " + failure.Message)
}

// usageOf formats the usage of a run, and that with its child runs if it is higher.
func usageOf(run api.WorkflowRun) string {
	if run.TotalUsageWithChildren <= run.TotalUsage { // older servers do not report it
		return run.TotalUsage.String()
	}
	return fmt.Sprintf("%v (%v with child runs)", run.TotalUsage, run.TotalUsageWithChildren)
}
