package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/status"
)

// ListParams selects a page of a list (decisions 1.5).
type ListParams struct {
	Limit      int
	Cursor     string
	WorkflowID *uuid.UUID  // only items of this workflow; nil: all
	Allowed    []uuid.UUID // only items of these workflows; empty: all

	// Filters of runs.
	Status  status.Run // empty: all
	Trigger string     // API, SCHEDULE, WEBHOOK or RUN; empty: all
	Created cursor.Created
}

// List returns a page of the workspace's runs, newest first. It returns INVALID_INPUT for an
// invalid cursor and for an empty period.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, p ListParams) (page api.WorkflowRunPage, err error) {
	ids, more, err := cursor.Search(p.Limit, p.Cursor, p.Created, func(least, before uuid.UUID, maxRows int32) ([]db.RunWalkRow, error) {
		return s.walk(ctx, p, db.RunWalkParams{WorkspaceID: workspaceID, Before: before, Least: least, MaxRows: maxRows})
	}, p.match)
	if err != nil {
		return page, fmt.Errorf("list runs: %w", err)
	}
	rows, err := db.New().RunListMany(ctx, s.API, db.RunListManyParams{WorkspaceID: workspaceID, Ids: ids, MaxBytes: maxPageBytes})
	if err != nil {
		return page, fmt.Errorf("list runs: %w", err)
	}
	if len(rows) > 0 && len(rows) < len(ids) {
		more = rows[len(rows)-1].ID
	}
	rows = slices.DeleteFunc(rows, func(row db.RunListManyRow) bool { // changed since the walk
		return p.Status != "" && row.Status != p.Status
	})
	found := make([]db.RunGetRow, len(rows))
	for i, row := range rows {
		found[i] = db.RunGetRow(row)
	}
	if page.Data, err = s.records(ctx, workspaceID, found...); err != nil {
		return page, err
	}
	if more != uuid.Nil {
		page.HasMore, page.NextCursor = true, cursor.Encode(more[:])
	}
	return page, nil
}

// match returns the ID of a run, and reports whether the run matches all filters.
func (p ListParams) match(row db.RunWalkRow) (id uuid.UUID, matches bool) {
	return row.ID, (p.WorkflowID == nil || row.WorkflowID == *p.WorkflowID) &&
		(len(p.Allowed) == 0 || slices.Contains(p.Allowed, row.WorkflowID)) &&
		(p.Status == "" || row.Status == p.Status) &&
		(p.Trigger == "" || row.Trigger == p.Trigger) &&
		p.Created.Has(row.CreatedAt)
}

// walk returns runs, newest first, by the index that skips the most runs which don't match. If no
// filter has an index, walk returns all runs.
func (s *Service) walk(ctx context.Context, p ListParams, all db.RunWalkParams) ([]db.RunWalkRow, error) {
	q, workflowID := db.New(), p.WorkflowID
	if workflowID == nil && len(p.Allowed) == 1 {
		workflowID = &p.Allowed[0]
	}
	switch {
	case p.Status == status.RunFailed:
		return walked(q.RunWalkFailed(ctx, s.API, db.RunWalkFailedParams(all)))
	case p.Status == status.RunCanceled:
		return walked(q.RunWalkCanceled(ctx, s.API, db.RunWalkCanceledParams(all)))
	case p.Status != "" && !p.Status.Terminal():
		return walked(q.RunWalkLive(ctx, s.API, db.RunWalkLiveParams(all)))
	case workflowID != nil:
		return walked(q.RunWalkWorkflow(ctx, s.API, db.RunWalkWorkflowParams{
			WorkspaceID: all.WorkspaceID, WorkflowID: *workflowID, Before: all.Before, Least: all.Least, MaxRows: all.MaxRows,
		}))
	case p.Trigger != "" && p.Trigger != string(api.GivenRunTriggerAPI):
		return walked(q.RunWalkTrigger(ctx, s.API, db.RunWalkTriggerParams{
			WorkspaceID: all.WorkspaceID, Trigger: p.Trigger, Before: all.Before, Least: all.Least, MaxRows: all.MaxRows,
		}))
	}
	return q.RunWalk(ctx, s.API, all)
}

// walked converts the rows of a walk. The results of all walks have the same columns.
func walked[Row interface {
	db.RunWalkFailedRow | db.RunWalkCanceledRow | db.RunWalkLiveRow | db.RunWalkWorkflowRow | db.RunWalkTriggerRow
}](rows []Row, err error) ([]db.RunWalkRow, error) {
	all := make([]db.RunWalkRow, len(rows))
	for i, row := range rows {
		all[i] = db.RunWalkRow(row)
	}
	return all, err
}
