package retention_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/gen/db"
)

// recorder records a statement instead of running it.
type recorder struct {
	sql  string
	args []any
}

var errRecorded = errors.New("recorded only")

func (r *recorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r.sql, r.args = sql, args
	return pgconn.CommandTag{}, errRecorded
}

func (r *recorder) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	_, err := r.Exec(ctx, sql, args...)
	return nil, err
}

func (r *recorder) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	_, _ = r.Exec(ctx, sql, args...)
	return noRow{}
}

type noRow struct{}

func (noRow) Scan(...any) error { return errRecorded }

// step is a node of an analyzed plan.
type step struct {
	NodeType string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Loops    float64 `json:"Actual Loops"`
	Rows     float64 `json:"Actual Rows"` // of each loop
	Filtered float64 `json:"Rows Removed by Filter"`
	Plans    []step  `json:"Plans"`
}

// touched collects the scans of tables that were executed, as "table by index".
func (s step) touched(into map[string]bool) {
	if s.Relation != "" && s.Loops > 0 && strings.Contains(s.NodeType, "Scan") {
		how := s.Index
		if how == "" {
			how = s.NodeType
		}
		into[s.Relation+" by "+how] = true
		if s.Rows > 1 {
			into[fmt.Sprintf("%s for %.0f rows at once", s.Relation, s.Rows)] = true
		}
		if s.Filtered > 100 {
			into[fmt.Sprintf("%s past %.0f rows", s.Relation, s.Filtered)] = true
		}
	}
	for _, child := range s.Plans {
		child.touched(into)
	}
}

// explain runs a statement in a transaction that is rolled back, and returns the tables that the
// statement scanned. If generic is set, PostgreSQL uses a generic plan, as it does for prepared
// statements after some executions.
func (b *books) explain(t *testing.T, r *recorder, generic bool) []string {
	t.Helper()
	mode := "force_custom_plan"
	if generic {
		mode = "force_generic_plan"
	}
	tx, err := b.system.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = "+mode); err != nil {
		t.Fatal(err)
	}
	hot, err := tx.Prepare(t.Context(), "hot", r.sql)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Conn().Deallocate(context.Background(), "hot") }()
	literals := make([]string, len(r.args))
	for n, arg := range r.args {
		literal, err := tx.Conn().TypeMap().Encode(hot.ParamOIDs[n], pgx.TextFormatCode, arg, []byte{})
		if err != nil {
			t.Fatal(err)
		}
		if literals[n] = "'" + string(literal) + "'"; literal == nil {
			literals[n] = "NULL"
		}
	}
	var text string
	execute := "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE hot"
	if len(literals) > 0 {
		execute += "(" + strings.Join(literals, ", ") + ")"
	}
	if err := tx.QueryRow(t.Context(), execute).Scan(&text); err != nil {
		t.Fatalf("explain: %v", err)
	}
	var plans []struct{ Plan step }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	touched := map[string]bool{}
	plans[0].Plan.touched(touched)
	return slices.Sorted(maps.Keys(touched))
}

