package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
)

// failedItem describes a failed item of a loop. It omits the details of the error, which may be
// large. The failed stage contains them.
type failedItem struct {
	Index       int32     `json:"index"`
	ComponentID string    `json:"componentId"`
	StageID     uuid.UUID `json:"stageId"`
	Code        string    `json:"code"`
	Message     string    `json:"message"`
}

// failing returns the components of a loop whose failures fail an item.
func (f *fold) failing(loop string) (ids []string) {
	for _, id := range f.plan.Members(loop) {
		if !f.plan.Handles(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// firstFailed returns the first failed item of the loop with its unhandled failure, or nil if no
// item failed. Errors of stages are redacted, so the result contains no secrets.
func (f *fold) firstFailed(l *loop) *failedItem {
	failing := f.failing(l.componentID)
	rows := append(f.failedHere(failing, l.iteration), l.firstFailed...)
	if len(rows) == 0 {
		return nil
	}
	first := slices.MinFunc(rows, func(a, b db.StageGetFirstFailedRow) int {
		return cmp.Or(slices.Compare(a.Iteration, b.Iteration), cmp.Compare(slices.Index(failing, a.ComponentID), slices.Index(failing, b.ComponentID)))
	})
	item := &failedItem{Index: first.Iteration[len(l.iteration)], ComponentID: first.ComponentID, StageID: first.ID}
	var failure api.ExecutionError
	if json.Unmarshal(first.Error, &failure) == nil {
		item.Code, item.Message = failure.Code, component.Cut(failure.Message, component.MaxMessage)
	}
	return item
}

// failedHere returns the stages of the components that failed in this fold, in iterations that
// start with prefix. These stages are not written yet.
func (f *fold) failedHere(components []string, prefix []int32) (rows []db.StageGetFirstFailedRow) {
	add := func(id uuid.UUID, componentID string, iteration []int32, why json.RawMessage) {
		if slices.Contains(components, componentID) && len(iteration) > len(prefix) && slices.Equal(iteration[:len(prefix)], prefix) {
			rows = append(rows, db.StageGetFirstFailedRow{ID: id, ComponentID: componentID, Iteration: iteration, Error: why})
		}
	}
	for _, t := range f.made {
		if t.status == status.StageFailed && !t.dropped {
			add(t.id, t.component.ID, t.iteration, t.failure)
		}
	}
	for _, e := range f.ends {
		if e.status == status.StageFailed {
			add(e.id, e.componentID, e.iteration, e.failure)
		}
	}
	for _, l := range f.finishedLoops {
		if l.result.status == status.StageFailed {
			add(l.id, l.componentID, l.iteration, l.result.failure)
		}
	}
	return rows
}

// itemFailed returns the error of a loop whose items failed. The error contains the first failed
// item, how it failed, and the number of failed items.
func itemFailed(l *loop, first *failedItem) error {
	details := map[string]any{"failedItems": l.failed, "items": l.count}
	if first == nil {
		return component.Permanent("ITEM_FAILED", "%d of %s failed", l.failed, fault.Count(int(l.count), "item")).With(details)
	}
	details["first"] = first
	which := fmt.Sprintf("the item at index %d failed", first.Index)
	if l.failed > 1 {
		which = fmt.Sprintf("%d of %s failed, the first at index %d,", l.failed, fault.Count(int(l.count), "item"), first.Index)
	}
	message := fmt.Sprintf("%s in component %s: %s: %s", which, first.ComponentID, first.Code, first.Message)
	return component.Permanent("ITEM_FAILED", "%s", component.Cut(message, component.MaxMessage)).With(details)
}
