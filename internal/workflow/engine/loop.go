package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// loop is an unfinished FOR_EACH or REPEAT in one iteration of the loops around it.
type loop struct {
	StoredLoop
	concurrency int32
	apart       time.Duration // between the starts of items; 0: no limit
	continues   bool          // after an item failed
	repeats     bool          // a REPEAT, like the next five
	delay       time.Duration // between two iterations
	most        time.Duration // after which no iteration starts; 0: no limit
	done        bool          // the last iteration says that the loop is done
	unchanged   bool          // the last iteration reached no CONTINUE
	twice       []string      // the components CONTINUE of the last iteration, if it reached several
	stage       *Stage        // set if the loop is new in this advance
	late        bool          // the loop exceeded its timeout
	dirty       bool
	finished    bool
	firstFailed []FailedStage // the first failed item, if any, before this advance; nil: unknown
}

// failing reports whether no more items may start, because an item failed or the loop timed out.
func (l *loop) failing() bool { return l.late || l.FailedItems > 0 && !l.continues }

// key returns the ID and the place of the loop.
func (l *loop) key() Loop { return Loop{l.ID, PlaceOf(l.ComponentID, l.Iteration)} }

// loopOf returns the loop that an iteration belongs to. The loop must have been read.
func (a *Advance) loopOf(sc *scope) *loop {
	return a.loops[PlaceOf(sc.Component, sc.iteration[:len(sc.iteration)-1])]
}

// addLoop adds an unfinished loop of an earlier advance.
func (a *Advance) addLoop(row StoredLoop) (*loop, error) {
	written, module := a.Plan.Component(row.ComponentID)
	l := &loop{StoredLoop: row, repeats: module.Repeats}
	p := l.key().Place
	if a.loops[p] != nil {
		return a.loops[p], nil
	}
	c, err := a.resolve(graph.Component{ID: written.ID, Module: written.Module, Config: written.Config}, nil)
	if err != nil {
		return nil, fmt.Errorf("read the config of a loop: %w", err)
	}
	l.configure(c.Config)
	l.late = a.late(l.ComponentID, &row.StartedAt)
	a.loops[p] = l
	return l, nil
}

// configure reads the config of a loop (components.md).
func (l *loop) configure(config json.RawMessage) {
	var c struct {
		Concurrency   int32   `json:"concurrency"`
		PerSecond     float64 `json:"perSecond"`
		OnItemFailure string  `json:"onItemFailure"`
		DelayMs       int64   `json:"delayMs"`
		MaxDurationMs int64   `json:"maxDurationMs"`
	}
	_ = json.Unmarshal(config, &c) // the config was validated when the workflow was saved
	if l.repeats {
		l.concurrency, l.delay, l.most = 1, time.Duration(c.DelayMs)*time.Millisecond, time.Duration(c.MaxDurationMs)*time.Millisecond
		return
	}
	l.concurrency, l.continues = c.Concurrency, c.OnItemFailure == graph.OnFailureContinue
	if l.concurrency < 1 || l.concurrency > 100 {
		l.concurrency = 10
	}
	if c.PerSecond > 0 {
		l.apart = time.Duration(float64(time.Second) / c.PerSecond)
	}
}

// early reports whether the next item of a loop must wait: for the pace of a FOR_EACH, which all loops of
// the component in the run share, or for the delay of a REPEAT.
func (a *Advance) early(l *loop) bool {
	_, started := a.paced[l.pace()]
	return (l.apart > 0 || l.delay > 0) && (started || a.Run.Now.Before(a.Run.Paces[l.pace()]))
}

// pace returns the key of the loop in Paces.
func (l *loop) pace() string {
	if l.repeats {
		return l.ComponentID + array(l.Iteration)
	}
	return l.ComponentID
}

// Paces returns when the next item of each loop with perSecond, and the next iteration of each with delayMs,
// may start, by loop.pace, or nil. Times that have passed are left out.
func (a *Advance) Paces() map[string]time.Time {
	var ahead map[string]time.Time
	set := func(component string, at time.Time) {
		if ahead == nil {
			ahead = map[string]time.Time{}
		}
		ahead[component] = at
	}
	for component, at := range a.Run.Paces {
		if at.After(a.Run.Now) {
			set(component, at)
		}
	}
	for component, apart := range a.paced {
		set(component, a.At.Add(apart))
	}
	return ahead
}

// hasNext reports whether another item of a loop is to start, now or later.
func (a *Advance) hasNext(l *loop) bool {
	return l.NextItem < l.ItemCount && !(l.repeats && (l.done || a.outlasts(l)))
}

