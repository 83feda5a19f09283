package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func TestTheRunPaysForItsStages(t *testing.T) {
	t.Parallel()
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var reported finishedRuns
			o.ended = reported.add
			n := b.start(t, o, echo())
			runID := b.run(t, n, credit.Credits(3))
			plain := b.submit(t, n, execution.SubmitParams{Module: "ECHO"}).ID
			b.await(t, n, plain)
			first, _ := b.accept(t, n, 3, execution.Stage{RunID: runID, Module: "ECHO"})
			more, refused := b.accept(t, n, 5, execution.Stage{RunID: runID, Module: "ECHO", Reserve: credit.Credits(1)})
			if len(first) != 3 || len(more) != 5 || refused != nil {
				t.Fatalf("accepted %d and %d, refused %v", len(first), len(more), refused)
			}
			for _, id := range slices.Concat(first, more) {
				if got := b.await(t, n, id); got.Status != status.ExecutionCompleted || got.TotalUsage != credit.Credits(1) {
					t.Errorf("ended %s, used %s", got.Status, got.TotalUsage)
				}
			}
			if !reported.has(runID) {
				t.Error("the run was not reported")
			}
			if count, sum := b.postings(t); count != 1 || sum != int64(credit.Credits(1)) {
				t.Errorf("%d postings of %d besides the run's", count, sum)
			}
			if got := b.account(t); got != "reserves 8000000, 0 live, 0 parked" {
				t.Errorf("the account %s", got)
			}
			b.balanced(t, "while the run lives")
			page, err := n.service.List(t.Context(), b.workspace, execution.ListParams{Limit: 20})
			if err != nil || len(page.Data) != 1 || page.Data[0].ID != plain || page.HasMore || page.NextCursor != nil {
				t.Errorf("listed are %d, %v, %v", len(page.Data), page.HasMore, err)
			}
			b.conclude(t, runID)
			if got := b.account(t); got != "reserves 0, 0 live, 0 parked" {
				t.Errorf("after the run the account %s", got)
			}
			b.balanced(t, "after the run")
			lines, err := billing.Reader{DB: b.pool}.Page(t.Context(), billing.Statement{WorkspaceID: b.workspace}, 1, "")
			if err != nil || len(lines.Data) != 1 || lines.Data[0].Kind != api.LedgerKindRun || lines.Data[0].RunID == nil || *lines.Data[0].RunID != runID || lines.Data[0].Usage != credit.Credits(8) {
				t.Errorf("the statement says %+v, %v", lines.Data, err)
			}
			b.breakRun(t, runID, first[0])
		})
	}
}

// breakRun corrupts the rows of a finished run. An audit must report each row.
func (b *bench) breakRun(t *testing.T, runID, stageID uuid.UUID) {
	t.Helper()
	run, stage := runID.String(), stageID.String()
	for breaks, named := range map[string]string{
		"UPDATE workflow_runs SET usage = 2000000 WHERE id = '" + run + "'":                                 "run " + run + " is COMPLETED, used 2, its stages used 8, and was charged 8",
		"UPDATE run_stages SET usage = 0 WHERE execution_id = '" + stage + "'":                              "run " + run + " is COMPLETED, used 8, its stages used 7, and was charged 8",
		"DELETE FROM credit_postings WHERE kind = 'RUN'":                                                    "run " + run + " is COMPLETED, used 8, its stages used 8, and has no posting",
		"UPDATE workflow_runs SET status = 'EXECUTING', finished_at = NULL WHERE id = '" + run + "'":        "run " + run + " is EXECUTING, used 8, its stages used 8, and was charged 8",
		"UPDATE credit_postings SET kind = 'EXECUTION', reference = '" + stage + "' WHERE kind = 'RUN'":     "execution " + stage + " is a stage of a run and was charged 8",
		"DELETE FROM workflow_runs WHERE id = '" + run + "'":                                                "charges run " + run + ", which does not exist",
		"UPDATE credit_accounts SET reserved = 5000000 WHERE workspace_id = '" + b.workspace.String() + "'": "reserves 5, but its live executions and runs need 0",
	} {
		var broken []billing.Drift
		undo := errors.New("undone")
		err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SET LOCAL session_replication_role = replica; "+breaks)
			if err != nil {
				return err
			}
			if broken, _, err = billing.Audit(t.Context(), inside{tx}, b.workspace); err != nil {
				return err
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatalf("%s: %v", breaks, err)
		}
		if !slices.ContainsFunc(broken, func(d billing.Drift) bool { return strings.Contains(d.String(), named) }) {
			t.Errorf("%s: the audit says %v, want %q", breaks, broken, named)
		}
	}
}