// However many weeks there are, a statement with the IDs of executions reads only the partition of
// their week, by the key.
func TestHotStatementsTouchOneWeekByTheKey(t *testing.T) {
	b := open(t)
	for n := range 5 {
		b.fill(t, b.week.AddDate(0, 0, -7*n), 1000, 1)
	}
	var ids []uuid.UUID
	rows, err := b.owner.Query(t.Context(), `SELECT id FROM component_executions WHERE has_callback AND id >= least_id($1) ORDER BY id LIMIT 3`, b.week)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil {
		t.Fatal(err)
	}
	owners := []uuid.UUID{b.workspace, b.workspace, b.workspace}
	three := []string{"", "", ""}
	counts := []int64{1, 1, 1}
	q, ctx := db.New(), t.Context()
	statements := map[string]func(r *recorder){
		"ExecutionStartMany": func(r *recorder) {
			_, _ = q.ExecutionStartMany(ctx, r, db.ExecutionStartManyParams{WorkerID: 1, WorkspaceIds: owners, Ids: ids, JobIds: counts})
		},
		"ExecutionFinishMany": func(r *recorder) {
			_, _ = q.ExecutionFinishMany(ctx, r, db.ExecutionFinishManyParams{
				WorkspaceIds: owners, Ids: ids, Epochs: []int32{1, 1, 1}, Statuses: []string{"COMPLETED", "COMPLETED", "COMPLETED"},
				Outputs: three, Errors: three,
			})
		},
		"ExecutionPause": func(r *recorder) {
			_, _ = q.ExecutionPause(ctx, r, db.ExecutionPauseParams{WorkspaceID: b.workspace, ID: ids[0], Epoch: 1, WaitState: json.RawMessage(`{}`)})
		},
		"ExecutionGet": func(r *recorder) {
			_, _ = q.ExecutionGet(ctx, r, db.ExecutionGetParams{WorkspaceID: b.workspace, ID: ids[0]})
		},
		"ExecutionGetState": func(r *recorder) {
			_, _ = q.ExecutionGetState(ctx, r, db.ExecutionGetStateParams{WorkspaceID: b.workspace, ID: ids[0]})
		},
		"ExecutionChangedSince": func(r *recorder) {
			_, _ = q.ExecutionChangedSince(ctx, r, db.ExecutionChangedSinceParams{WorkspaceIds: owners, Ids: ids, Since: time.Second})
		},
		"ExecutionListOfRun": func(r *recorder) {
			_, _ = q.ExecutionListOfRun(ctx, r, db.ExecutionListOfRunParams{WorkspaceIds: owners, RunID: b.workspace, Ids: ids})
		},
		"ExecutionCancelMany": func(r *recorder) {
			_, _ = q.ExecutionCancelMany(ctx, r, db.ExecutionCancelManyParams{WorkspaceIds: owners, Ids: ids, Epochs: []int32{1, 1, 1}, Errors: three})
		},
		"ExecutionRequestCancelMany": func(r *recorder) {
			_, _ = q.ExecutionRequestCancelMany(ctx, r, db.ExecutionRequestCancelManyParams{WorkspaceIds: owners, Ids: ids, Epochs: []int32{1, 1, 1}})
		},
		"ExecutionIsCanceling": func(r *recorder) {
			_, _ = q.ExecutionIsCanceling(ctx, r, db.ExecutionIsCancelingParams{WorkspaceID: b.workspace, ID: ids[0]})
		},
		"CallbackListForFreeze": func(r *recorder) {
			_, _ = q.CallbackListForFreeze(ctx, r, db.CallbackListForFreezeParams{WorkspaceIds: owners, ExecutionIds: ids})
		},
		"CallbackFreezeMany": func(r *recorder) {
			_, _ = q.CallbackFreezeMany(ctx, r, db.CallbackFreezeManyParams{WorkspaceIds: owners, ExecutionIds: ids, Bodies: [][]byte{{1}, {2}, {3}}, Kept: []bool{true, false, true}})
		},
		"CallbackLoadMany": func(r *recorder) {
			_, _ = q.CallbackLoadMany(ctx, r, db.CallbackLoadManyParams{WorkspaceIds: owners, ExecutionIds: ids})
		},
		"CallbackSetUnopened": func(r *recorder) {
			_ = q.CallbackSetUnopened(ctx, r, db.CallbackSetUnopenedParams{WorkspaceID: b.workspace, ExecutionID: ids[0]})
		},
		"CallbackRecordMany": func(r *recorder) {
			now := time.Now()
			_, _ = q.CallbackRecordMany(ctx, r, db.CallbackRecordManyParams{
				WorkspaceIds: owners, ExecutionIds: ids, JobIds: counts, StartedAts: []time.Time{now, now, now},
				DurationsMs: []int32{1, 1, 1}, HTTPStatuses: []int16{200, 200, 200}, Errors: three,
				Delivered: []bool{true, true, true}, AgainsUs: counts, JobsUs: counts,
			})
		},
		"CallbackAttemptList": func(r *recorder) {
			_, _ = q.CallbackAttemptList(ctx, r, db.CallbackAttemptListParams{WorkspaceID: b.workspace, ExecutionID: ids[0], Before: 9, MaxRows: 9})
		},
	}
	suffix := strings.TrimPrefix(partition(b.week), "component_executions")
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE component_executions, callbacks, callback_attempts")
		}
		for name, run := range statements {
			for _, generic := range []bool{true, false} {
				var r recorder
				run(&r)
				for _, scan := range b.explain(t, &r, generic) {
					if strings.HasPrefix(scan, "river_job") || strings.Contains(scan, suffix+" by ") && strings.HasSuffix(scan, "_pkey") {
						continue
					}
					t.Errorf("%s (generic %v, analyzed %v) scans %s", name, generic, analyzed, scan)
				}
			}
		}
	}
}