// fill starts items until the loop's concurrency is reached. If no items are left, it finishes the
// loop.
func (a *Advance) fill(l *loop) {
	if l.finished {
		return
	}
	if l.repeats && l.LiveItems == 0 && !a.knowsLast(l) {
		a.unfilled = append(a.unfilled, l)
		return
	}
	parent := a.scopeOf(l.ComponentID, l.Iteration)
	stopped := a.stopped(parent) || l.failing()
	for !stopped && a.hasNext(l) && l.LiveItems < l.concurrency {
		if a.full() || a.First && slices.ContainsFunc(a.Plan.Members(l.ComponentID), a.computable) {
			a.More = true
			break
		}
		if a.early(l) {
			break // NextWake is when the next item may start
		}
		sc := a.scope(l.ComponentID, append(slices.Clone(l.Iteration), l.NextItem))
		sc.queued = true
		if !a.Run.Rerun { // in a rerun, the item may have reused stages
			sc.states = map[string]graph.State{}
		}
		l.NextItem, l.LiveItems, l.dirty, a.Changed = l.NextItem+1, l.LiveItems+1, true, true
		if l.apart > 0 {
			a.paced[l.pace()] = l.apart
		}
		a.fresh = append(a.fresh, sc)
	}
	if l.LiveItems > 0 || !stopped && a.hasNext(l) {
		return
	}
	if l.failing() && !l.late && l.twice == nil && l.firstFailed == nil && !a.unstored() {
		add(&a.need.First, l.key())
		a.unfilled = append(a.unfilled, l)
		return
	}
	a.endLoop(l, a.endOfLoop(l, stopped))
}

// endOfLoop returns the end of a loop of which no more items start.
func (a *Advance) endOfLoop(l *loop, stopped bool) End {
	end := End{ID: l.ID, ComponentID: l.ComponentID, Iteration: l.Iteration, Next: l.NextItem, Failed: l.FailedItems}
	switch {
	case l.late:
		c, _ := a.Plan.Component(l.ComponentID)
		end.Status, end.Failure = status.StageFailed, encodeFailure(errLate(c))
	case l.twice != nil:
		end.Status, end.Failure = status.StageFailed, encodeFailure(continuedTwice(l))
	case l.failing():
		end.Status, end.Failure = status.StageFailed, a.redactFailure(encodeFailure(itemFailed(l, a.firstFailed(l))), nil)
	case stopped: // items are unfinished or have not started
		end.Status = status.StageCanceled
	case l.repeats:
		a.endRepeat(l, &end)
	default:
		end.Status, end.Port, end.Output = status.StageCompleted, graph.PortDone, json.RawMessage(fmt.Sprintf(`{"count":%d,"failedItems":%d}`, l.ItemCount, l.FailedItems))
		end.Bytes = int64(len(end.Output))
	}
	return end
}

// endLoop finishes the stage of a loop.
func (a *Advance) endLoop(l *loop, end End) {
	l.finished = true
	if t := l.stage; t != nil {
		t.Status, t.Port, t.Output, t.Failure, t.Secret = end.Status, end.Port, end.Output, end.Failure, t.Secret || end.Secret
		a.Run.PendingCount--
		a.finished(end)
		return
	}
	a.finish(end)
}

// postponeItems leaves iterations that have not started anything to the next advance. These
// iterations are the last ones of their loops.
func (a *Advance) postponeItems() {
	for _, sc := range a.fresh {
		l := a.loopOf(sc)
		l.NextItem, l.LiveItems, a.More = l.NextItem-1, l.LiveItems-1, true
		if l.apart > 0 {
			delete(a.paced, l.pace())
		}
		delete(a.scopes, sc.Place)
	}
	a.fresh = nil
}

// finishIteration counts a finished iteration. failed is the component with an unhandled failure
// in the iteration, or "".
func (a *Advance) finishIteration(sc *scope, failed string) {
	l := a.loopOf(sc)
	if l == nil || l.finished {
		return
	}
	l.LiveItems, l.dirty, a.Changed = l.LiveItems-1, true, true
	a.items++
	if failed != "" {
		l.FailedItems++
		a.More = a.More || l.failing() && l.LiveItems > 0 // the next advance cancels the waiting stages of the other items
	} else if l.repeats {
		a.finishRepeated(l, sc)
	}
	a.fill(l)
}

