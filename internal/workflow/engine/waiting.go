package engine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// End is the final state of a stage that was unfinished before this advance. The output of an execution
// or a child run is copied when the advance is written. All other outputs are set.
type End struct {
	ID          uuid.UUID
	ComponentID string
	Iteration   []int32
	Status      status.Stage
	Port        string
	Output      json.RawMessage
	Secret      bool // Output is sealed when it is stored
	Failure     json.RawMessage
	Usage       credit.Amount
	Bytes       int64     // of the output
	At          time.Time // when it finished; zero: at the time of the advance
	Execution   uuid.UUID // that finished, or zero
	Child       uuid.UUID // run that finished, or zero
	Next        int32     // of a loop: index of the first item that has not started
	Failed      int32     // of a loop: items that failed
}

// endOf returns the end of a stage, and reports whether the stage ends in this advance.
func (a *Advance) endOf(w Waiting) (e End, ends bool) {
	e = End{ID: w.ID, ComponentID: w.ComponentID, Iteration: w.Iteration}
	c, m := a.Plan.Component(w.ComponentID)
	limit := timeout(c, m)
	switch {
	case (w.ExecutionID != nil || w.ChildRunID != nil) && w.Ended == "", w.ItemCount != nil:
		return e, false
	case w.ExecutionID != nil:
		return executionEnd(e, w), true
	case w.ChildRunID != nil:
		return a.childEnd(e, w), true
	case w.Signaled && a.Run.OutputBytes+a.Others.Bytes <= maxOutput: // else the run fails, and the stage with it
		from, read := a.Signals[*w.Signal]
		e.Status, e.Port, e.Output, e.Secret, e.Bytes = status.StageCompleted, graph.PortNext, from.Output, from.Secret, int64(len(from.Output))
		return e, read
	case a.late(w.ComponentID, w.StartedAt) && (w.WakeAt == nil || w.StartedAt.Add(limit).Before(*w.WakeAt)):
		e.Status, e.Failure = status.StageFailed, encodeFailure(errLate(c))
		return e, true
	case w.WakeAt != nil && !w.WakeAt.After(a.Run.Now):
		e.At = a.At
		e.Status, e.Port, e.Output = status.StageCompleted, graph.PortNext, json.RawMessage(`{"resumedAt":"`+timestamp.Of(a.At).String()+`"}`)
		if w.Signal != nil {
			e.Port, e.Output = graph.PortTimeout, json.RawMessage(`{}`)
		}
		e.Bytes = int64(len(e.Output))
		return e, true
	}
	return e, false
}

// executionEnd returns the end of a stage whose execution is final.
func executionEnd(e End, w Waiting) End {
	e.Execution, e.Usage, e.Bytes, e.At, e.Failure = *w.ExecutionID, credit.Amount(w.Usage), w.Bytes, w.EndedAt, w.Error
	var why api.ExecutionError
	switch {
	case w.Ended == string(status.ExecutionCompleted):
		e.Status, e.Port = status.StageCompleted, graph.PortNext
	case json.Unmarshal(w.Error, &why) == nil && why.Code == component.CodeCanceled:
		e.Status = status.StageCanceled
	default:
		e.Status = status.StageFailed
	}
	return e
}

// childEnd returns the end of a stage whose child run is final. The child's usage is charged to the
// child. If the child was canceled, the stage fails, unless its own run is ending. It also fails if
// the child was canceled because it exceeded its component's timeout.
func (a *Advance) childEnd(e End, w Waiting) End {
	e.Child, e.At = *w.ChildRunID, w.EndedAt
	switch {
	case w.Ended == string(status.RunCompleted): // only then is the output stored
		e.Status, e.Port, e.Bytes = status.StageCompleted, graph.PortNext, w.Bytes
		if !w.Responded {
			e.Output, e.Bytes = json.RawMessage(`{}`), 2
		}
	case w.Ended == string(status.RunCanceled) && a.Ending():
		e.Status = status.StageCanceled
	default:
		e.Status, e.Failure = status.StageFailed, a.childFailure(w)
	}
	return e
}

