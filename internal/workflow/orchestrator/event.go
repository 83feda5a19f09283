package orchestrator

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// nextEvent returns an event with the state of the run, and counts it.
func (a *advance) nextEvent() (event db.RunEventInsertParams, err error) {
	output, err := a.eventOutput(a.live[:min(len(a.live), shownStages)])
	if err != nil {
		return event, err
	}
	a.row.EventSeq++
	a.events += storage.EventBytes + int64(len(output))
	return db.RunEventInsertParams{
		WorkspaceID: a.row.WorkspaceID, RunID: a.Run.ID, Seq: a.row.EventSeq, Status: a.Run.Status, Output: output, Error: a.shownError(), At: a.unlessFirst(a.At),
	}, nil
}

// shownError returns the error of a run that has failed.
func (a *advance) shownError() json.RawMessage {
	if a.Run.Status == status.RunFailed {
		return a.Run.Error
	}
	return nil
}

// eventOutput returns the output of an event of the run (contract 2.5).
func (a *advance) eventOutput(live []api.NonTerminalStage) (json.RawMessage, error) {
	output, err := strictjson.Encode(api.RunEventOutput{
		TotalUsage: a.Run.Usage, PendingStageCount: a.Run.PendingCount, FailedStageCount: a.Run.FailedCount,
		CancelRequestedAt: timestamp.OfPointer(a.Run.CancelRequestedAt), CancelReason: a.Run.CancelReason, NonTerminalStages: live,
	})
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return output, nil
}

// shownStages is the maximum number of live stages in an event.
const shownStages = 100

// liveAfter returns the stages that are not final after this advance, the oldest first.
func (a *advance) liveAfter() ([]api.NonTerminalStage, error) {
	live := []api.NonTerminalStage{}
	if a.Run.PendingCount == 0 {
		return live, nil
	}
	before, err := a.liveBefore()
	for _, stage := range before {
		if !a.Finished[stage.ID] {
			live = append(live, stage)
		}
	}
	for _, t := range a.Stages {
		if !t.Status.Terminal() {
			stage := api.NonTerminalStage{ID: t.ID, Module: t.Component.Module, Status: t.Status, ExecutionAttempt: 1}
			if t.Execution != nil {
				stage.ExecutionEventID = &t.Execution.ID
			}
			live = append(live, stage)
		}
	}
	return live, err
}

// liveBefore returns the stages that were not final before this advance, with their present status.
func (a *advance) liveBefore() ([]api.NonTerminalStage, error) {
	if a.row.EventSeq == 0 {
		return nil, nil
	}
	if a.Scanned {
		before := make([]api.NonTerminalStage, len(a.Unfinished))
		for i, w := range a.Unfinished {
			before[i] = liveStage(w)
		}
		return before, nil
	}
	if before := a.previous.live; before != nil {
		return before, a.updateProgress(before[:min(len(before), shownStages)])
	}
	rows, err := db.New().StageListWaiting(a.ctx, a.tx, db.StageListWaitingParams{WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, MaxRows: liveKept + 1})
	if err != nil {
		return nil, fmt.Errorf("list unfinished stages: %w", err)
	}
	before := make([]api.NonTerminalStage, len(rows))
	for i, row := range rows {
		before[i] = liveStage(engine.Waiting(row))
	}
	return before, nil
}

// liveStage returns an unfinished stage in the form of an event.
func liveStage(w engine.Waiting) api.NonTerminalStage {
	return api.NonTerminalStage{
		ID: w.ID, Module: w.Module, Status: status.Stage(w.Status), ExecutionEventID: w.ExecutionID, ExecutionAttempt: w.Attempt,
	}
}

// updateProgress updates the stages whose executions have started.
func (a *advance) updateProgress(stages []api.NonTerminalStage) error {
	places := map[uuid.UUID]int{}
	var ids []uuid.UUID
	for i, stage := range stages {
		if stage.ExecutionEventID != nil && !a.Finished[stage.ID] {
			places[*stage.ExecutionEventID] = i
			ids = append(ids, *stage.ExecutionEventID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.New().StageListProgress(a.ctx, a.tx, db.StageListProgressParams{WorkspaceID: a.row.WorkspaceID, Ids: ids})
	if err != nil {
		return fmt.Errorf("read the progress of live stages: %w", err)
	}
	for _, row := range rows {
		stage := &stages[places[row.ID]]
		stage.Status, stage.ExecutionAttempt = status.StageRunning, max(row.Attempt, 1)
	}
	return nil
}
