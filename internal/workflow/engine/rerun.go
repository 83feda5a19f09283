package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
)

// Reuse lists the stages and child runs that a rerun reuses of the finished run that it repeats.
type Reuse struct {
	From   uuid.UUID   // the finished run
	Stages []uuid.UUID // stages that are copied
	Done   []string    // components outside of loops whose stages are reused or resumed

	Children map[Place]ResumedChild
}

// EarlierStage is a stage of the finished run that a rerun repeats.
type EarlierStage struct {
	ID          uuid.UUID
	ComponentID string
	Iteration   []int32
	Status      status.Stage
	Port        *string
	ItemCount   *int32
	ChildRunID  *uuid.UUID
}

// ResumedChild is an earlier child run that the child run of a rerun repeats. It includes the
// place of the RUN_WORKFLOW stage.
type ResumedChild struct {
	ComponentID string    `json:"componentId"`
	Iteration   []int32   `json:"iteration"`
	RunID       uuid.UUID `json:"runId"`
}

// ErrNoSuchStage means that a rerun is to start from a stage that the finished run does not have.
var ErrNoSuchStage = errors.New("the run has no such stage")

// Repeat returns what a rerun reuses of a finished run with the same version and input: its stages,
// and the child runs that it was to resume, encoded. from is the first stage to repeat, or nil; changes
// are the loops whose items may have changed. It returns ErrNoSuchStage if from is not
// among the stages.
//
// In each scope, completed stages are reused unless they come after the specified stage, or after
// a stage that did not complete: that stage may have a different outcome this time. A completed
// loop is reused with all its stages. A loop that did not complete, or that contains the specified
// stage, is resumed if its items are the same: its finished items are reused with all their
// stages, and these rules apply to its other items. A RUN_WORKFLOW that did not complete is
// resumed too: its child run repeats the earlier child run.
//
// If the earlier run is itself a rerun, the loops and child runs that it did not reach are resumed
// too.
func Repeat(plan *graph.Plan, stages []EarlierStage, resumed []byte, from *uuid.UUID, changes map[string]bool) (Reuse, error) {
	e := &earlier{plan: plan, stages: make(map[Place]EarlierStage, len(stages)), changes: changes, reuse: Reuse{Children: map[Place]ResumedChild{}}}
	for _, stage := range stages {
		e.stages[PlaceOf(stage.ComponentID, stage.Iteration)] = stage
		if from != nil && stage.ID == *from {
			e.from = &stage
		}
	}
	if from != nil && e.from == nil {
		return Reuse{}, ErrNoSuchStage
	}
	if err := e.addUnreached(stages, resumed); err != nil {
		return Reuse{}, err
	}
	e.scope("", nil)
	return e.reuse, nil
}

// earlier is the finished run that a rerun repeats.
type earlier struct {
	plan    *graph.Plan
	stages  map[Place]EarlierStage
	from    *EarlierStage   // first stage to repeat; nil: reuse all completed stages
	changes map[string]bool // loops whose items may have changed
	reuse   Reuse
}

// addUnreached handles an earlier run that is itself a rerun. It adds, as canceled stages, the
// loops and RUN_WORKFLOW components that the earlier run was to resume and did not reach. It finds
// the loops through the stages in their items.
func (e *earlier) addUnreached(rows []EarlierStage, ResumedChildren []byte) error {
	for _, row := range rows {
		e.addLoops(row.ComponentID, row.Iteration)
	}
	if ResumedChildren == nil {
		return nil
	}
	var children []ResumedChild
	if err := json.Unmarshal(ResumedChildren, &children); err != nil {
		return fmt.Errorf("read the child runs that the earlier run resumes: %w", err)
	}
	for _, c := range children {
		e.addLoops(c.ComponentID, c.Iteration)
		row, ran := e.stages[PlaceOf(c.ComponentID, c.Iteration)]
		if !ran {
			row = EarlierStage{ComponentID: c.ComponentID, Iteration: c.Iteration, Status: status.StageCanceled}
		}
		if row.ChildRunID == nil {
			row.ChildRunID = &c.RunID
		}
		e.stages[PlaceOf(c.ComponentID, c.Iteration)] = row
	}
	return nil
}