// This must hold however many other rows a workspace has.
func TestTheOldestParkedAreFoundByTheirOwnIndex(t *testing.T) {
	b := open(t)
	for n := range 3 {
		b.fill(t, b.week.AddDate(0, 0, -7*n), 1000, 10)
	}
	b.exec(t, `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, job_id, parked, created_at, updated_at)
		SELECT $1, overlay(least_id(now())::text PLACING lpad(to_hex(n), 12, 'f') FROM 25)::uuid, 'HASH', 'CREATED', '', 1, n, true, now(), now()
		FROM generate_series(1, 20) AS n`, b.workspace)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE component_executions")
		}
		for _, generic := range []bool{true, false} {
			var r recorder
			_, _ = db.New().ExecutionRelease(t.Context(), &r, db.ExecutionReleaseParams{WorkspaceIds: []uuid.UUID{b.workspace}, Here: []int32{1}, WorkerID: 1})
			for _, scan := range b.explain(t, &r, generic) {
				if strings.HasPrefix(scan, "component_executions") && strings.HasSuffix(scan, "_pkey") && !strings.HasPrefix(scan, partition(b.week)+" ") {
					t.Errorf("generic %v, analyzed %v: scans %s", generic, analyzed, scan)
				}
				if strings.Contains(scan, "Bitmap") || strings.Contains(scan, "prioritized") || strings.HasSuffix(scan, " for 20 rows at once") {
					t.Errorf("generic %v, analyzed %v: scans %s", generic, analyzed, scan)
				}
			}
		}
	}
}

// This must hold however many rows have no sealed value.
func TestTheKeysOfSealedValuesAreFoundByTheirIndexes(t *testing.T) {
	b := open(t)
	for n := range 3 {
		b.fill(t, b.week.AddDate(0, 0, -7*n), 1000, 10)
	}
	walks := map[string]func(r *recorder){
		"component_executions": func(r *recorder) { _, _ = db.New().ExecutionListHeaders(t.Context(), r, 5) },
		"callbacks":            func(r *recorder) { _, _ = db.New().CallbackListHeaders(t.Context(), r, 5) },
	}
	for table, run := range walks {
		b.exec(t, "ANALYZE "+table)
		for _, generic := range []bool{true, false} {
			var r recorder
			run(&r)
			for _, scan := range b.explain(t, &r, generic) {
				if strings.Contains(scan, "Seq Scan") || strings.HasSuffix(scan, "_pkey") {
					t.Errorf("generic %v: scans %s", generic, scan)
				}
			}
		}
	}
}

