package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// shownStages is the number of stages of the selected component on a page.
const shownStages = 25

// maxMembers is the number of components of a loop whose stages of one item a page shows.
const maxMembers = 500

// choice is the component that a page shows in detail.
type choice struct {
	component string // "": none
	item      []int32
	stage     *uuid.UUID // only this stage; nil: all stages of the component and item
}

// selection is the selected component with its stages.
type selection struct {
	ID, Name, Module string

	Iteration []int32 // of the loops around the stages; may be shorter
	Item      *int32  // the selected item of a loop
	Noun      string  // what the passes through its loop are called
	Stages    []stageRow
	More      bool // there are more stages
	Loop      *loopView
	Up        string // address of the loop around the component or item; may be empty

	Input, Config json.RawMessage // of the definition
	Sources       []graph.Source
}

// stageRow is a stage in detail.
type stageRow struct {
	api.RunStage
	State        string
	Failure      failure
	Place        string // iteration; may be empty
	ChildAddress string // of the page of the child run; may be empty
}

// Retry describes the wait for the next attempt. It is empty if the stage does not wait for one.
func (s stageRow) Retry() string {
	if s.NextAttemptAt == nil {
		return ""
	}
	return retryText(s.ExecutionAttempt, s.NextAttemptAt.Std())
}

// Took returns how long the stage took, or has taken so far.
func (s stageRow) Took() time.Duration {
	switch {
	case s.StartedAt == nil:
		return 0
	case s.FinishedAt == nil:
		return time.Since(s.StartedAt.Std())
	}
	return s.FinishedAt.Std().Sub(s.StartedAt.Std())
}

// Shown returns the output for reading.
func (s stageRow) Shown() page.Text { return page.Readable(s.Output) }

// choose returns the choice in the query. Without one, a failed run shows its first failure, and a
// run that waits for a signal shows where it waits. It returns NOT_FOUND for an unknown component,
// and INVALID_INPUT for a malformed item.
func (s *site) choose(ctx context.Context, key notify.Key, overview run.Overview, query url.Values) (chosen choice, err error) {
	if chosen.component = query.Get("component"); chosen.component != "" {
		if !known(overview, chosen.component) {
			return chosen, fault.New(fault.NotFound, "There is no component %q in this run.", chosen.component)
		}
		chosen.item, err = parseItem(query.Get("item"))
		return chosen, err
	}
	first := firstOf(overview)
	if first == nil {
		return chosen, nil
	}
	chosen.component = first.ComponentID
	if first.FailedID != uuid.Nil {
		chosen.stage = &first.FailedID
	}
	return chosen, nil
}

// firstOf returns the component that a run shows without a choice: the one whose stage failed first, or
// else one that waits for a signal, or nil.
func firstOf(overview run.Overview) (first *run.ComponentSummary) {
	for i, one := range overview.Components {
		switch {
		case one.FailedID != uuid.Nil && (first == nil || first.FailedID == uuid.Nil || slices.Compare(one.FailedID[:], first.FailedID[:]) < 0),
			one.Waiting > 0 && first == nil:
			first = &overview.Components[i]
		}
	}
	return first
}

func known(overview run.Overview, id string) bool {
	if overview.Plan != nil {
		component, _ := overview.Plan.Component(id)
		return component.ID != ""
	}
	return slices.ContainsFunc(overview.Components, func(s run.ComponentSummary) bool { return s.ComponentID == id })
}

// parseItem returns the iteration in an address, as itemText writes it.
func parseItem(text string) (item []int32, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ".") {
		index, err := strconv.ParseInt(part, 10, 32)
		if err != nil || index < 0 {
			return nil, fault.New(fault.InvalidInput, "An item is a number from 0, or one for each loop, such as 3.0.")
		}
		item = append(item, int32(index))
	}
	return item, nil
}

