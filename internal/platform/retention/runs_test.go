package retention_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/retention"
)

// fillRuns inserts finished runs into a week, each with two stages, two events and a signal.
func (b *books) fillRuns(t *testing.T, week time.Time, runs int) {
	t.Helper()
	b.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id,
			stage_count, event_seq, created_at, updated_at, finished_at)
		SELECT $1::uuid, overlay(least_id($2::timestamptz + n * interval '100 ms')::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid,
			$1::uuid, 1, 'COMPLETED', 'API', '{}', $2, n, 2, 2, $2, $2, $2 FROM generate_series(1, $3::integer) AS n`, b.workspace, week, runs)
	const those = " FROM workflow_runs r, generate_series(1, $2::integer) AS n WHERE r.id >= least_id($1) AND r.id < least_id($1::timestamptz + interval '7 days')"
	b.exec(t, `INSERT INTO run_stages (workspace_id, run_id, id, component_id, module, name, status, created_at, updated_at, finished_at)
		SELECT r.workspace_id, r.id, overlay(r.id::text PLACING '800' || n FROM 20)::uuid, 'c' || n, 'HASH', '', 'COMPLETED', $1, $1, $1`+those, week, 2)
	b.exec(t, "INSERT INTO run_events (workspace_id, run_id, seq, status, output, created_at) SELECT r.workspace_id, r.id, n, 'COMPLETED', '{}', $1"+those, week, 2)
	b.exec(t, "INSERT INTO run_signals (workspace_id, run_id, name, payload, received_at) SELECT r.workspace_id, r.id, 'go', '{}', $1"+those, week, 1)
}

// hasRuns checks that a week's partitions contain what fillRuns inserted.
func (b *books) hasRuns(t *testing.T, week time.Time, runs int) {
	t.Helper()
	for table, want := range map[string]int{"workflow_runs": runs, "run_stages": 2 * runs, "run_events": 2 * runs, "run_signals": runs} {
		if n := b.count(t, partitionOf(table, week)); n != want {
			t.Errorf("%s has %d rows, want %d", partitionOf(table, week), n, want)
		}
	}
}

func (b *books) isGone(t *testing.T, week time.Time) {
	t.Helper()
	for _, table := range weekly {
		if b.count(t, "pg_class WHERE relname = $1", partitionOf(table, week)) != 0 {
			t.Errorf("%s is left", partitionOf(table, week))
		}
	}
}

func TestAWeekWithALiveRunIsKeptAndLaterDroppedWhole(t *testing.T) {
	b := open(t)
	lives, ended := b.week.AddDate(0, 0, -7*5), b.week.AddDate(0, 0, -7*4)
	b.fillRuns(t, lives, 20)
	b.fillRuns(t, ended, 10)
	b.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id, created_at, updated_at)
		SELECT $1, overlay(least_id($2)::text PLACING 'ffff' FROM 20)::uuid, $1, 1, 'EXECUTING', 'API', '{}', $2, 1, $2, $2`, b.workspace, lives)
	b.keep(t, 10*day)
	b.age(t, 11*day)
	if n := b.keep(t, 10*day); n != 1 {
		t.Errorf("%d weeks were dropped, want only the one without live runs", n)
	}
	b.isGone(t, ended)
	if n := b.count(t, partitionOf("workflow_runs", lives)); n != 21 {
		t.Errorf("of the week with a live run %d runs are left, want 21", n)
	}
	if n := b.count(t, "run_stages"); n != 40 {
		t.Errorf("%d stages are left, want 40", n)
	}
	b.exec(t, "UPDATE workflow_runs SET status = 'CANCELED', cancel_requested_at = now(), cancel_mode = 'immediate', finished_at = now() WHERE finished_at IS NULL")
	if n := b.keep(t, 10*day); n != 0 {
		t.Errorf("%d weeks were dropped as soon as their last run ended", n)
	}
	b.age(t, 11*day)
	if n := b.keep(t, retention.Least); n != 1 {
		t.Errorf("%d weeks were dropped after that run's time, want 1", n)
	}
	b.isGone(t, lives)
	for _, table := range []string{"workflow_runs", "run_stages", "run_events", "run_signals"} {
		if n := b.count(t, table); n != 0 {
			t.Errorf("%s has %d rows left", table, n)
		}
	}
}

