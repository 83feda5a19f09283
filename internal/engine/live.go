package engine

import (
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/status"
)

const (
	// shownStages is how many live stages an event names.
	shownStages = 100
	// liveKept bounds the live stages of one run that a process remembers, and runsKept of
	// how many it does.
	liveKept = 1_000
	runsKept = 1_000
)

// liveCache remembers which stages of a run lived at its last event: to ask for them at
// each would make each fold of a wide loop walk what has become of all.
type liveCache struct {
	mu   sync.Mutex
	runs map[uuid.UUID]lived
}

type lived struct {
	seq    int64 // of the event
	stages []api.NonTerminalStage
}

func (c *liveCache) get(run uuid.UUID, seq int64) ([]api.NonTerminalStage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.runs[run]
	return l.stages, ok && l.seq == seq
}

func (c *liveCache) put(run uuid.UUID, seq int64, stages []api.NonTerminalStage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil || len(c.runs) >= runsKept {
		c.runs = map[uuid.UUID]lived{}
	}
	delete(c.runs, run)
	if len(stages) > 0 && len(stages) <= liveKept {
		c.runs[run] = lived{seq, stages}
	}
}

// showLive finds the stages that are not final after this fold, the oldest first.
func (f *fold) showLive() {
	f.live = []api.NonTerminalStage{}
	if f.run.PendingCount == 0 {
		return
	}
	for _, l := range f.ended {
		f.gone[l.id] = true
	}
	for _, stage := range f.before {
		if !f.gone[stage.ID] {
			f.live = append(f.live, stage)
		}
	}
	for _, t := range f.made {
		if !t.status.Terminal() && !t.dropped {
			stage := api.NonTerminalStage{ID: t.id, Module: t.component.Module, Status: t.status, ExecutionAttempt: 1}
			if t.execution != nil {
				stage.ExecutionEventID = &t.execution.ExecutionID
			}
			f.live = append(f.live, stage)
		}
	}
}

// livedBefore are the stages that lived before this fold, as far as they are now.
func (f *fold) livedBefore() ([]api.NonTerminalStage, error) {
	before, known := f.engine.lives.get(f.run.ID, f.run.EventSeq)
	if f.run.EventSeq == 0 {
		return nil, nil
	}
	if known {
		return before, f.progress(before[:min(len(before), shownStages)])
	}
	rows, err := db.New().StageListLive(f.ctx, f.tx, db.StageListLiveParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, MaxRows: liveKept + 1})
	if err != nil {
		return nil, fmt.Errorf("list live stages: %w", err)
	}
	for _, row := range rows {
		before = append(before, api.NonTerminalStage{
			ID: row.ID, Module: row.Module, Status: status.Stage(row.Status), ExecutionEventID: row.ExecutionID, ExecutionAttempt: row.Attempt,
		})
	}
	return before, nil
}

// progress notes which of the stages run by now.
func (f *fold) progress(stages []api.NonTerminalStage) error {
	places := map[uuid.UUID]int{}
	var ids []uuid.UUID
	for i, stage := range stages {
		if stage.ExecutionEventID != nil && !f.gone[stage.ID] {
			places[*stage.ExecutionEventID] = i
			ids = append(ids, *stage.ExecutionEventID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.New().StageListProgress(f.ctx, f.tx, db.StageListProgressParams{WorkspaceID: f.run.WorkspaceID, Ids: ids})
	if err != nil {
		return fmt.Errorf("look at live stages: %w", err)
	}
	for _, row := range rows {
		stage := &stages[places[row.ID]]
		stage.Status, stage.ExecutionAttempt = status.StageRunning, max(row.Attempt, 1)
	}
	return nil
}