// addLoops adds the loops around a stage, with enough items to contain the stage.
func (e *earlier) addLoops(componentID string, iteration []int32) {
	for level, loop := range e.plan.Around(componentID) {
		row, ran := e.stages[PlaceOf(loop, iteration[:level])]
		if !ran {
			row = EarlierStage{ComponentID: loop, Iteration: iteration[:level], Status: status.StageCanceled}
		}
		if count := iteration[level] + 1; row.ItemCount == nil || *row.ItemCount < count {
			row.ItemCount = &count
			e.stages[PlaceOf(loop, iteration[:level])] = row
		}
	}
}

// scope finds what is reused in the root scope, or in an item of a loop that is resumed.
func (e *earlier) scope(loop string, iteration []int32) {
	var again []string
	for _, id := range e.plan.Members(loop) {
		if row, ran := e.stages[PlaceOf(id, iteration)]; ran && (row.Status != status.StageCompleted || e.startsIn(row)) {
			again = append(again, id)
		}
	}
	after := e.plan.After(loop, again...)
	for _, id := range e.plan.Members(loop) {
		row, ran := e.stages[PlaceOf(id, iteration)]
		if !ran || slices.Contains(after, id) {
			continue
		}
		switch {
		case !slices.Contains(again, id):
			e.whole(row)
		case e.from != nil && e.from.ID == row.ID:
			continue
		case row.ChildRunID != nil:
			e.reuse.Children[PlaceOf(id, iteration)] = ResumedChild{id, iteration, *row.ChildRunID}
		case row.ItemCount != nil && !e.changes[id]:
			e.resume(row)
		default:
			continue
		}
		if loop == "" {
			e.reuse.Done = append(e.reuse.Done, id)
		}
	}
}

// startsIn reports whether the run is repeated from this stage, or from a stage in this loop.
func (e *earlier) startsIn(row EarlierStage) bool {
	if e.from == nil || e.from.ID == row.ID {
		return e.from != nil
	}
	level, around := len(row.Iteration), e.plan.Around(e.from.ComponentID)
	return level < len(around) && around[level] == row.ComponentID && slices.Equal(e.from.Iteration[:level], row.Iteration)
}

// resume finds what is reused of a loop that is not reused as a whole.
func (e *earlier) resume(row EarlierStage) {
	for i := range *row.ItemCount {
		item := append(slices.Clone(row.Iteration), i)
		if e.finished(row.ComponentID, item) {
			e.item(row.ComponentID, item)
			continue
		}
		e.scope(row.ComponentID, item)
		if _, module := e.plan.Component(row.ComponentID); module.Repeats {
			return // each iteration depends on the one before it
		}
	}
}

// finished reports whether an item finished and contains no stage to be repeated. An item with a
// handled failure also counts as finished.
func (e *earlier) finished(loop string, iteration []int32) bool {
	states := map[string]graph.State{}
	for _, id := range e.plan.Members(loop) {
		row, ran := e.stages[PlaceOf(id, iteration)]
		if !ran {
			continue
		}
		if row.Status == status.StageCanceled || e.startsIn(row) {
			return false
		}
		states[id] = graph.State{Status: row.Status}
		if row.Port != nil {
			states[id] = graph.State{Status: row.Status, Port: *row.Port}
		}
	}
	next := e.plan.Next(loop, states)
	return next.Done && next.Failed == ""
}

// whole reuses a stage. If the stage is a loop, whole also reuses all stages in the loop.
func (e *earlier) whole(row EarlierStage) {
	e.reuse.Stages = append(e.reuse.Stages, row.ID)
	if row.ItemCount == nil {
		return
	}
	for i := range *row.ItemCount {
		e.item(row.ComponentID, append(slices.Clone(row.Iteration), i))
	}
}

// item reuses all stages of an item.
func (e *earlier) item(loop string, iteration []int32) {
	for _, id := range e.plan.Members(loop) {
		if row, ran := e.stages[PlaceOf(id, iteration)]; ran {
			e.whole(row)
		}
	}
}