// inside presents a transaction as a database. Transactions that start in it become part of it,
// and their settings are ignored.
type inside struct{ pgx.Tx }

func (i inside) Begin(context.Context) (pgx.Tx, error) { return part(i), nil }

type part struct{ pgx.Tx }

func (p part) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if strings.HasPrefix(sql, "SET TRANSACTION") {
		return pgconn.CommandTag{}, nil
	}
	return p.Tx.Exec(ctx, sql, args...)
}
func (p part) Commit(context.Context) error   { return nil }
func (p part) Rollback(context.Context) error { return nil }

// Stages that the credits do not cover are refused together. Refused stages store nothing and hold no
// slot.
func TestStagesWithoutCreditsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.workspace = b.poor(t, credit.Credits(5))
	n := b.start(t, options{slots: 40}, echo())
	runID := b.run(t, n, credit.Credits(2))
	// The credits do not cover all stages.
	ids, refused := b.accept(t, n, 8, execution.Stage{RunID: runID, Module: "ECHO", Reserve: credit.Credits(1)})
	if len(ids) > 0 || refused == nil {
		t.Fatalf("accepted %d, refused %v", len(ids), refused)
	}
	ids, refused = b.accept(t, n, 3, execution.Stage{RunID: runID, Module: "ECHO", Reserve: credit.Credits(1)})
	if len(ids) != 3 || refused != nil {
		t.Fatalf("accepted %d, refused %v", len(ids), refused)
	}
	// Stages are still accepted if their run has already reserved enough credits.
	free, refused := b.accept(t, n, 2, execution.Stage{RunID: runID, Module: "ECHO"})
	if len(free) != 2 || refused != nil {
		t.Fatalf("accepted %d, refused %v", len(free), refused)
	}
	for _, id := range slices.Concat(ids, free) {
		b.await(t, n, id)
	}
	var rows int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM component_executions").Scan(&rows); err != nil || rows != 5 {
		t.Errorf("%d executions are stored, %v", rows, err)
	}
	b.balanced(t, "with refused stages")
	// A run is refused too.
	err := postgres.InTx(t.Context(), n.pool, nil, func(tx *postgres.Tx) error {
		return billing.Books{}.ReserveTx(t.Context(), tx, billing.Want{WorkspaceID: b.workspace, Amount: 1, Run: true})
	})
	if fault.CodeOf(err) != fault.InsufficientCredits {
		t.Errorf("the run was accepted or failed with %v", err)
	}
	b.balanced(t, "after a refused run")
	// In this test only local slots run executions, so a leaked slot would be noticed.
	b.conclude(t, runID)
	grown := credit.Credits(100)
	if _, err := (billing.Books{}).Grant(t.Context(), b.pool, billing.Grant{WorkspaceID: b.workspace, Amount: grown, Reference: "more"}); err != nil {
		t.Fatal(err)
	}
	all, _ := b.accept(t, n, 36, execution.Stage{RunID: b.run(t, n, credit.Credits(36)), Module: "ECHO"})
	for _, id := range all {
		b.await(t, n, id)
	}
}