// Upkeep runs these queries every few seconds. Their cost must depend on live executions only,
// however many are parked.
func TestUpkeepSkipsParkedExecutions(t *testing.T) {
	b := open(t)
	for n := range 3 {
		b.fill(t, b.week.AddDate(0, 0, -7*n), 1000, 10)
	}
	b.exec(t, `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, attempt, job_id, worker_id, parked, created_at, updated_at)
		SELECT $1, overlay(least_id(now())::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid, 'HASH',
			CASE WHEN n > 20 THEN 'CREATED' ELSE 'EXECUTING' END, '', 1, 1, n, CASE WHEN n <= 10 THEN 1 END, n > 20, now(), now() - interval '1 hour'
		FROM generate_series(1, 2000) AS n`, b.workspace)
	q, ctx := db.New(), t.Context()
	walks := map[string]func(r *recorder){
		"ExecutionListOfWorkers": func(r *recorder) {
			_, _ = q.ExecutionListOfWorkers(ctx, r, db.ExecutionListOfWorkersParams{Workers: []int32{1}, MaxRows: 500})
		},
		"ExecutionListStranded": func(r *recorder) {
			_, _ = q.ExecutionListStranded(ctx, r, db.ExecutionListStrandedParams{MaxRows: 500})
		},
		"WorkerListUnregistered": func(r *recorder) { _, _ = q.WorkerListUnregistered(ctx, r) },
		"WorkerDelete":           func(r *recorder) { _ = q.WorkerDelete(ctx, r, []int32{1}) },
		"ExecutionListParked": func(r *recorder) {
			_, _ = q.ExecutionListParked(ctx, r, db.ExecutionListParkedParams{AfterWorkspaceID: b.workspace, MaxRows: 100})
		},
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE component_executions")
		}
		for name, run := range walks {
			for _, generic := range []bool{true, false} {
				var r recorder
				run(&r)
				wanted, many := "_unparked", " for 20 rows at once"
				if name == "ExecutionListParked" {
					wanted, many = "_workspace_id_id_idx", " for 100 rows at once"
				}
				for _, scan := range b.explain(t, &r, generic) {
					if !strings.HasPrefix(scan, "component_executions") || strings.HasSuffix(scan, wanted) ||
						strings.HasSuffix(scan, many) || strings.HasSuffix(scan, " for 10 rows at once") {
						continue
					}
					t.Errorf("%s (generic %v, analyzed %v) scans %s", name, generic, analyzed, scan)
				}
			}
		}
	}
}

// The sweep runs this query each second. Its cost must depend only on what is due, however many
// schedules and live runs there are.
func TestDueWorkIsFoundByItsIndexes(t *testing.T) {
	b := open(t)
	b.exec(t, "INSERT INTO workflows (workspace_id, id, key, name) VALUES ($1, $1, 'scheduled', 'scheduled')", b.workspace)
	b.exec(t, `INSERT INTO schedules (workspace_id, id, workflow_id, name, cron, time_zone, overlap, status, next_at, waiting)
		SELECT $1, overlay(least_id(now())::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid, $1, '', '@daily', 'UTC', 'queue', 'ACTIVE',
			now() + CASE WHEN n > 3 THEN interval '1 day' ELSE interval '-1 second' END, CASE WHEN n % 2000 = 0 THEN ARRAY[now()] ELSE '{}' END
		FROM generate_series(1, 6000) AS n`, b.workspace)
	b.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, trigger_id, input, deadline, wake_at, job_id, created_at, updated_at)
		SELECT $1, overlay(least_id(now())::text PLACING lpad(to_hex(n + 1000000), 12, '0') FROM 25)::uuid, $1, 1, 'EXECUTING', 'SCHEDULE',
			CASE WHEN n % 10 = 0 THEN overlay(least_id(now())::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid END, '{}', now() + interval '1 day', now() + interval '1 hour', 1, now(), now()
		FROM generate_series(1, 6000) AS n`, b.workspace)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			b.exec(t, "ANALYZE schedules, workflow_runs")
		}
		for _, generic := range []bool{true, false} {
			var r recorder
			_, _ = db.New().RunListDue(t.Context(), &r, db.RunListDueParams{MaxRows: 500})
			for _, scan := range b.explain(t, &r, generic) {
				if strings.Contains(scan, "Seq Scan") || strings.Contains(scan, "_pkey") || strings.Contains(scan, "000 rows at once") {
					t.Errorf("generic %v, analyzed %v: scans %s", generic, analyzed, scan)
				}
			}
		}
	}
}