// selected returns the chosen component with its stages, or nil.
func (s *site) selected(ctx context.Context, key notify.Key, overview run.Overview, chosen choice) (*selection, error) {
	if chosen.component == "" {
		return nil, nil
	}
	shown := &selection{ID: chosen.component, Name: chosen.component, Iteration: chosen.item}
	members := []string{chosen.component}
	if plan := overview.Plan; plan != nil {
		component, module := plan.Component(chosen.component)
		shown.Name, shown.Module, shown.Sources = nameOf(component.ID, component.Name), component.Module, plan.Sources(component.ID)
		definition, err := s.Workflows.Get(ctx, key.WorkspaceID, overview.Run.WorkflowID, &overview.Run.WorkflowVersion)
		if err != nil {
			return nil, err
		}
		shown.Input, shown.Config = literals(definition, component.ID)
		depth := depthOf(plan, component.ID)
		around := module
		if !module.Loop {
			_, around = plan.Component(plan.Loop(component.ID))
		}
		shown.Noun = nounOf(around.Repeats)
		if len(chosen.item) > depth+1 || len(chosen.item) > depth && !module.Loop {
			return nil, fault.New(fault.NotFound, "There is no item or iteration %s of this component.", itemText(chosen.item))
		}
		if module.Loop && chosen.stage == nil {
			shown.Loop = &loopView{Address: runAddress(key.WorkspaceID, key.ID) + "?component=" + component.ID + "&item="}
			switch len(chosen.item) {
			case depth + 1:
				shown.Item = &chosen.item[depth]
				members = plan.Members(component.ID)
			case depth:
				items, err := s.Runs.Items(ctx, key, plan, component.ID, chosen.item)
				if err != nil {
					return nil, err
				}
				shown.Loop.fill(items, itemText(chosen.item))
			}
		}
		shown.Up = up(key, plan, shown, depth)
	}
	return shown, s.stages(ctx, key, shown, members, chosen, overview)
}

// literals returns the input and the config of a component, with its secrets redacted. A plan has the
// secrets, so its literals must not be shown.
func literals(w api.Workflow, id string) (input, config json.RawMessage) {
	var all []api.WorkflowComponent
	_ = json.Unmarshal(w.Components, &all) // the service wrote them
	for _, one := range all {
		if one.ID == id {
			return one.Input, one.Config
		}
	}
	return nil, nil
}

// up returns the address of what surrounds the selection: its loop, or the item that it belongs to.
func up(key notify.Key, plan *graph.Plan, shown *selection, depth int) string {
	address := runAddress(key.WorkspaceID, key.ID) + "?component="
	switch loop := plan.Loop(shown.ID); {
	case shown.Item != nil:
		address += shown.ID + "&item=" + itemText(shown.Iteration[:depth])
	case loop == "":
		return ""
	default:
		address += loop + "&item=" + itemText(shown.Iteration)
	}
	return strings.TrimSuffix(address, "&item=")
}

// stages adds the stages of components to the selection.
func (s *site) stages(ctx context.Context, key notify.Key, shown *selection, components []string, chosen choice, overview run.Overview) error {
	waiting := map[string]bool{}
	for _, one := range overview.Components {
		waiting[one.ComponentID] = one.Waiting > 0
	}
	limit := shownStages
	if shown.Item != nil {
		limit = maxMembers
	}
	page, err := s.Runs.StagePage(ctx, key, everyWorkflow{}, run.StageParams{
		Limit: limit, Components: components, Iteration: chosen.item, StageID: chosen.stage,
	})
	if err != nil {
		return err
	}
	shown.More = page.HasMore
	for _, stage := range page.Data {
		stage.Output = s.hide(stage.Module, stage.Output)
		row := stageRow{RunStage: stage, State: stageState(stage, waiting[stage.ComponentID]), Failure: failureOf(stage.Error), Place: itemText(stage.Iteration)}
		if stage.ChildRunID != nil {
			row.ChildAddress = runAddress(key.WorkspaceID, *stage.ChildRunID)
		}
		shown.Stages = append(shown.Stages, row)
		if chosen.stage != nil {
			shown.Iteration = stage.Iteration
		}
	}
	if len(shown.Stages) > 0 && shown.Module == "" {
		shown.Module = shown.Stages[0].Module
	}
	return nil
}

