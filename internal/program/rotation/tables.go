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
	{name: "component_executions", place: execution.SealedAt, page: pageOfExecutions, replace: replaceCalls},
	{name: "environment_variables", place: environment.SealedAt, page: pageOfVariables, replace: replaceVariables},
	{name: "hooks", place: hook.SealedAt, page: pageOfHooks, replace: replaceHooks},
	{name: "output_keys", place: vault.KeyAt, page: pageOfOutputKeys, replace: replaceOutputKeys},
	{name: "workflow_runs", place: environment.SnapshotAt, page: pageOfRuns, replace: replaceRuns},
	{name: "workflow_secrets", place: workflow.SealedAt, page: pageOfWorkflows, replace: replaceWorkflowSecrets},
	{name: "callbacks", place: callback.SealedAt, page: pageOfCallbacks, replace: replaceSecrets},
}

// sampled is how many of the oldest and of the newest values of each table MissingKeys checks.
const sampled = 200

// MissingKeys returns the IDs of keys that stored values are sealed under and that the ring lacks. It
// samples the oldest and the newest values.
func MissingKeys(ctx context.Context, conn postgres.DB, ring *seal.Keyring) ([]string, error) {
	calls, err := db.New().ExecutionListHeaders(ctx, conn, sampled)
	if err != nil {
		return nil, fmt.Errorf("read the headers of sealed values: %w", err)
	}
	secrets, err := db.New().CallbackListHeaders(ctx, conn, sampled)
	if err != nil {
		return nil, fmt.Errorf("read the headers of sealed values: %w", err)
	}
	literals, err := db.New().WorkflowSecretsListHeaders(ctx, conn, sampled)
	if err != nil {
		return nil, fmt.Errorf("read the headers of sealed values: %w", err)
	}
	variables, err := db.New().VariableListHeaders(ctx, conn, sampled)
	if err != nil {
		return nil, fmt.Errorf("read the headers of sealed values: %w", err)
	}
	hooks, err := db.New().HookListHeaders(ctx, conn, sampled)
	if err != nil {
		return nil, fmt.Errorf("read the headers of sealed values: %w", err)
	}
	snapshots, err := db.New().RunListHeaders(ctx, conn, sampled)
	if err != nil {
		return nil, fmt.Errorf("read the headers of sealed values: %w", err)
	}
	keys, err := db.New().OutputKeyListHeaders(ctx, conn, sampled)
	if err != nil {
		return nil, fmt.Errorf("read the headers of sealed values: %w", err)
	}
	var missing []string
	for _, header := range slices.Concat(calls, secrets, literals, variables, hooks, snapshots, keys) {
		if id, ok := seal.KeyID(header); ok && !ring.Holds(header) && !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

func pageOfExecutions(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (p page, last uuid.UUID, err error) {
	rows, err := db.New().ExecutionListSealed(ctx, pool, db.ExecutionListSealedParams{Header: header, After: after, MaxRows: pageSize})
	for _, row := range rows {
		p.add(row.WorkspaceID, row.ID, row.Stale)
		last = row.ID
	}
	return p, last, err
}

func pageOfCallbacks(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (p page, last uuid.UUID, err error) {
	rows, err := db.New().CallbackListSealed(ctx, pool, db.CallbackListSealedParams{Header: header, After: after, MaxRows: pageSize})
	for _, row := range rows {
		p.add(row.WorkspaceID, row.ExecutionID, row.Stale)
		last = row.ExecutionID
	}
	return p, last, err
}

func pageOfWorkflows(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (p page, last uuid.UUID, err error) {
	rows, err := db.New().WorkflowSecretsListSealed(ctx, pool, db.WorkflowSecretsListSealedParams{Header: header, After: after, MaxRows: pageSize})
	for _, row := range rows {
		p.add(row.WorkspaceID, row.ID, row.Stale)
		last = row.ID
	}
	return p, last, err
}

func pageOfVariables(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (p page, last uuid.UUID, err error) {
	rows, err := db.New().VariableListSealed(ctx, pool, db.VariableListSealedParams{Header: header, After: after, MaxRows: pageSize})
	for _, row := range rows {
		p.add(row.WorkspaceID, row.ID, row.Stale)
		last = row.ID
	}
	return p, last, err
}

func pageOfHooks(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (p page, last uuid.UUID, err error) {
	rows, err := db.New().HookListSealed(ctx, pool, db.HookListSealedParams{Header: header, After: after, MaxRows: pageSize})
	for _, row := range rows {
		p.add(row.WorkspaceID, row.ID, row.Stale)
		last = row.ID
	}
	return p, last, err
}

func pageOfOutputKeys(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (p page, last uuid.UUID, err error) {
	rows, err := db.New().OutputKeyListSealed(ctx, pool, db.OutputKeyListSealedParams{Header: header, After: after, MaxRows: pageSize})
	for _, row := range rows {
		p.add(row.WorkspaceID, row.ID, row.Stale)
		last = row.ID
	}
	return p, last, err
}

func pageOfRuns(ctx context.Context, pool postgres.DB, header []byte, after uuid.UUID) (p page, last uuid.UUID, err error) {
	rows, err := db.New().RunListSealed(ctx, pool, db.RunListSealedParams{Header: header, After: after, MaxRows: pageSize})
	for _, row := range rows {
		p.add(row.WorkspaceID, row.ID, row.Stale)
		last = row.ID
	}
	return p, last, err
}

func (p *page) add(workspaceID, id uuid.UUID, stale []byte) {
	p.scanned++
	if stale != nil {
		p.stale = append(p.stale, value{workspaceID: workspaceID, id: id, stale: stale})
	}
}

// resealed returns the parameters that each replacing statement takes.
func resealed(values []value) (p db.ExecutionResealParams) {
	for _, v := range values {
		p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, v.workspaceID), append(p.Ids, v.id)
		p.Stale, p.Fresh = append(p.Stale, v.stale), append(p.Fresh, v.fresh)
	}
	return p
}

func replaceCalls(ctx context.Context, pool postgres.DB, values []value) (int64, error) {
	return db.New().ExecutionReseal(ctx, pool, resealed(values))
}

func replaceSecrets(ctx context.Context, pool postgres.DB, values []value) (int64, error) {
	p := resealed(values)
	return db.New().CallbackReseal(ctx, pool, db.CallbackResealParams{WorkspaceIds: p.WorkspaceIds, ExecutionIds: p.Ids, Stale: p.Stale, Fresh: p.Fresh})
}

func replaceWorkflowSecrets(ctx context.Context, pool postgres.DB, values []value) (int64, error) {
	return db.New().WorkflowSecretsReseal(ctx, pool, db.WorkflowSecretsResealParams(resealed(values)))
}

func replaceVariables(ctx context.Context, pool postgres.DB, values []value) (int64, error) {
	return db.New().VariableReseal(ctx, pool, db.VariableResealParams(resealed(values)))
}

func replaceHooks(ctx context.Context, pool postgres.DB, values []value) (int64, error) {
	return db.New().HookReseal(ctx, pool, db.HookResealParams(resealed(values)))
}

func replaceOutputKeys(ctx context.Context, pool postgres.DB, values []value) (int64, error) {
	return db.New().OutputKeyReseal(ctx, pool, db.OutputKeyResealParams(resealed(values)))
}

func replaceRuns(ctx context.Context, pool postgres.DB, values []value) (int64, error) {
	return db.New().RunReseal(ctx, pool, db.RunResealParams(resealed(values)))
}
