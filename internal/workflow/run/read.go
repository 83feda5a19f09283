package run

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// maxPageBytes limits the bytes of a page. The first row is always included. A page may therefore
// have fewer rows than its limit.
const maxPageBytes = 2_000_000

// Access reports which workflows the caller's key may use.
type Access interface {
	MayUse(workflowID uuid.UUID) bool
}

// get returns the row of a run. It returns NOT_FOUND if the ID is unknown or belongs to another
// workspace.
func (s *Service) get(ctx context.Context, key notify.Key) (db.RunGetRow, error) {
	row, err := db.New().RunGet(ctx, s.API, db.RunGetParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return row, errNoRun
	}
	if err != nil {
		return row, fmt.Errorf("read run: %w", err)
	}
	return row, nil
}

var (
	errNoRun = fault.New(fault.NotFound, "There is no run with this ID.")
	// ErrOtherWorkflow is the FORBIDDEN error for a key that is restricted to other workflows.
	ErrOtherWorkflow = &fault.Error{Code: fault.Forbidden, Reason: "workflow_not_allowed", Message: "This API key may not use this workflow."}
)

// getAllowed returns the row of a run if the caller may use its workflow (decisions 2.8). It
// returns the errors of get, and ErrOtherWorkflow.
func (s *Service) getAllowed(ctx context.Context, key notify.Key, access Access) (db.RunGetRow, error) {
	row, err := s.get(ctx, key)
	if err == nil && !access.MayUse(row.WorkflowID) {
		return row, ErrOtherWorkflow
	}
	return row, err
}

// Get returns the record of a run without its stages, which Stages returns. It returns NOT_FOUND
// if the run is unknown, and ErrOtherWorkflow if the key may not use the run's workflow.
func (s *Service) Get(ctx context.Context, key notify.Key, access Access) (api.WorkflowRun, error) {
	row, err := s.getAllowed(ctx, key, access)
	if err != nil {
		return api.WorkflowRun{}, err
	}
	return s.record(ctx, key.WorkspaceID, row)
}

// record returns the record of a run without its stages.
func (s *Service) record(ctx context.Context, workspaceID uuid.UUID, row db.RunGetRow) (shown api.WorkflowRun, err error) {
	records, err := s.records(ctx, workspaceID, row)
	if err != nil {
		return shown, err
	}
	return records[0], nil
}

// records returns the records of runs without their stages.
func (s *Service) records(ctx context.Context, workspaceID uuid.UUID, rows ...db.RunGetRow) ([]api.WorkflowRun, error) {
	callbacks, err := s.callbacks(ctx, workspaceID, rows)
	if err != nil {
		return nil, err
	}
	records := make([]api.WorkflowRun, len(rows))
	for i, row := range rows {
		if records[i], err = orchestrator.Record(ctx, s.Vault, workspaceID, row); err != nil {
			return nil, err
		}
		records[i].Callback = callbacks[row.ID]
	}
	return records, nil
}

// stage returns the record of a stage. If the output cannot be decrypted, the record contains the
// reason instead. In the output of the trigger, the secrets of the run's input are redacted.
func (s *Service) stage(ctx context.Context, key notify.Key, row db.RunStageListRow) (shown api.RunStage, err error) {
	source := row.ID
	if row.ChildRunID != nil {
		source = *row.ChildRunID
	}
	if row.ExecutionID != nil {
		source = *row.ExecutionID
	}
	output, problem, err := s.openOutput(ctx, key.WorkspaceID, source, row.Output)
	if err == nil && problem == nil && vault.Sealed(row.Output) && s.isTrigger(row.Module) {
		output, problem, err = s.triggerOutput(ctx, key, row.Module, output)
	}
	if err != nil {
		return shown, err
	}
	row.Output = output
	shown = present.RunStage(row)
	shown.OutputProblem = problem
	return shown, nil
}

// isTrigger reports whether a module is a trigger.
func (s *Service) isTrigger(module string) bool {
	entry, known := s.Modules.Lookup(module)
	return known && entry.Flow().Trigger
}

