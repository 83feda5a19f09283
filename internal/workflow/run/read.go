package run

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// maxPageBytes is how much one page holds, a single row aside: it then ends before its
// limit.
const maxPageBytes = 2 << 20

// Access is who asks: a workspace's key and the workflows that it may be used on.
type Access interface {
	MayUse(workflowID uuid.UUID) bool
}

// get is the row of a run. NOT_FOUND for an unknown id and for another workspace's alike.
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
	errNoRun = fault.New(fault.NotFound, "There is no run with this id.")
	// ErrOtherWorkflow refuses a key that is restricted to other workflows, whether a path
	// names the workflow or one of its runs.
	ErrOtherWorkflow = &fault.Error{Code: fault.Forbidden, Reason: "workflow_not_allowed", Message: "This API key may not use this workflow."}
)

// allowed is get for whoever may use the run's workflow (decisions 2.8).
func (s *Service) allowed(ctx context.Context, key notify.Key, who Access) (db.RunGetRow, error) {
	row, err := s.get(ctx, key)
	if err == nil && !who.MayUse(row.WorkflowID) {
		return row, ErrOtherWorkflow
	}
	return row, err
}

// Get is the present record of a run without its stages, for Stages gives them. FORBIDDEN
// where the key may not be used on its workflow.
func (s *Service) Get(ctx context.Context, key notify.Key, who Access) (api.WorkflowRun, error) {
	row, err := s.allowed(ctx, key, who)
	if err != nil {
		return api.WorkflowRun{}, err
	}
	return s.record(ctx, key.WorkspaceID, row)
}

// record is the record of a run: with its output whole, or why that cannot be opened, and its
// input but for what of it is secret.
func (s *Service) record(ctx context.Context, workspaceID uuid.UUID, row db.RunGetRow) (shown api.WorkflowRun, err error) {
	output, problem, err := s.open(ctx, workspaceID, row.ID, row.Output)
	if err != nil {
		return shown, err
	}
	row.Output = output
	input, hidden, err := engine.OpenInput(ctx, s.Vault, workspaceID, row.ID, row.Input)
	if err != nil {
		return shown, err
	}
	row.Input = component.Redact(input, hidden)
	shown = present.Run(row)
	shown.OutputProblem = problem
	return shown, nil
}

