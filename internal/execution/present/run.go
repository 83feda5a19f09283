package present

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// Run returns a run's record (contract 2.3, decisions 8.7) without its stages.
func Run(row db.RunGetRow) api.WorkflowRun {
	return api.WorkflowRun{
		ID: row.ID, WorkflowID: row.WorkflowID, WorkflowVersion: row.WorkflowVersion, Status: row.Status,
		PendingStageCount: row.PendingCount, FailedStageCount: row.FailedCount, TotalUsage: row.Usage, TotalUsageWithChildren: row.Usage + row.UsageBelow,
		Trigger: row.Trigger, Input: row.Input, Metadata: row.Metadata, Output: row.Output, Error: runError(row.Status, row.Error),
		CancelRequestedAt: timestamp.OfPointer(row.CancelRequestedAt), CancelReason: row.CancelReason,
		ParentRunID: row.ParentRunID, TriggerID: row.TriggerID, RerunOf: row.RerunOf,
		CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt), FinishedAt: timestamp.OfPointer(row.FinishedAt),
		RunStages: []api.RunStage{},
	}
}

// runError returns the error of a failed run. It returns nil for a run that is about to fail: its
// stored error is not shown yet.
func runError(s status.Run, why json.RawMessage) json.RawMessage {
	if s != status.RunFailed {
		return nil
	}
	return why
}

// RunStage returns the record of a stage (contract 2.4, decisions 8.7).
func RunStage(row db.RunStageListRow) api.RunStage {
	shown := api.RunStage{
		ID: row.ID, ComponentID: row.ComponentID, Module: row.Module, Name: row.Name, Iteration: row.Iteration,
		Status: status.Stage(row.Status), Output: row.Output, Error: row.Error, CreditUsage: row.Usage, ExecutionAttempt: row.Attempt,
		ExecutionEventID: row.ExecutionID, ChildRunID: row.ChildRunID, ExecutionDispatchedAt: timestamp.OfPointer(row.DispatchedAt),
		StartedAt: timestamp.OfPointer(row.StartedAt), UpdatedAt: timestamp.Of(row.UpdatedAt), FinishedAt: timestamp.OfPointer(row.FinishedAt),
	}
	if row.Retries { // otherwise not_before is the end of a wait in an attempt
		shown.NextAttemptAt = timestamp.OfPointer(row.NotBefore)
	}
	return shown
}

// RunEvent returns an event of a run's log (contract 2.5).
func RunEvent(runID uuid.UUID, row db.RunEventListRow) api.RunEvent {
	return api.RunEvent{
		ID: runID, Seq: row.Seq, Status: row.Status, Output: row.Output, Error: row.Error, Timestamp: timestamp.Of(row.CreatedAt),
	}
}
