package execution

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
)

// ListParams selects a page of a list (decisions 1.5).
type ListParams struct {
	Limit   int              // 1..100
	Cursor  string           // NextCursor of the previous page; empty for the first
	Keys    []uuid.UUID      // only executions that these keys submitted; nil: all
	Module  string           // only executions of this module; empty: all
	Status  status.Execution // only executions with this status; empty: all
	Created cursor.Created   // only executions that were created in this period
}

// maxPageBytes limits the bytes of one page. The first execution of a page is always included.
const maxPageBytes = 2_000_000

// List returns a page of the workspace's executions, newest first, without the stages of runs. It
// returns INVALID_INPUT for an invalid cursor, an unknown module, and an empty period.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, p ListParams) (page api.ComponentExecutionPage, err error) {
	if _, known := s.Modules.Lookup(p.Module); p.Module != "" && !known {
		return page, fault.Invalid("/query/module", "%s", s.Modules.Unknown(p.Module))
	}
	ids, more, err := cursor.Search(p.Limit, p.Cursor, p.Created, func(least, before uuid.UUID, maxRows int32) ([]db.ExecutionWalkRow, error) {
		return s.walk(ctx, p, db.ExecutionWalkParams{WorkspaceID: workspaceID, Before: before, Least: least, MaxRows: maxRows})
	}, p.match)
	if err != nil {
		return page, fmt.Errorf("list executions: %w", err)
	}
	rows, err := db.New().ExecutionListMany(ctx, s.DB, db.ExecutionListManyParams{WorkspaceID: workspaceID, Ids: ids, MaxBytes: maxPageBytes})
	if err != nil {
		return page, fmt.Errorf("list executions: %w", err)
	}
	if len(rows) > 0 && len(rows) < len(ids) {
		more = rows[len(rows)-1].ID
	}
	rows = slices.DeleteFunc(rows, func(row db.ExecutionListManyRow) bool { // changed since the walk
		return p.Status != "" && row.Status != p.Status
	})
	page.Data = make([]api.ComponentExecution, len(rows))
	for i, row := range rows {
		shown, err := s.openOutput(ctx, db.ExecutionGetRow(row))
		problem := present.Unopened(err)
		if err != nil && problem == nil {
			return page, err
		}
		page.Data[i] = present.Execution(shown)
		page.Data[i].OutputProblem = problem
	}
	if more != uuid.Nil {
		page.HasMore, page.NextCursor = true, cursor.Encode(more[:])
	}
	return page, nil
}

// match returns the ID of an execution, and reports whether the execution matches all filters.
func (p ListParams) match(row db.ExecutionWalkRow) (id uuid.UUID, matches bool) {
	return row.ID, (p.Keys == nil || row.KeyID != nil && slices.Contains(p.Keys, *row.KeyID)) &&
		(p.Module == "" || row.Module == p.Module) &&
		(p.Status == "" || row.Status == p.Status) &&
		p.Created.Has(row.CreatedAt)
}

// walk returns executions, newest first, by the index that skips the most executions which don't
// match. If no filter has an index, walk returns all executions.
func (s *Service) walk(ctx context.Context, p ListParams, all db.ExecutionWalkParams) ([]db.ExecutionWalkRow, error) {
	q := db.New()
	switch {
	case p.Status == status.ExecutionFailed:
		return walked(q.ExecutionWalkFailed(ctx, s.DB, db.ExecutionWalkFailedParams(all)))
	case p.Status != "" && !p.Status.Terminal():
		return walked(q.ExecutionWalkLive(ctx, s.DB, db.ExecutionWalkLiveParams(all)))
	case p.Module != "":
		return walked(q.ExecutionWalkModule(ctx, s.DB, db.ExecutionWalkModuleParams{
			WorkspaceID: all.WorkspaceID, Module: p.Module, Before: all.Before, Least: all.Least, MaxRows: all.MaxRows,
		}))
	}
	return q.ExecutionWalk(ctx, s.DB, all)
}

// walked converts the rows of a walk. The results of all walks have the same columns.
func walked[Row interface {
	db.ExecutionWalkFailedRow | db.ExecutionWalkLiveRow | db.ExecutionWalkModuleRow
}](rows []Row, err error) ([]db.ExecutionWalkRow, error) {
	all := make([]db.ExecutionWalkRow, len(rows))
	for i, row := range rows {
		all[i] = db.ExecutionWalkRow(row)
	}
	return all, err
}