// stage is the record of a stage of a run, or why its output cannot be opened. The output is
// whole, but for the secrets of the run's input in that of its trigger.
func (s *Service) stage(ctx context.Context, key notify.Key, row db.RunStageListRow) (shown api.RunStage, err error) {
	source := row.ID
	if row.ChildRunID != nil {
		source = *row.ChildRunID
	}
	if row.ExecutionID != nil {
		source = *row.ExecutionID
	}
	output, problem, err := s.open(ctx, key.WorkspaceID, source, row.Output)
	if err == nil && problem == nil && vault.Sealed(row.Output) && s.begins(row.Module) {
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

// begins reports whether runs begin at a component of this module.
func (s *Service) begins(module string) bool {
	entry, known := s.Modules.Lookup(module)
	return known && entry.Flow().Trigger
}

// triggerOutput returns the output of a run's trigger without what is secret of the run's
// input, or why that cannot be opened (decisions 8.14).
func (s *Service) triggerOutput(ctx context.Context, key notify.Key, module string, output json.RawMessage) (json.RawMessage, *api.OutputProblem, error) {
	row, err := s.get(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	input, hidden, err := engine.OpenInput(ctx, s.Vault, key.WorkspaceID, key.ID, row.Input)
	if problem := present.Unopened(err); problem != nil {
		return nil, problem, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return engine.HideInput(module, output, input, hidden), nil, nil
}

// open is an output as it is shown, and nothing where it cannot be opened: a run has many, and
// those that can be are not to go with it.
func (s *Service) open(ctx context.Context, workspaceID, source uuid.UUID, stored json.RawMessage) (output json.RawMessage, problem *api.OutputProblem, err error) {
	output, err = s.Vault.OpenJSON(ctx, vault.Place{WorkspaceID: workspaceID, Row: source, Field: vault.Output}, stored)
	if problem = present.Unopened(err); problem != nil {
		return nil, problem, nil
	}
	return output, nil, err
}

// Stages are all stages of a run in the order in which they were made, read in pages, so
// that a run of 50,000 takes no more memory than one of 100.
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

// ListParams is a page of a list (decisions 1.5).
type ListParams struct {
	Limit      int
	Cursor     string
	WorkflowID *uuid.UUID  // of runs: of this workflow only
	Allowed    []uuid.UUID // of runs: of these workflows only; empty: of all
	Status     *string     // of runs: in this state only
}

// List is the workspace's runs, newest first. INVALID_INPUT for a cursor that no page
// gave out.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, p ListParams) (page api.WorkflowRunPage, err error) {
	before, err := cursor.Before(p.Cursor)
	if err != nil {
		return page, err
	}
	ids, more, err := s.choose(ctx, workspaceID, before, p)
	if err != nil {
		return page, fmt.Errorf("list runs: %w", err)
	}
	rows, err := db.New().RunListMany(ctx, s.API, db.RunListManyParams{WorkspaceID: workspaceID, Ids: ids, MaxBytes: maxPageBytes})
	if err != nil {
		return page, fmt.Errorf("list runs: %w", err)
	}
	page.Data = make([]api.WorkflowRun, len(rows))
	for i, row := range rows {
		if page.Data[i], err = s.record(ctx, workspaceID, db.RunGetRow(row)); err != nil {
			return page, err
		}
	}
	if len(rows) > 0 && len(rows) < len(ids) {
		more = rows[len(rows)-1].ID
	}
	if more != uuid.Nil {
		page.HasMore, page.NextCursor = true, cursor.Encode(more[:])
	}
	return page, nil
}

// A list that walks past runs which it is not to show goes on with so many at a time, for so
// long before it gives out a page that is not full.
const (
	maxWalked = 5_000
	maxWalk   = 500 * time.Millisecond
)

// choose finds the runs of a page, and after which of all runs there may be more; none: nil.
func (s *Service) choose(ctx context.Context, workspaceID, before uuid.UUID, p ListParams) (ids []uuid.UUID, more uuid.UUID, err error) {
	for most, began := p.Limit+1, time.Now(); ; most = maxWalked {
		rows, err := s.walk(ctx, workspaceID, before, p.WorkflowID, int32(most))
		if err != nil {
			return nil, more, err
		}
		for _, row := range rows {
			before = row.ID
			if p.Status != nil && string(row.Status) != *p.Status || len(p.Allowed) > 0 && !slices.Contains(p.Allowed, row.WorkflowID) {
				continue
			}
			if len(ids) == p.Limit {
				return ids, ids[p.Limit-1], nil
			}
			ids = append(ids, row.ID)
		}
		if len(rows) < most {
			return ids, uuid.Nil, nil
		}
		if time.Since(began) > maxWalk {
			return ids, before, nil
		}
	}
}

// walk is the runs after one, newest first; of a workflow where that is named.
func (s *Service) walk(ctx context.Context, workspaceID, before uuid.UUID, workflowID *uuid.UUID, most int32) ([]db.RunWalkRow, error) {
	if workflowID == nil {
		return db.New().RunWalk(ctx, s.API, db.RunWalkParams{WorkspaceID: workspaceID, Before: before, MaxRows: most})
	}
	rows, err := db.New().RunWalkWorkflow(ctx, s.API, db.RunWalkWorkflowParams{WorkspaceID: workspaceID, WorkflowID: *workflowID, Before: before, MaxRows: most})
	walked := make([]db.RunWalkRow, len(rows))
	for i, row := range rows {
		walked[i] = db.RunWalkRow(row)
	}
	return walked, err
}

// StagePage is a page of a run's stages, in the order in which they were made.
func (s *Service) StagePage(ctx context.Context, key notify.Key, who Access, p ListParams) (page api.RunStagePage, err error) {
	var after uuid.UUID
	if p.Cursor != "" {
		place, err := cursor.Decode(p.Cursor, len(after))
		if err != nil {
			return page, err
		}
		after = uuid.UUID(place)
	}
	if _, err := s.allowed(ctx, key, who); err != nil {
		return page, err
	}
	rows, err := db.New().RunStageList(ctx, s.API, db.RunStageListParams{
		WorkspaceID: key.WorkspaceID, RunID: key.ID, After: after, MaxRows: int32(p.Limit) + 1, MaxBytes: maxPageBytes,
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

// EventPage is a page of a run's log, in its order, after the event that is named or the
// cursor.
func (s *Service) EventPage(ctx context.Context, key notify.Key, who Access, p ListParams, after int64) (page api.RunEventPage, err error) {
	if p.Cursor != "" {
		place, err := cursor.Decode(p.Cursor, 8)
		if err != nil {
			return page, err
		}
		after = int64(binary.BigEndian.Uint64(place))
	}
	if _, err := s.allowed(ctx, key, who); err != nil {
		return page, err
	}
	rows, err := s.events(ctx, key, after, p.Limit+1)
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

func (s *Service) events(ctx context.Context, key notify.Key, after int64, limit int) ([]db.RunEventListRow, error) {
	rows, err := db.New().RunEventList(ctx, s.API, db.RunEventListParams{
		WorkspaceID: key.WorkspaceID, RunID: key.ID, After: after, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return rows, nil
}

// await is the record of a run once it is over or has responded, which changed tells, or
// after the window.
func (s *Service) await(ctx context.Context, changed *notify.Subscription, window time.Duration) (api.WorkflowRun, error) {
	timer := time.NewTimer(window)
	defer timer.Stop()
	for {
		late := false
		select {
		case <-changed.C():
			if changed.Value() == engine.Unanswered {
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
		if late || over(row) {
			return s.record(ctx, changed.Key().WorkspaceID, row)
		}
	}
}

// over reports whether whoever waits for the run waits no longer: it has ended or responded.
func over(row db.RunGetRow) bool { return row.Status.Terminal() || row.Output != nil }