// storedItems returns the items of a loop in the form in which they are stored: with references to
// variables instead of their values, unless the component has other references too.
func (a *Advance) storedItems(t *Stage, items json.RawMessage) (json.RawMessage, error) {
	written, _ := a.Plan.Component(t.Component.ID)
	if len(envref.Names(written.Input)) == 0 || a.Plan.Refers(written.ID) || written.Module != component.ForEach {
		return items, nil
	}
	input, _, err := a.bind(t.scope, written)
	if err != nil {
		return nil, err
	}
	var in struct{ Items json.RawMessage }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, fmt.Errorf("read the items of a loop: %w", err)
	}
	return in.Items, nil
}

// ResolveItems resolves the references to variables in stored items.
func (a *Advance) ResolveItems(componentID string, stored json.RawMessage) (json.RawMessage, error) {
	written, _ := a.Plan.Component(componentID)
	if len(envref.Names(written.Input)) == 0 || a.Plan.Refers(written.ID) || written.Module != component.ForEach {
		return stored, nil
	}
	if a.Variables.Err != nil {
		return nil, a.Variables.Err
	}
	items, err := strictjson.Encode(map[string]json.RawMessage{"items": stored})
	if err == nil {
		items, err = a.Variables.Values.ResolveAs("/input", items, written.Input)
	}
	var in struct{ Items json.RawMessage }
	if err == nil {
		err = json.Unmarshal(items, &in)
	}
	return in.Items, err
}

// Moved returns the loops of earlier advances that changed, in the order of their IDs.
func (a *Advance) Moved() (all []StoredLoop) {
	for _, l := range a.loops {
		if l != nil && l.dirty && l.stage == nil && !l.finished {
			all = append(all, l.StoredLoop)
		}
	}
	slices.SortFunc(all, func(a, b StoredLoop) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return all
}

// ItemsOf returns the items of a new loop.
func (a *Advance) ItemsOf(t *Stage) Items { return a.lists[t.ID] }

// failedItem describes a failed item of a loop. It omits the details of the error, which may be
// large. The failed stage contains them.
type failedItem struct {
	Index       int32     `json:"index"`
	ComponentID string    `json:"componentId"`
	StageID     uuid.UUID `json:"stageId"`
	Code        string    `json:"code"`
	Message     string    `json:"message"`
}

// Failing returns the components of a loop whose failures fail an item.
func Failing(plan *graph.Plan, loop string) (ids []string) {
	for _, id := range plan.Members(loop) {
		if !plan.Handles(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// firstFailed returns the first failed item of the loop with its unhandled failure, or nil if no
// item failed. Errors of stages are redacted, so the result contains no secrets.
func (a *Advance) firstFailed(l *loop) *failedItem {
	failing := Failing(a.Plan, l.ComponentID)
	rows := slices.Clone(l.firstFailed)
	for _, e := range a.finals { // these are not written yet
		if e.Status == status.StageFailed && slices.Contains(failing, e.ComponentID) && isBelow(e.Iteration, l.Iteration) {
			rows = append(rows, FailedStage{ID: e.ID, ComponentID: e.ComponentID, Iteration: e.Iteration, Error: e.Failure})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	first := slices.MinFunc(rows, func(a, b FailedStage) int {
		return cmp.Or(slices.Compare(a.Iteration, b.Iteration), cmp.Compare(slices.Index(failing, a.ComponentID), slices.Index(failing, b.ComponentID)))
	})
	item := &failedItem{Index: first.Iteration[len(l.Iteration)], ComponentID: first.ComponentID, StageID: first.ID}
	var failure api.ExecutionError
	if json.Unmarshal(first.Error, &failure) == nil {
		item.Code, item.Message = failure.Code, component.Cut(failure.Message, component.MaxMessage)
	}
	return item
}

// itemFailed returns the error of a loop whose items failed. The error contains the first failed
// item, how it failed, and the number of failed items.
func itemFailed(l *loop, first *failedItem) error {
	details := map[string]any{"failedItems": l.FailedItems, "items": l.ItemCount}
	if first == nil {
		return component.Permanent("ITEM_FAILED", "%d of %s failed", l.FailedItems, fault.Count(int(l.ItemCount), "item")).With(details)
	}
	details["first"] = first
	which := fmt.Sprintf("the item at index %d failed", first.Index)
	if l.repeats {
		which = fmt.Sprintf("the iteration at index %d failed", first.Index)
		delete(details, "items") // the limit of the loop
	}
	if l.FailedItems > 1 {
		which = fmt.Sprintf("%d of %s failed, the first at index %d,", l.FailedItems, fault.Count(int(l.ItemCount), "item"), first.Index)
	}
	message := fmt.Sprintf("%s in component %s: %s: %s", which, first.ComponentID, first.Code, first.Message)
	return component.Permanent("ITEM_FAILED", "%s", component.Cut(message, component.MaxMessage)).With(details)
}