// childFailure returns the error of a stage whose child run failed or was canceled.
func (a *Advance) childFailure(w Waiting) json.RawMessage {
	c, m := a.Plan.Component(w.ComponentID)
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

// finishStages finishes the stages that have nothing more to wait for. Child runs come last, because their result
// depends on whether the run is ending.
func (a *Advance) finishStages() {
	for _, children := range []bool{false, true} {
		for _, w := range a.Waiting {
			if (w.ChildRunID != nil) != children {
				continue
			}
			if e, ends := a.endOf(w); ends {
				a.Run.UsageBelow += credit.Amount(w.UsedBelow)
				a.finish(e)
			}
		}
	}
}

// finish finishes a stage of an earlier advance.
func (a *Advance) finish(e End) {
	a.Ends = append(a.Ends, e)
	a.Finished[e.ID] = true
	a.NotBefore(e.At)
	a.Run.PendingCount--
	a.finished(e)
}

// finished counts a stage that finishes in this advance, new or earlier, and enqueues its scope.
func (a *Advance) finished(e End) {
	a.finals, a.Changed = append(a.finals, e), true
	a.Run.Usage += e.Usage
	if e.Status == status.StageFailed {
		a.Run.FailedCount++
	}
	if len(e.Output) > 0 || e.Execution == uuid.Nil && e.Child == uuid.Nil { // else it is read when it is needed
		a.values[PlaceOf(e.ComponentID, e.Iteration)] = Value{e.Output, e.Secret}
	}
	a.setState(a.scopeOf(e.ComponentID, e.Iteration), e.ComponentID, graph.State{Status: e.Status, Port: e.Port})
	a.countOutput(e.Bytes)
}

// NotBefore moves the advance's time stamp to t if t is later.
func (a *Advance) NotBefore(t time.Time) { a.At = later(a.At, t) }

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// countOutput counts the bytes of a stage's output, and fails the run if it exceeds the limit.
func (a *Advance) countOutput(bytes int64) {
	a.Run.OutputBytes += bytes
	if bytes > 0 && a.Run.OutputBytes+a.Others.Bytes > maxOutput {
		a.FailWith("OUTPUT_TOO_LARGE", "The stage outputs of a run and of the runs below it exceed 64 MiB in total.")
	}
}

// scan checks a cancel request and all stages that are still unfinished, if
// they were read. It continues loops, resumes what the last advance left unfinished, and cancels the
// waiting stages and child runs of a run that is ending.
func (a *Advance) scan() error {
	if !a.Scanned {
		return nil
	}
	if a.Run.CancelRequestedAt != nil && !a.Run.CancelShown {
		a.Changed, a.Halted = true, true
	}
	a.enqueue(a.scope("", nil))
	a.cleared = a.Ending()
	a.Unfinished = slices.DeleteFunc(a.Waiting, func(w Waiting) bool { return a.Finished[w.ID] })
	var loops []*loop
	for _, w := range a.Unfinished {
		if w.ItemCount == nil {
			continue
		}
		l, err := a.addLoop(StoredLoop{w.ID, w.ComponentID, w.Iteration, *w.ItemCount, w.NextItem, w.LiveItems, w.FailedItems, *w.StartedAt})
		if err != nil {
			return err
		}
		loops = append(loops, l)
	}
	// An advance that leaves work sets the run's wake time to its own time, which nothing postpones.
	left := a.Run.WakeAt != nil && !a.Run.WakeAt.After(a.Run.UpdatedAt)
	for _, w := range a.Unfinished {
		sc := a.scopeOf(w.ComponentID, w.Iteration)
		late := a.late(w.ComponentID, w.StartedAt) || slices.ContainsFunc(a.loopsAround(sc), func(p Place) bool { return a.loops[p] != nil && a.loops[p].late })
		switch {
		case w.ChildRunID != nil && (a.Ending() || late):
			a.CancelChildren = append(a.CancelChildren, *w.ChildRunID)
		case w.ItemCount == nil && w.ExecutionID == nil && w.ChildRunID == nil && a.stopped(sc):
			a.finish(End{ID: w.ID, ComponentID: w.ComponentID, Iteration: w.Iteration, Status: status.StageCanceled})
		case left:
			a.enqueue(sc)
		}
	}
	for _, l := range loops {
		a.fill(l)
	}
	return nil
}

// Ending reports whether no more stages may start, because the run has failed or is being canceled.
func (a *Advance) Ending() bool { return len(a.Run.Error) > 0 || a.Run.CancelRequestedAt != nil }

// checkDeadline fails a run whose deadline has passed.
func (a *Advance) checkDeadline() {
	switch {
	case a.Run.Deadline.After(a.Run.Now):
	case a.Run.Limited:
		a.FailWith(component.CodeDeadline, "The run did not finish within its deadlineMs.")
	default:
		a.FailWith(component.CodeTimeout, "The run exceeded the longest time that a run may take.")
	}
}

// timeout returns the timeout of a stage that the engine itself runs, or 0 if there is no limit.
// Executions have their own deadlines.
func timeout(c graph.Component, m graph.Module) time.Duration {
	if !m.Lasts {
		return 0
	}
	return time.Duration(c.TimeoutMs) * time.Millisecond
}

// errLate fails a stage that exceeded its timeoutMs.
func errLate(c graph.Component) error {
	return component.Temporary(component.CodeTimeout, "component %s did not finish within its timeoutMs of %d", c.ID, c.TimeoutMs)
}

// late reports whether a stage has exceeded its timeout. If not, late updates the earliest
// deadline of the advance.
func (a *Advance) late(componentID string, started *time.Time) bool {
	limit := timeout(a.Plan.Component(componentID))
	if limit == 0 || started == nil {
		return false
	}
	at := started.Add(limit)
	if at.Before(a.Run.Now) {
		return true
	}
	if a.deadline == nil || at.Before(*a.deadline) {
		a.deadline = &at
	}
	return false
}
