package rotation

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/hook"
)

// table is a column with sealed values.
type table struct {
	name    string
	place   func(workspaceID, id uuid.UUID) seal.AAD
	headers func(q *db.Queries, ctx context.Context, conn db.DBTX, each int32) ([][]byte, error)
	page    func(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (page, uuid.UUID, error)
	replace func(ctx context.Context, pool postgres.DB, values []value) (int64, error)
}

// page is the result of scanning a batch of rows in the order of their IDs: the number of rows, and
// the values that are not sealed under the primary key.
type page struct {
	scanned int
	stale   []value
}

// tables lists all columns with sealed values. Outputs of executions and runs are sealed under the
// keys of their workspaces (output_keys).
var tables = []table{
	{"component_executions", execution.SealedAt, (*db.Queries).ExecutionListHeaders, pagesOf((*db.Queries).ExecutionListSealed), replacing((*db.Queries).ExecutionReseal)},
	{"environment_variables", environment.SealedAt, (*db.Queries).VariableListHeaders, pagesOf((*db.Queries).VariableListSealed), replacing((*db.Queries).VariableReseal)},
	{"environment_variables (tokens)", environment.TokenAt, (*db.Queries).VariableTokenListHeaders, pagesOf((*db.Queries).VariableTokenListSealed), replacing((*db.Queries).VariableTokenReseal)},
	{"hooks", hook.SealedAt, (*db.Queries).HookListHeaders, pagesOf((*db.Queries).HookListSealed), replacing((*db.Queries).HookReseal)},
	{"hooks (previous secrets)", hook.PreviousAt, (*db.Queries).HookPreviousListHeaders, pagesOf((*db.Queries).HookPreviousListSealed), replacing((*db.Queries).HookPreviousReseal)},
	{"hooks (verify tokens)", hook.TokenAt, (*db.Queries).HookTokenListHeaders, pagesOf((*db.Queries).HookTokenListSealed), replacing((*db.Queries).HookTokenReseal)},
	{"output_keys", vault.KeyAt, (*db.Queries).OutputKeyListHeaders, pagesOf((*db.Queries).OutputKeyListSealed), replacing((*db.Queries).OutputKeyReseal)},
	{"workflow_runs", environment.SnapshotAt, (*db.Queries).RunListHeaders, pagesOf((*db.Queries).RunListSealed), replacing((*db.Queries).RunReseal)},
	{"workflow_secrets", workflow.SealedAt, (*db.Queries).WorkflowSecretsListHeaders, pagesOf((*db.Queries).WorkflowSecretsListSealed), replacing((*db.Queries).WorkflowSecretsReseal)},
	{"callbacks", callback.SealedAt, (*db.Queries).CallbackListHeaders, pagesOf(listCallbacks), replacing(resealCallbacks)},
}

// sampled is how many of the oldest and of the newest values of each table MissingKeys checks.
const sampled = 200

// MissingKeys returns the IDs of keys that stored values are sealed under and that the ring lacks. It
// samples the oldest and the newest values.
func MissingKeys(ctx context.Context, conn postgres.DB, ring *seal.Keyring) ([]string, error) {
	var missing []string
	for _, t := range tables {
		headers, err := t.headers(db.New(), ctx, conn, sampled)
		if err != nil {
			return nil, fmt.Errorf("read the headers of sealed values: %w", err)
		}
		for _, header := range headers {
			if id, ok := seal.KeyID(header); ok && !ring.Holds(header) && !slices.Contains(missing, id) {
				missing = append(missing, id)
			}
		}
	}
	return missing, nil
}

// pagesOf returns a function that reads pages by a query. The queries of all tables have the same
// parameters and columns.
func pagesOf[Params ~struct {
	Header  []byte
	After   uuid.UUID
	MaxRows int32
}, Row ~struct {
	WorkspaceID uuid.UUID
	ID          uuid.UUID
	Stale       []byte
}](list func(*db.Queries, context.Context, db.DBTX, Params) ([]Row, error)) func(context.Context, postgres.DB, []byte, uuid.UUID) (page, uuid.UUID, error) {
	return func(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (p page, last uuid.UUID, err error) {
		rows, err := list(db.New(), ctx, pool, Params(db.ExecutionListSealedParams{Header: header, After: after, MaxRows: pageSize}))
		for _, of := range rows {
			row := db.ExecutionListSealedRow(of)
			p.scanned++
			if row.Stale != nil {
				p.stale = append(p.stale, value{workspaceID: row.WorkspaceID, id: row.ID, stale: row.Stale})
			}
			last = row.ID
		}
		return p, last, err
	}
}

// replacing returns a function that replaces values by a statement.
func replacing[Params ~struct {
	WorkspaceIds []uuid.UUID
	Ids          []uuid.UUID
	Stale        [][]byte
	Fresh        [][]byte
}](reseal func(*db.Queries, context.Context, db.DBTX, Params) (int64, error)) func(context.Context, postgres.DB, []value) (int64, error) {
	return func(ctx context.Context, pool postgres.DB, values []value) (int64, error) {
		var p db.ExecutionResealParams
		for _, v := range values {
			p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, v.workspaceID), append(p.Ids, v.id)
			p.Stale, p.Fresh = append(p.Stale, v.stale), append(p.Fresh, v.fresh)
		}
		return reseal(db.New(), ctx, pool, Params(p))
	}
}

// The ID of a callback is that of its execution.
func listCallbacks(q *db.Queries, ctx context.Context, conn db.DBTX, p db.CallbackListSealedParams) ([]db.ExecutionListSealedRow, error) {
	rows, err := q.CallbackListSealed(ctx, conn, p)
	all := make([]db.ExecutionListSealedRow, len(rows))
	for i, row := range rows {
		all[i] = db.ExecutionListSealedRow{WorkspaceID: row.WorkspaceID, ID: row.ExecutionID, Stale: row.Stale}
	}
	return all, err
}

func resealCallbacks(q *db.Queries, ctx context.Context, conn db.DBTX, p db.ExecutionResealParams) (int64, error) {
	return q.CallbackReseal(ctx, conn, db.CallbackResealParams{WorkspaceIds: p.WorkspaceIds, ExecutionIds: p.Ids, Stale: p.Stale, Fresh: p.Fresh})
}