// triggerOutput redacts the secrets of the run's input in the output of its trigger. If the input
// cannot be decrypted, triggerOutput returns the reason (decisions 8.14).
func (s *Service) triggerOutput(ctx context.Context, key notify.Key, module string, output json.RawMessage) (json.RawMessage, *api.OutputProblem, error) {
	row, err := s.get(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	input, hidden, err := orchestrator.OpenInput(ctx, s.Vault, key.WorkspaceID, key.ID, row.Input)
	if problem := present.Unopened(err); problem != nil {
		return nil, problem, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return engine.HideInput(module, row.Trigger, output, input, hidden), nil, nil
}

// openOutput decrypts a stored output. If decryption fails for a known reason, openOutput returns
// the reason as a problem instead of an error, so that one lost key does not hide the other
// outputs of a page.
func (s *Service) openOutput(ctx context.Context, workspaceID, source uuid.UUID, stored json.RawMessage) (output json.RawMessage, problem *api.OutputProblem, err error) {
	output, err = s.Vault.OpenJSON(ctx, vault.Place{WorkspaceID: workspaceID, Row: source, Field: vault.Output}, stored)
	if problem = present.Unopened(err); problem != nil {
		return nil, problem, nil
	}
	return output, nil, err
}

// Stages returns all stages of a run in the order in which they were created. It reads the stages
// in pages, so that memory does not grow with their number.
func (s *Service) Stages(ctx context.Context, key notify.Key) iter.Seq2[api.RunStage, error] {
	return func(yield func(api.RunStage, error) bool) {
		p := db.RunStageListParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, MaxRows: 500, MaxBytes: maxPageBytes / 2}
		for {
			rows, err := db.New().RunStageList(ctx, s.API, p)
			if err != nil {
				yield(api.RunStage{}, fmt.Errorf("list stages: %w", err))
				return
			}
			for _, row := range rows {
				if shown, err := s.stage(ctx, key, row); !yield(shown, err) || err != nil {
					return
				}
				p.After = row.ID
			}
			if len(rows) == 0 || rows[0].Found == int64(len(rows)) && len(rows) < int(p.MaxRows) {
				return
			}
		}
	}
}

// StageParams selects a page of a run's stages.
type StageParams struct {
	Limit      int
	Cursor     string
	StageID    *uuid.UUID // only this stage; nil: all
	Components []string   // only stages of these components; nil: all
	Iteration  []int32    // only stages whose iteration starts with it; nil: all
}

// StagePage returns a page of a run's stages, in the order in which they were created.
func (s *Service) StagePage(ctx context.Context, key notify.Key, access Access, p StageParams) (page api.RunStagePage, err error) {
	var after uuid.UUID
	if p.Cursor != "" {
		place, err := cursor.Decode(p.Cursor, len(after))
		if err != nil {
			return page, err
		}
		after = uuid.UUID(place)
	}
	if _, err := s.getAllowed(ctx, key, access); err != nil {
		return page, err
	}
	rows, err := db.New().RunStageList(ctx, s.API, db.RunStageListParams{
		WorkspaceID: key.WorkspaceID, RunID: key.ID, After: after, MaxRows: int32(p.Limit) + 1, MaxBytes: maxPageBytes,
		OnlyID: p.StageID, ComponentIds: p.Components, Iteration: p.Iteration,
	})
	if err != nil {
		return page, fmt.Errorf("list stages: %w", err)
	}
	page.Data = make([]api.RunStage, 0, len(rows))
	for _, row := range rows[:min(len(rows), p.Limit)] {
		shown, err := s.stage(ctx, key, row)
		if err != nil {
			return page, err
		}
		page.Data = append(page.Data, shown)
	}
	if len(rows) > 0 && rows[0].Found > int64(len(page.Data)) {
		last := page.Data[len(page.Data)-1].ID
		page.HasMore, page.NextCursor = true, cursor.Encode(last[:])
	}
	return page, nil
}

// EventPage returns a page of a run's events in order. The page starts after the cursor or, without
// a cursor, after the event with the sequence number afterSeq.
func (s *Service) EventPage(ctx context.Context, key notify.Key, access Access, p ListParams, afterSeq int64) (page api.RunEventPage, err error) {
	if p.Cursor != "" {
		place, err := cursor.Decode(p.Cursor, 8)
		if err != nil {
			return page, err
		}
		afterSeq = int64(binary.BigEndian.Uint64(place))
	}
	if _, err := s.getAllowed(ctx, key, access); err != nil {
		return page, err
	}
	rows, err := s.events(ctx, key, afterSeq, p.Limit+1)
	if err != nil {
		return page, err
	}
	page.Data = make([]api.RunEvent, 0, len(rows))
	for _, row := range rows[:min(len(rows), p.Limit)] {
		page.Data = append(page.Data, present.RunEvent(key.ID, row))
	}
	if len(rows) > p.Limit {
		place := binary.BigEndian.AppendUint64(nil, uint64(page.Data[p.Limit-1].Seq))
		page.HasMore, page.NextCursor = true, cursor.Encode(place)
	}
	return page, nil
}

// events returns the events of a run after the event with the sequence number afterSeq, up to
// limit.
func (s *Service) events(ctx context.Context, key notify.Key, afterSeq int64, limit int) ([]db.RunEventListRow, error) {
	rows, err := db.New().RunEventList(ctx, s.API, db.RunEventListParams{
		WorkspaceID: key.WorkspaceID, RunID: key.ID, After: afterSeq, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return rows, nil
}

// await waits until changed reports that a run has finished or responded, and returns the run's
// record. When the window has passed or the process drains, it returns the current record.
func (s *Service) await(ctx context.Context, changed *notify.Subscription, window time.Duration) (api.WorkflowRun, error) {
	timer := time.NewTimer(window)
	defer timer.Stop()
	for {
		late := false
		select {
		case <-changed.C():
			if changed.Value() == orchestrator.Unanswered {
				continue
			}
		case <-timer.C:
			late = true
		case <-s.Draining:
			late = true
		case <-ctx.Done():
			return api.WorkflowRun{}, ctx.Err()
		}
		row, err := s.get(ctx, changed.Key())
		if err != nil {
			return api.WorkflowRun{}, err
		}
		if late || answered(row) {
			return s.record(ctx, changed.Key().WorkspaceID, row)
		}
	}
}

// answered reports whether a run has finished or responded, so that no caller has to wait any
// longer.
func answered(row db.RunGetRow) bool { return row.Status.Terminal() || row.Output != nil }
