package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
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
	if l.FailedItems > 1 {
		which = fmt.Sprintf("%d of %s failed, the first at index %d,", l.FailedItems, fault.Count(int(l.ItemCount), "item"), first.Index)
	}
	message := fmt.Sprintf("%s in component %s: %s: %s", which, first.ComponentID, first.Code, first.Message)
	return component.Permanent("ITEM_FAILED", "%s", component.Cut(message, component.MaxMessage)).With(details)
}
