package retention_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
)

// fillFilters inserts rows which lists with filters must find among those of fill and fillRuns: 40
// runs and 40 executions, ten of each kind.
func (b *books) fillFilters(t *testing.T) {
	t.Helper()
	b.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id, error, cancel_requested_at, cancel_mode, created_at, updated_at, finished_at)
		SELECT $1::uuid, overlay(least_id($2::timestamptz + n * interval '1 minute')::text PLACING 'ffff' FROM 20)::uuid, $1::uuid, 1, k.status, k.trigger, '{}', $2, 1,
			CASE WHEN k.status = 'FAILED' THEN '{}'::json END, CASE WHEN k.status = 'CANCELED' THEN $2::timestamptz END, CASE WHEN k.status = 'CANCELED' THEN 'graceful' END,
			$2, $2, CASE WHEN k.status <> 'EXECUTING' THEN $2::timestamptz END
		FROM generate_series(1, 40) AS n
		JOIN (VALUES (0, 'FAILED', 'API'), (1, 'CANCELED', 'API'), (2, 'EXECUTING', 'API'), (3, 'COMPLETED', 'SCHEDULE')) AS k (kind, status, trigger) ON k.kind = n % 4`,
		b.workspace, b.week)
	b.exec(t, `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, attempt, job_id, run_id, parked, error, created_at, updated_at, finished_at)
		SELECT $1::uuid, overlay(least_id($2::timestamptz + n * interval '1 minute')::text PLACING 'ffff' FROM 20)::uuid, k.module, k.status, '', 1, 1, 1, NULL, k.parked,
			CASE WHEN k.status = 'FAILED' THEN '{}'::json END, $2, $2, CASE WHEN k.status = 'FAILED' THEN $2::timestamptz END
		FROM generate_series(1, 40) AS n
		JOIN (VALUES (0, 'HASH', 'FAILED', false), (1, 'HASH', 'CREATED', true), (2, 'HASH', 'EXECUTING', false), (3, 'RARE', 'FAILED', false)) AS k (kind, module, status, parked) ON k.kind = n % 4`,
		b.workspace, b.week)
}

// A list with a filter reads only rows that match, by the index of the filter, however many others
// exist, and even before the planner has statistics.
func TestFiltersReadOnlyTheirRows(t *testing.T) {
	b := open(t)
	const many = 3000
	b.fillRuns(t, b.week, many)
	b.fill(t, b.week, many, many)
	b.exec(t, `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, attempt, job_id, run_id, output, created_at, updated_at, finished_at)
		SELECT workspace_id, overlay(id::text PLACING 'eeee' FROM 20)::uuid, module, status, call, attempts, attempt, job_id, $1, output, created_at, updated_at, finished_at
		FROM component_executions`, b.workspace)
	b.fillFilters(t)
	q, ctx, max := db.New(), t.Context(), int32(2*many+1)
	lists := []struct {
		name, index string // the end of the definition of the index
		list        func(r *recorder)
	}{
		{"unfinished runs", "(workspace_id, id) WHERE (finished_at IS NULL)", func(r *recorder) {
			_, _ = q.RunWalkLive(ctx, r, db.RunWalkLiveParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: max})
		}},
		{"failed runs", "(workspace_id, id) WHERE ((finished_at IS NOT NULL) AND (error IS NOT NULL))", func(r *recorder) {
			_, _ = q.RunWalkFailed(ctx, r, db.RunWalkFailedParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: max})
		}},
		{"canceled runs", "(workspace_id, id) WHERE ((finished_at IS NOT NULL) AND (cancel_requested_at IS NOT NULL))", func(r *recorder) {
			_, _ = q.RunWalkCanceled(ctx, r, db.RunWalkCanceledParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: max})
		}},
		{"scheduled runs", "(workspace_id, trigger, id) WHERE (trigger <> 'API'::text)", func(r *recorder) {
			_, _ = q.RunWalkTrigger(ctx, r, db.RunWalkTriggerParams{WorkspaceID: b.workspace, Before: uuid.Max, Trigger: "SCHEDULE", MaxRows: max})
		}},
		{"executions", "(workspace_id, id) WHERE (run_id IS NULL)", func(r *recorder) {
			_, _ = q.ExecutionWalk(ctx, r, db.ExecutionWalkParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: max})
		}},
		{"failed executions", "(workspace_id, id) WHERE ((run_id IS NULL) AND (error IS NOT NULL))", func(r *recorder) {
			_, _ = q.ExecutionWalkFailed(ctx, r, db.ExecutionWalkFailedParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: max})
		}},
		{"executions of a module", "(workspace_id, module, id) WHERE (run_id IS NULL)", func(r *recorder) {
			_, _ = q.ExecutionWalkModule(ctx, r, db.ExecutionWalkModuleParams{WorkspaceID: b.workspace, Before: uuid.Max, Module: "RARE", MaxRows: max})
		}},
		{"unfinished executions", "(workspace_id, id) WHERE parked", func(r *recorder) {
			_, _ = q.ExecutionWalkLive(ctx, r, db.ExecutionWalkLiveParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: max})
		}},
		{"unfinished executions that are not parked", "(id) WHERE ((finished_at IS NULL) AND (NOT parked))", func(r *recorder) {
			_, _ = q.ExecutionWalkLive(ctx, r, db.ExecutionWalkLiveParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: max})
		}},
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE workflow_runs, component_executions")
		}
		for _, l := range lists {
			for _, generic := range []bool{true, false} {
				var r recorder
				l.list(&r)
				scans := b.explain(t, &r, generic)
				if !slices.ContainsFunc(scans, func(scan string) bool { return b.scansBy(t, scan, l.index) }) || strings.Contains(strings.Join(scans, " "), " past ") {
					t.Errorf("%s (generic %v, analyzed %v): scans %q", l.name, generic, analyzed, scans)
				}
			}
		}
	}
}

// scansBy reports whether a scan uses an index of this week's partition with this definition.
func (b *books) scansBy(t *testing.T, scan, definition string) bool {
	t.Helper()
	table, index, found := strings.Cut(scan, " by ")
	if !found || table != partitionOf("workflow_runs", b.week) && table != partitionOf("component_executions", b.week) {
		return false
	}
	return b.count(t, "pg_indexes WHERE indexname = $1 AND indexdef LIKE $2", index, fmt.Sprintf("%%USING btree %s", definition)) == 1
}
