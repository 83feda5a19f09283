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
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// failedItem is what a loop tells of an item that failed. What its stage tells beyond that
// may be large, and is found there.
type failedItem struct {
	Index       int32     `json:"index"`
	ComponentID string    `json:"componentId"`
	StageID     uuid.UUID `json:"stageId"`
	Code        string    `json:"code"`
	Message     string    `json:"message"`
}

// firstFailed is the first of the items that failed, by what failed in it without being
// handled; nil where there is none. No secret is in it: the errors of stages have none.
func (f *fold) firstFailed(l *loop) (*failedItem, error) {
	var failing []string
	for _, id := range f.plan.Members(l.componentID) {
		if !f.plan.Handles(id) {
			failing = append(failing, id)
		}
	}
	rows := f.failedHere(failing, l.iteration)
	if f.run.Status != status.RunCreated || f.copied { // else there was no stage before this fold
		row, err := db.New().StageGetFirstFailed(f.ctx, f.tx, db.StageGetFirstFailedParams{
			WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: failing, Prefix: l.iteration,
		})
		switch {
		case err == nil:
			rows = append(rows, row)
		case !postgres.NotFound(err):
			return nil, fmt.Errorf("read which item failed: %w", err)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(rows, func(a, b db.StageGetFirstFailedRow) int {
		return cmp.Or(slices.Compare(a.Iteration, b.Iteration), cmp.Compare(slices.Index(failing, a.ComponentID), slices.Index(failing, b.ComponentID)))
	})
	item := &failedItem{Index: first.Iteration[len(l.iteration)], ComponentID: first.ComponentID, StageID: first.ID}
	var said api.ExecutionError
	if json.Unmarshal(first.Error, &said) == nil {
		item.Code, item.Message = said.Code, component.Cut(said.Message, component.MaxMessage)
	}
	return item, nil
}

// failedHere are the stages of some components in iterations that begin so which failed in
// this fold, and are not written yet.
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
	for _, l := range f.ended {
		if l.ended.status == status.StageFailed {
			add(l.id, l.componentID, l.iteration, l.ended.failure)
		}
	}
	return rows
}

// itemFailed is why a loop failed: which item did, of several the first and how many, and
// how.
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
