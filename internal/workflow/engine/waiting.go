package engine

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// waiting is an unfinished stage, with the end of what it waits for.
type waiting = db.StageListWaitingRow

// end is the final state of a stage that was unfinished before this fold. The output of an execution
// or a child run is copied when the fold is written. All other outputs are set.
type end struct {
	id          uuid.UUID
	componentID string
	iteration   []int32
	status      status.Stage
	port        string
	output      json.RawMessage
	secret      bool // output is sealed when it is stored
	failure     json.RawMessage
	usage       credit.Amount
	bytes       int64     // of the output
	at          time.Time // when the execution or the child run finished; zero: at the time of the fold
	execution   uuid.UUID // that finished, or zero
	child       uuid.UUID // run that finished, or zero
	next        int32     // of a loop: index of the first item that has not started
	failed      int32     // of a loop: items that failed
}

// endOf returns the end of a stage, and reports whether the stage ends in this fold.
func (f *fold) endOf(w waiting) (e end, ends bool) {
	e = end{id: w.ID, componentID: w.ComponentID, iteration: w.Iteration}
	c, m := f.plan.Component(w.ComponentID)
	limit := timeout(c, m)
	switch {
	case (w.ExecutionID != nil || w.ChildRunID != nil) && w.Ended == "", w.ItemCount != nil:
		return e, false
	case w.ExecutionID != nil:
		return executionEnd(e, w), true
	case w.ChildRunID != nil:
		return f.childEnd(e, w), true
	case w.Signaled && f.run.OutputBytes+f.others.Bytes <= maxOutput: // else the run fails, and the stage with it
		from, read := f.signals[*w.Signal]
		e.status, e.port, e.output, e.secret, e.bytes = status.StageCompleted, graph.PortNext, from.output, from.secret, int64(len(from.output))
		return e, read
	case f.late(w.ComponentID, w.StartedAt) && (w.WakeAt == nil || w.StartedAt.Add(limit).Before(*w.WakeAt)):
		e.status, e.failure = status.StageFailed, encodeFailure(errLate(c))
		return e, true
	case w.WakeAt != nil && !w.WakeAt.After(f.run.Now):
		e.status, e.port, e.output = status.StageCompleted, graph.PortNext, json.RawMessage(`{"resumedAt":"`+timestamp.Of(f.stamp).String()+`"}`)
		if w.Signal != nil {
			e.port, e.output = graph.PortTimeout, json.RawMessage(`{}`)
		}
		e.bytes = int64(len(e.output))
		return e, true
	}
	return e, false
}

// executionEnd returns the end of a stage whose execution is final.
func executionEnd(e end, w waiting) end {
	e.execution, e.usage, e.bytes, e.at, e.failure = *w.ExecutionID, credit.Amount(w.Usage), w.Bytes, w.EndedAt, w.Error
	var why api.ExecutionError
	switch {
	case w.Ended == string(status.ExecutionCompleted):
		e.status, e.port = status.StageCompleted, graph.PortNext
	case json.Unmarshal(w.Error, &why) == nil && why.Code == component.CodeCanceled:
		e.status = status.StageCanceled
	default:
		e.status = status.StageFailed
	}
	return e
}

// childEnd returns the end of a stage whose child run is final. The child's usage is charged to the
// child. If the child was canceled, the stage fails, unless its own run is ending. It also fails if
// the child was canceled because it exceeded its component's timeout.
func (f *fold) childEnd(e end, w waiting) end {
	e.child, e.bytes, e.at = *w.ChildRunID, w.Bytes, w.EndedAt
	switch {
	case w.Ended == string(status.RunCompleted):
		e.status, e.port = status.StageCompleted, graph.PortNext
		if !w.Responded {
			e.output, e.bytes = json.RawMessage(`{}`), 2
		}
	case w.Ended == string(status.RunCanceled) && f.ending():
		e.status = status.StageCanceled
	default:
		e.status, e.failure = status.StageFailed, f.childFailure(w)
	}
	return e
}

// childFailure returns the error of a stage whose child run failed or was canceled.
func (f *fold) childFailure(w waiting) json.RawMessage {
	c, m := f.plan.Component(w.ComponentID)
	if w.Ended == string(status.RunCanceled) && timeout(c, m) > 0 && w.StartedAt.Add(timeout(c, m)).Before(w.EndedAt) {
		return encodeFailure(errLate(c))
	}
	failure := api.ExecutionError{Code: component.CodeCanceled, Message: "The child run was canceled.", Attempt: 1, Details: json.RawMessage(`{"runId":"` + w.ChildRunID.String() + `"}`)}
	var why api.RunError
	if json.Unmarshal(w.Error, &why) == nil && why.Code != "" {
		failure.Code, failure.Message, failure.Retryable = why.Code, why.Message, why.Retryable
	}
	encoded, err := present.ExecutionError(failure)
	if err != nil {
		return encodeFailure(err)
	}
	return encoded
}