// The rule must hold however many weeks, runs and stages of other runs exist.
func TestStatementsForOneRunReadOneWeekByTheKey(t *testing.T) {
	b := open(t)
	for n := range 4 {
		b.fill(t, b.week.AddDate(0, 0, -7*n), 500, 10)
		b.fillRuns(t, b.week.AddDate(0, 0, -7*n), 500)
	}
	rows, err := b.owner.Query(t.Context(), "SELECT id FROM component_executions WHERE id >= least_id($1) ORDER BY id LIMIT 2", b.week)
	if err != nil {
		t.Fatal(err)
	}
	executions, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	run := executions[0] // fillRuns uses the same IDs
	b.exec(t, `INSERT INTO run_stages (workspace_id, run_id, id, component_id, module, name, status, execution_id, created_at, updated_at)
		SELECT $1, $2, gen_random_uuid(), 'live' || n, 'HASH', '', 'CREATED', $3, now(), now() FROM generate_series(1, 2) AS n`, b.workspace, run, executions[1])
	least := uuid.Nil
	q, ctx := db.New(), t.Context()
	statements := map[string]func(r *recorder){
		"RunGet": func(r *recorder) { _, _ = q.RunGet(ctx, r, db.RunGetParams{WorkspaceID: b.workspace, ID: run}) },
		"RunStageList": func(r *recorder) {
			_, _ = q.RunStageList(ctx, r, db.RunStageListParams{WorkspaceID: b.workspace, RunID: run, After: least, MaxRows: 100, MaxBytes: 1000})
		},
		"RunEventList": func(r *recorder) {
			_, _ = q.RunEventList(ctx, r, db.RunEventListParams{WorkspaceID: b.workspace, RunID: run, After: 1, MaxRows: 100})
		},
		"RunSignalInsert": func(r *recorder) {
			_, _ = q.RunSignalInsert(ctx, r, db.RunSignalInsertParams{WorkspaceID: b.workspace, RunID: run, Name: "go", Payload: []byte("{}")})
		},
	}
	suffix := strings.TrimPrefix(partition(b.week), "component_executions")
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE component_executions, workflow_runs, run_stages, run_events")
		}
		for name, statement := range statements {
			for _, generic := range []bool{true, false} {
				var r recorder
				statement(&r)
				for _, scan := range b.explain(t, &r, generic) {
					byKey := strings.HasSuffix(scan, "_pkey") || strings.HasPrefix(scan, "workflow_runs") && strings.HasSuffix(scan, "_workspace_id_id_idx")
					if scan == "credit_accounts by credit_accounts_pkey" || strings.Contains(scan, suffix+" by ") && byKey || strings.HasPrefix(scan, "run_stages"+suffix+" for ") || strings.HasPrefix(scan, "run_events"+suffix+" for ") {
						continue
					}
					t.Errorf("%s (generic %v, analyzed %v) scans %s", name, generic, analyzed, scan)
				}
			}
		}
	}
}

