package engine

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// Facts answer a need. What is missing from a map does not exist.
type Facts struct {
	States   map[Place]map[string]graph.State // by scope, then component
	Loops    []StoredLoop
	Outputs  map[Place]Value
	Below    map[Place][]IterationValue
	Failed   map[Place][][]int32
	Items    map[uuid.UUID]Items
	First    map[uuid.UUID][]FailedStage
	Above    *Above
	Limits   []Limit
	Children map[uuid.UUID]Child  // by stage
	Results  map[uuid.UUID]Result // by stage; missing: not called, because the advance is full
	Refusal  error                // why the account does not cover a stage of the price Need.Refusal
	Stop     bool                 // the time is up
}

// StoredLoop is the stage of an unfinished loop.
type StoredLoop struct {
	ID          uuid.UUID
	ComponentID string
	Iteration   []int32
	ItemCount   int32
	NextItem    int32 // index of the first item that has not started
	LiveItems   int32
	FailedItems int32
	StartedAt   time.Time
}

// Items are the items of a loop.
type Items struct {
	List   []json.RawMessage
	Secret bool
}

// FailedStage is a stage that failed in an iteration of a loop.
type FailedStage struct {
	ID          uuid.UUID
	ComponentID string
	Iteration   []int32
	Error       []byte
}

// Above describes the runs above a child run.
type Above struct {
	Depth     int // number of runs
	Ending    bool
	Immediate bool
	Children  int // unfinished child runs of the workspace
}

// Limit is a run above this one that has a maxCredits.
type Limit struct {
	ID         uuid.UUID
	Committed  credit.Amount
	Below      credit.Amount
	MaxCredits *credit.Amount
}

// Child is the run that a RUN_WORKFLOW starts.
type Child struct {
	ID      uuid.UUID
	Refusal error // why it cannot start, apart from the limits of the tree; nil: it can
}

// Result is the result of a module that was called for a stage.
type Result struct {
	component.Result
	Err     error
	InTime  bool // false: the call took too long, so there is no result
	Elapsed time.Duration
}

// learn adds the answers to the last need to the known facts.
func (a *Advance) learn(facts Facts) error {
	a.stop = a.stop || facts.Stop
	for p := range a.need.States {
		a.setStates(a.scopes[p], facts.States[p])
	}
	for p := range a.need.Loops {
		a.loops[p] = nil
	}
	for _, row := range facts.Loops {
		if _, err := a.addLoop(row); err != nil {
			return err
		}
	}
	for p := range a.need.Outputs {
		a.values[p] = facts.Outputs[p]
	}
	for p := range a.need.Below {
		a.below[p] = facts.Below[p]
	}
	for p := range a.need.Failed {
		a.failedBelow[p] = facts.Failed[p]
	}
	for key := range a.need.Items {
		a.lists[key.ID] = facts.Items[key.ID]
	}
	for key := range a.need.First {
		a.loops[key.Place].firstFailed = append([]FailedStage{}, facts.First[key.ID]...) // never nil
	}
	if a.need.Refusal > 0 {
		a.refusal = facts.Refusal
	}
	if a.need.Above {
		a.above = facts.Above
	}
	if a.need.Limits {
		a.limits = append([]Limit{}, facts.Limits...) // never nil
	}
	for _, t := range a.need.Children {
		if child, known := facts.Children[t.ID]; known {
			t.starts = &child
		}
	}
	for _, t := range a.need.Calls {
		if result, known := facts.Results[t.ID]; known {
			t.result = &result
			if !result.InTime {
				a.slow++
			}
		}
	}
	return nil
}