// A transaction that fails after the acceptance starts nothing and holds no slot.
func TestAnAcceptanceThatIsNotCommittedStartsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan uuid.UUID, 10)
	n := b.start(t, options{slots: 1}, module{name: "REPORTS", price: 1, repeat: component.RepeatPure, run: func(_ context.Context, call component.Call) (component.Result, error) {
		started <- call.ExecutionID
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}})
	runID := b.run(t, n, 1)
	for _, sent := range []bool{true, false} {
		undo := errors.New("undone")
		items := n.service.NewItems()
		err := postgres.InTx(t.Context(), n.pool, nil, func(tx *postgres.Tx) error {
			stage := execution.Stage{WorkspaceID: b.workspace, RunID: runID, ExecutionID: uuid.Must(uuid.NewV7()), Module: "REPORTS", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`)}
			var batch postgres.Batch
			if err := items.Queue(&batch, []execution.Stage{stage}, nil); err != nil {
				return err
			}
			if sent {
				if err := tx.Send(t.Context(), &batch); err != nil {
					return err
				}
			}
			return undo
		})
		if items.Done(t.Context(), err); !errors.Is(err, undo) {
			t.Errorf("ended with %v", err)
		}
	}
	ids, _ := b.accept(t, n, 1, execution.Stage{RunID: runID, Module: "REPORTS"})
	b.await(t, n, ids[0])
	if got := <-started; got != ids[0] || len(started) > 0 {
		t.Errorf("%s started, and %d more", got, len(started))
	}
	b.balanced(t, "at the end")
}

func TestStagesBeyondTheFairShareAreParkedAndAllFinish(t *testing.T) {
	t.Parallel()
	// Each node needs the queue: an acceptance holds every free slot until it knows which stages it
	// parks, and executions released in the meantime go through the queue.
	for way, o := range waittest.Chosen(map[string]options{"one slot of the queue": {workers: 1}, "several": {slots: 3, workers: 3}, "mostly local": {slots: 2, workers: 1}}, "mostly local") {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, o, newBusy("QUICK", time.Millisecond))
			runID := b.run(t, n, 50)
			var ids []uuid.UUID
			for range 5 {
				made, refused := b.accept(t, n, 10, execution.Stage{RunID: runID, Module: "QUICK"})
				if refused != nil {
					t.Fatal(refused)
				}
				ids = append(ids, made...)
			}
			for _, id := range ids {
				b.await(t, n, id)
			}
			if got := b.account(t); got != "reserves 50, 0 live, 0 parked" {
				t.Errorf("the account %s", got)
			}
			b.conclude(t, runID)
			b.balanced(t, "after the run")
		})
	}
}

// A process that only serves also accepts stages. A stage may have a shorter timeout than its
// module.
func TestAStageHasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	waits := module{name: "WAITS", price: 1, repeat: component.RepeatPure, timeout: time.Hour, run: func(ctx context.Context, _ component.Call) (component.Result, error) {
		<-ctx.Done()
		return component.Result{}, ctx.Err()
	}}
	serving := b.start(t, options{idle: true}, waits)
	working := b.start(t, options{slots: 2, workers: 2}, waits)
	runID := b.run(t, serving, 3)
	for _, n := range []*node{serving, working} {
		ids, _ := b.accept(t, n, 2, execution.Stage{RunID: runID, Module: "WAITS", Timeout: 50 * time.Millisecond})
		for _, id := range ids {
			got := b.await(t, n, id)
			if got.Status != status.ExecutionFailed || failure(got).Code != "TIMEOUT" {
				t.Errorf("ended %s with %s", got.Status, got.Error)
			}
		}
	}
}

// A page is full, however many stages are newer than its executions.
func TestAListSkipsStages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{idle: true}, echo())
	old := b.submit(t, n, execution.SubmitParams{Module: "ECHO"}).ID
	b.exec(t, `INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, attempt, job_id, run_id, created_at, updated_at, error, finished_at)
		SELECT $1, overlay(least_id(now() + interval '1 second')::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid, 'ECHO', 'FAILED', '', 1, 1, n, $1, now(), now(), '{}', now()
		FROM generate_series(1, 25000) AS n`, b.workspace)
	page, err := n.service.List(t.Context(), b.workspace, execution.ListParams{Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) != 1 || page.Data[0].ID != old || page.HasMore {
		t.Errorf("listed are %+v", page)
	}
}

func TestAModuleRunsInItsModesOnly(t *testing.T) {
	t.Parallel()
	registry, err := component.NewRegistry(
		module{name: "ALONE", repeat: component.RepeatPure, modes: []component.Mode{component.ModeComponent}},
		module{name: "STAGE", repeat: component.RepeatPure, modes: []component.Mode{component.ModeWorkflow}},
	)
	if err != nil {
		t.Fatal(err)
	}
	s, nothing := execution.NewService(execution.Deps{Modules: registry}, execution.NewRunner(execution.Deps{Modules: registry}, &execution.Identity{}, 0, slog.New(slog.DiscardHandler))), json.RawMessage(`{}`)
	_, alone := s.Submit(t.Context(), execution.SubmitParams{Module: "STAGE", Attempts: 1, Input: nothing, Config: nothing})
	for name, err := range map[string]error{"a stage on its own": alone, "as a stage": registry.CheckMode("ALONE", component.ModeWorkflow), "unknown": registry.Check("NONE", nothing, nothing)} {
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.InvalidInput || e.Unprocessable || e.Details[0].Pointer != "/module" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := registry.CheckMode("STAGE", component.ModeWorkflow); err != nil {
		t.Error(err)
	}
}