// The newest runs are read by the key, and the runs of one workflow by its index, however many
// other runs exist.
func TestListsOfRunsReadOnlyTheirPage(t *testing.T) {
	b := open(t)
	for n := range 3 {
		b.fillRuns(t, b.week.AddDate(0, 0, -7*n), 1000)
	}
	rare := uuid.Must(uuid.NewV7())
	b.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id, created_at, updated_at)
		SELECT $1, overlay(least_id($2)::text PLACING '000' || n FROM 20)::uuid, $3, 1, 'EXECUTING', 'API', '{}', $2, 1, $2, $2
		FROM generate_series(1, 5) AS n`, b.workspace, b.week, rare)
	lists := map[string]func(r *recorder){
		"_pkey": func(r *recorder) {
			_, _ = db.New().RunWalk(t.Context(), r, db.RunWalkParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: 5})
		},
		"_workflow_id_id_idx": func(r *recorder) {
			_, _ = db.New().RunWalkWorkflow(t.Context(), r, db.RunWalkWorkflowParams{WorkspaceID: b.workspace, WorkflowID: rare, Before: uuid.Max, MaxRows: 5})
		},
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE workflow_runs")
		}
		for index, list := range lists {
			for _, generic := range []bool{true, false} {
				var r recorder
				list(&r)
				wanted := partitionOf("workflow_runs", b.week) + " by " + partitionOf("workflow_runs", b.week) + index
				scans := b.explain(t, &r, generic)
				if others := strings.Join(scans, " "); !slices.ContainsFunc(scans, func(scan string) bool { return strings.HasPrefix(scan, wanted) }) || strings.Contains(others, " by Seq") || strings.Contains(others, " past ") {
					t.Errorf("by %s (generic %v, analyzed %v): scans %q", index, generic, analyzed, scans)
				}
			}
		}
	}
}

// newest returns the IDs of the newest rows of a table.
func (b *books) newest(t *testing.T, table string, limit int) []uuid.UUID {
	t.Helper()
	rows, err := b.owner.Query(t.Context(), "SELECT id FROM "+table+" ORDER BY id DESC LIMIT $1", limit)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// The rule must hold however many other rows exist, even before the planner has statistics.
func TestPagesReadOnlyTheirRows(t *testing.T) {
	b := open(t)
	b.fill(t, b.week, 3000, 1)
	b.fillRuns(t, b.week, 3000)
	var large uuid.UUID
	if err := b.owner.QueryRow(t.Context(), "SELECT id FROM workflow_runs ORDER BY id DESC LIMIT 1").Scan(&large); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `INSERT INTO run_stages (workspace_id, run_id, id, component_id, module, name, iteration, status, created_at, updated_at, finished_at)
		SELECT $1, $2, gen_random_uuid(), 'many', 'HASH', '', ARRAY[n], 'COMPLETED', now(), now(), now() FROM generate_series(1, 3000) AS n`, b.workspace, large)
	q, ctx := db.New(), t.Context()
	runs, executions := b.newest(t, "workflow_runs", 101), b.newest(t, "component_executions", 101)
	pages := map[string]func(r *recorder){
		"ExecutionWalk": func(r *recorder) {
			_, _ = q.ExecutionWalk(ctx, r, db.ExecutionWalkParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: 101})
		},
		"ExecutionListMany": func(r *recorder) {
			_, _ = q.ExecutionListMany(ctx, r, db.ExecutionListManyParams{WorkspaceID: b.workspace, Ids: executions, MaxBytes: 1 << 20})
		},
		"RunWalk": func(r *recorder) {
			_, _ = q.RunWalk(ctx, r, db.RunWalkParams{WorkspaceID: b.workspace, Before: uuid.Max, MaxRows: 101})
		},
		"RunListMany": func(r *recorder) {
			_, _ = q.RunListMany(ctx, r, db.RunListManyParams{WorkspaceID: b.workspace, Ids: runs, MaxBytes: 1 << 20})
		},
		"RunStageList": func(r *recorder) {
			_, _ = q.RunStageList(ctx, r, db.RunStageListParams{WorkspaceID: b.workspace, RunID: large, MaxRows: 101, MaxBytes: 1 << 20})
		},
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE component_executions, callbacks, workflow_runs, run_stages")
		}
		for name, page := range pages {
			for _, generic := range []bool{true, false} {
				var r recorder
				page(&r)
				for _, scan := range b.explain(t, &r, generic) {
					if _, many, found := strings.Cut(scan, " for "); found && many != "101 rows at once" || strings.Contains(scan, " past ") {
						t.Errorf("%s (generic %v, analyzed %v) scans %s", name, generic, analyzed, scan)
					}
				}
			}
		}
	}
}

// This must hold however many other runs a workspace has.
func TestRunsAboveAreFoundByTheirKeys(t *testing.T) {
	b := open(t)
	b.fillRuns(t, b.week, 3000)
	b.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id, parent_run_id, parent_stage_id, created_at, updated_at)
		SELECT r.workspace_id, $1, r.workflow_id, 1, 'EXECUTING', 'RUN', '{}', now(), 1, r.id, r.id, now(), now() FROM workflow_runs r ORDER BY r.id DESC LIMIT 1`, b.workspace)
	q, ctx := db.New(), t.Context()
	statements := map[string]func(r *recorder){
		"RunGetAncestors": func(r *recorder) {
			_, _ = q.RunGetAncestors(ctx, r, db.RunGetAncestorsParams{WorkspaceID: b.workspace, ID: b.workspace, MaxDepth: 8})
		},
		"RunCancelTree": func(r *recorder) {
			_, _ = q.RunCancelTree(ctx, r, db.RunCancelTreeParams{WorkspaceID: b.workspace, Ids: []uuid.UUID{b.workspace}, Mode: "graceful", MaxDepth: 8})
		},
		"RunLock": func(r *recorder) {
			_, _ = q.RunLock(ctx, r, db.RunLockParams{WorkspaceID: b.workspace, ID: b.workspace})
		},
		"RunLockAncestors": func(r *recorder) {
			_, _ = q.RunLockAncestors(ctx, r, db.RunLockAncestorsParams{WorkspaceID: b.workspace, ID: b.workspace, MaxDepth: 8})
		},
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE workflow_runs, run_stages")
		}
		for name, statement := range statements {
			for _, generic := range []bool{true, false} {
				var r recorder
				statement(&r)
				for _, scan := range b.explain(t, &r, generic) {
					if strings.Contains(scan, " rows at once") || strings.Contains(scan, " past ") {
						t.Errorf("%s (generic %v, analyzed %v) scans %s", name, generic, analyzed, scan)
					}
				}
			}
		}
	}
}

// An earlier version of Weft leaves the row of a tree in the table when it finishes a root run.
func TestTreesOfFinishedRunsAreDeleted(t *testing.T) {
	b := open(t)
	b.fillRuns(t, b.week, 2)
	b.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id, created_at, updated_at)
		SELECT $1, overlay(least_id($2)::text PLACING 'ffff' FROM 20)::uuid, $1, 1, 'EXECUTING', 'API', '{}', $2, 1, $2, $2`, b.workspace, b.week)
	b.exec(t, "INSERT INTO run_trees (workspace_id, root_run_id, live) SELECT workspace_id, id, 1 FROM workflow_runs")
	b.exec(t, "INSERT INTO run_trees (workspace_id, root_run_id) SELECT $1, least_id('2020-01-01')", b.workspace)
	b.keep(t, 10*day)
	if n := b.count(t, "run_trees"); n != 1 {
		t.Errorf("%d trees are left, want that of the unfinished run", n)
	}
	if n := b.count(t, "run_trees t JOIN workflow_runs r ON r.id = t.root_run_id WHERE r.finished_at IS NULL"); n != 1 {
		t.Errorf("%d trees of unfinished runs are left, want 1", n)
	}
}