// summaries returns the summaries of the selected item's stages.
func (shown *selection) summaries() map[string]run.ComponentSummary {
	all := map[string]run.ComponentSummary{}
	for _, stage := range shown.Stages {
		one := run.ComponentSummary{
			ComponentID: stage.ComponentID, Module: stage.Module, Total: 1, Attempts: stage.ExecutionAttempt, Usage: stage.CreditUsage, FirstID: stage.ID,
		}
		if stage.StartedAt != nil {
			one.StartedAt = stage.StartedAt.Std()
		}
		if stage.FinishedAt != nil {
			one.FinishedAt = stage.FinishedAt.Std()
		}
		if stage.NextAttemptAt != nil {
			one.NextAttemptAt = stage.NextAttemptAt.Std()
		}
		switch stage.Status {
		case status.StageCompleted:
			one.Completed = 1
		case status.StageFailed:
			one.Failed, one.FailedID = 1, stage.ID
		case status.StageCanceled:
			one.Canceled = 1
		case status.StageRunning:
			one.Running = 1
		}
		all[stage.ComponentID] = one
	}
	return all
}

// stageState returns the state of a stage. waits reports whether unfinished stages of its component
// wait for a signal.
func stageState(stage api.RunStage, waits bool) string {
	switch {
	case waits && stage.FinishedAt == nil:
		return stateWaiting
	case stage.Status == status.StageCreated:
		return stateQueued
	}
	return strings.ToLower(string(stage.Status))
}

// nameOf returns the name of a component, or its ID if the name is blank.
func nameOf(id, name string) string {
	if strings.TrimSpace(name) == "" {
		return id
	}
	return name
}

// depthOf returns the number of loops around a component.
func depthOf(plan *graph.Plan, id string) (depth int) {
	for loop := plan.Loop(id); loop != ""; loop = plan.Loop(loop) {
		depth++
	}
	return depth
}

// loopView is the grid of the items of a loop, or the graph of one item.
type loopView struct {
	Graph   *graphic
	Address string // to which an item is appended

	Columns, Cell, Width, Height int // of the grid, in pixels
	Groups                       []itemGroup
	Failing                      []string // the first items with a failure, as in addresses
	Total                        int
}

// itemGroup is the items in a state.
type itemGroup struct {
	State string
	Count int
	Path  string // of the SVG
}

// The size of a grid of items, in pixels.
const (
	gridWidth   = 640
	cellSize    = 16 // of an item in a grid of up to 400 items
	smallCell   = 8
	shownFailed = 20
)

// fill adds items to the grid. outer is the iteration of the loop, as in addresses.
func (l *loopView) fill(items []run.Item, outer string) {
	l.Cell = cellSize
	if len(items) > 400 {
		l.Cell = smallCell
	}
	if outer != "" {
		l.Address += outer + "."
	}
	l.Columns, l.Total = gridWidth/l.Cell, len(items)
	groups := map[string]*strings.Builder{}
	counts := map[string]int{}
	for _, item := range items {
		state := itemState(item)
		if groups[state] == nil {
			groups[state] = &strings.Builder{}
		}
		counts[state]++
		index, side := int(item.Index), l.Cell-2
		fmt.Fprintf(groups[state], "M%d %dh%dv%dh-%dz", index%l.Columns*l.Cell, index/l.Columns*l.Cell, side, side, side)
		if item.Failed && len(l.Failing) < shownFailed {
			l.Failing = append(l.Failing, fmt.Sprint(index))
		}
	}
	for _, state := range []string{stateFailed, stateRunning, stateCanceled, stateCompleted} {
		if counts[state] > 0 {
			l.Groups = append(l.Groups, itemGroup{State: state, Count: counts[state], Path: groups[state].String()})
		}
	}
	if len(items) > 0 {
		last := int(items[len(items)-1].Index)
		l.Width, l.Height = min(l.Columns, last+1)*l.Cell, (last/l.Columns+1)*l.Cell
	}
}

func itemState(item run.Item) string {
	switch {
	case item.Failed:
		return stateFailed
	case item.Unfinished:
		return stateRunning
	case item.Canceled:
		return stateCanceled
	}
	return stateCompleted
}
