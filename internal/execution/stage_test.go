package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/status"
)

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

const insertRun = `INSERT INTO workflow_runs
	(workspace_id, id, workflow_id, workflow_version, status, trigger, input, reserved, deadline, job_id, created_at, updated_at)
	VALUES ($1, $2, $2, 1, 'EXECUTING', 'API', '{}', $3, now() + interval '1 hour', 1, now(), now())`

// run makes a run that keeps back reserve.
func (b *bench) run(t *testing.T, n *node, reserve credit.Amount) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	err := n.service.Accepting(t.Context(), b.workspace, func(how *execution.Acceptance) error {
		return postgres.InTx(t.Context(), n.pool, func(tx *postgres.Tx) error {
			if _, err := tx.Exec(t.Context(), insertRun, b.workspace, id, int64(reserve)); err != nil {
				return err
			}
			_, err := how.BeginTx(t.Context(), tx, reserve, nil)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// accept accepts so many stages of a run as a fold would, and returns those that were
// accepted and why the others were not.
func (b *bench) accept(t *testing.T, n *node, count int, like execution.Stage) (ids []uuid.UUID, refusals []error) {
	t.Helper()
	err := n.service.Accepting(t.Context(), b.workspace, func(how *execution.Acceptance) error {
		return postgres.InTx(t.Context(), n.pool, func(tx *postgres.Tx) error {
			stages := make([]execution.Stage, count)
			for i := range stages {
				stages[i] = like
				stages[i].WorkspaceID, stages[i].ExecutionID = b.workspace, uuid.Must(uuid.NewV7())
				stages[i].Input, stages[i].Config = json.RawMessage(`{}`), json.RawMessage(`{}`)
				_, err := tx.Exec(t.Context(), `INSERT INTO run_stages (workspace_id, run_id, id, component_id, module, name, status, execution_id, created_at, updated_at)
					VALUES ($1, $2, $3::uuid, $3::text, $4, 'n', 'CREATED', $3::uuid, now(), now())`, b.workspace, like.RunID, stages[i].ExecutionID, like.Module)
				if err != nil {
					return err
				}
			}
			told, err := how.AcceptTx(t.Context(), tx, stages)
			if err != nil {
				return fmt.Errorf("fold: %w", err)
			}
			ids, refusals = nil, nil
			var kept credit.Amount
			for i, refusal := range told {
				if refusal != nil {
					refusals = append(refusals, refusal)
					if _, err := tx.Exec(t.Context(), "DELETE FROM run_stages WHERE execution_id = $1", stages[i].ExecutionID); err != nil {
						return err
					}
					continue
				}
				ids, kept = append(ids, stages[i].ExecutionID), kept+like.Reserve
			}
			tx.Last(func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE workflow_runs SET reserved = reserved + $2 WHERE id = $1", like.RunID, int64(kept))
				return err
			})
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, refusals
}

// conclude takes the stages of a run over and ends it.
func (b *bench) conclude(t *testing.T, runID uuid.UUID) {
	t.Helper()
	b.exec(t, `UPDATE run_stages s SET status = 'COMPLETED', usage = e.usage, finished_at = now()
		FROM component_executions e WHERE s.run_id = $1 AND e.id = s.execution_id`, runID)
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		var usage, reserved credit.Amount
		err := tx.QueryRow(t.Context(), `UPDATE workflow_runs SET status = 'COMPLETED', finished_at = now(),
			usage = (SELECT sum(usage) FROM run_stages WHERE run_id = $1) WHERE id = $1 RETURNING usage, reserved`, runID).Scan(&usage, &reserved)
		if err != nil {
			return err
		}
		return billing.Books{}.SettleRunTx(t.Context(), tx, b.workspace, runID, usage, reserved)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// account is what the account of the bench counts.
func (b *bench) account(t *testing.T) string {
	t.Helper()
	var text string
	err := b.pool.QueryRow(t.Context(), `SELECT format('keeps back %s, %s live, %s parked', reserved, live, parked)
		FROM credit_accounts WHERE workspace_id = $1`, b.workspace).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (b *bench) balanced(t *testing.T, when string) {
	t.Helper()
	if broken := b.audit(t, b.workspace); len(broken) > 0 {
		t.Errorf("%s the audit says %s", when, strings.Join(broken, "\n"))
	}
}

// ended gathers the runs that a node tells of.
type ended struct {
	mu   sync.Mutex
	runs []notify.Key
}

func (e *ended) tell(_ context.Context, runs []notify.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = append(e.runs, runs...)
}

func (e *ended) told(of uuid.UUID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.runs, func(k notify.Key) bool { return k.ID == of })
}

func TestTheRunPaysForItsStages(t *testing.T) {
	t.Parallel()
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var told ended
			o.ended = told.tell
			n := b.start(t, o, echo())
			runID := b.run(t, n, credit.Credits(3))
			plain := b.submit(t, n, execution.SubmitParams{Module: "ECHO"}).ID
			b.await(t, n, plain)
			first, _ := b.accept(t, n, 3, execution.Stage{RunID: runID, Module: "ECHO"})
			more, refused := b.accept(t, n, 5, execution.Stage{RunID: runID, Module: "ECHO", Reserve: credit.Credits(1)})
			if len(first) != 3 || len(more) != 5 || len(refused) > 0 {
				t.Fatalf("accepted %d and %d, refused %v", len(first), len(more), refused)
			}
			for _, id := range slices.Concat(first, more) {
				if got := b.await(t, n, id); got.Status != status.ExecutionCompleted || got.TotalUsage != credit.Credits(1) {
					t.Errorf("ended %s, used %s", got.Status, got.TotalUsage)
				}
			}
			if !told.told(runID) {
				t.Error("nobody was told of the run")
			}
			if count, sum := b.postings(t); count != 1 || sum != int64(credit.Credits(1)) {
				t.Errorf("%d postings of %d beside the run", count, sum)
			}
			if got := b.account(t); got != "keeps back 8000000, 0 live, 0 parked" {
				t.Errorf("the account %s", got)
			}
			b.balanced(t, "while the run lives")
			page, err := n.service.List(t.Context(), b.workspace, execution.ListParams{Limit: 20})
			if err != nil || len(page.Data) != 1 || page.Data[0].ID != plain || page.HasMore || page.NextCursor != nil {
				t.Errorf("listed are %d, %v, %v", len(page.Data), page.HasMore, err)
			}
			b.conclude(t, runID)
			if got := b.account(t); got != "keeps back 0, 0 live, 0 parked" {
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

// breakRun breaks the rows of a run that is over; an audit names each.
func (b *bench) breakRun(t *testing.T, runID, stageID uuid.UUID) {
	t.Helper()
	run, stage := runID.String(), stageID.String()
	for breaks, named := range map[string]string{
		"UPDATE workflow_runs SET usage = 2000000 WHERE id = '" + run + "'":                                 "run " + run + " is COMPLETED, used 2, its stages 8, and was charged 8",
		"UPDATE run_stages SET usage = 0 WHERE execution_id = '" + stage + "'":                              "run " + run + " is COMPLETED, used 8, its stages 7, and was charged 8",
		"DELETE FROM credit_postings WHERE kind = 'RUN'":                                                    "run " + run + " is COMPLETED, used 8, its stages 8, and has no posting",
		"UPDATE workflow_runs SET status = 'EXECUTING', finished_at = NULL WHERE id = '" + run + "'":        "run " + run + " is EXECUTING, used 8, its stages 8, and was charged 8",
		"UPDATE credit_postings SET kind = 'EXECUTION', reference = '" + stage + "' WHERE kind = 'RUN'":     "execution " + stage + " is a stage of a run and was charged 8",
		"DELETE FROM workflow_runs WHERE id = '" + run + "'":                                                "charges run " + run + ", which is not there",
		"UPDATE credit_accounts SET reserved = 5000000 WHERE workspace_id = '" + b.workspace.String() + "'": "keeps back 5, its live executions and runs need 0",
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

// inside is a transaction as a database whose transactions are parts of it: their own
// settings are left out.
type inside struct{ pgx.Tx }

func (i inside) Begin(context.Context) (pgx.Tx, error) { return part{i.Tx}, nil }

type part struct{ pgx.Tx }

func (p part) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if strings.HasPrefix(sql, "SET TRANSACTION") {
		return pgconn.CommandTag{}, nil
	}
	return p.Tx.Exec(ctx, sql, args...)
}
func (p part) Commit(context.Context) error   { return nil }
func (p part) Rollback(context.Context) error { return nil }

// A stage that the credits do not admit is refused, whichever way was taken; what was
// refused leaves nothing and holds no slot.
func TestStagesAreRefusedForWantOfCredits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.workspace = b.poor(t, credit.Credits(5))
	n := b.start(t, options{slots: 40}, echo())
	runID := b.run(t, n, credit.Credits(2))
	// The second way: not all are admitted.
	ids, refused := b.accept(t, n, 8, execution.Stage{RunID: runID, Module: "ECHO", Reserve: credit.Credits(1)})
	if len(ids) != 3 || len(refused) != 5 || fault.CodeOf(refused[0]) != fault.InsufficientCredits {
		t.Fatalf("accepted %d, refused %v", len(ids), refused)
	}
	// And again while the workspace is known to have nothing: stages that the run has
	// kept back enough for are accepted.
	free, refused := b.accept(t, n, 2, execution.Stage{RunID: runID, Module: "ECHO"})
	if len(free) != 2 || len(refused) > 0 {
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
	// A run that is not admitted is not there, nor are its stages.
	err := n.service.Accepting(t.Context(), b.workspace, func(how *execution.Acceptance) error {
		return postgres.InTx(t.Context(), n.pool, func(tx *postgres.Tx) error {
			id := uuid.Must(uuid.NewV7())
			if _, err := tx.Exec(t.Context(), insertRun, b.workspace, id, 1); err != nil {
				return err
			}
			_, err := how.BeginTx(t.Context(), tx, 1, []execution.Stage{{
				WorkspaceID: b.workspace, RunID: id, ExecutionID: uuid.Must(uuid.NewV7()), Module: "ECHO", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`),
			}})
			return err
		})
	})
	if fault.CodeOf(err) != fault.InsufficientCredits {
		t.Errorf("the run was answered with %v", err)
	}
	b.balanced(t, "after a refused run")
	// Nothing but local slots runs anything here: one that was lost would be missed.
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

// What fails after the acceptance begins nothing and holds no slot.
func TestAnAcceptanceThatIsNotCommittedBeginsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begun := make(chan uuid.UUID, 10)
	n := b.start(t, options{slots: 1}, module{name: "TELLS", price: 1, repeat: component.RepeatPure, run: func(_ context.Context, call component.Call) (component.Result, error) {
		begun <- call.ExecutionID
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}})
	runID := b.run(t, n, 1)
	for _, cut := range []func(){func() {}, func() { panic("it went wrong") }} {
		undo := errors.New("undone")
		func() {
			defer func() { _ = recover() }()
			err := n.service.Accepting(t.Context(), b.workspace, func(how *execution.Acceptance) error {
				return postgres.InTx(t.Context(), n.pool, func(tx *postgres.Tx) error {
					stage := execution.Stage{WorkspaceID: b.workspace, RunID: runID, ExecutionID: uuid.Must(uuid.NewV7()), Module: "TELLS", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`)}
					if _, err := how.AcceptTx(t.Context(), tx, []execution.Stage{stage}); err != nil {
						return err
					}
					if _, err := how.AcceptTx(t.Context(), tx, []execution.Stage{stage}); err == nil {
						t.Error("stages were accepted twice in a transaction")
					}
					cut()
					return undo
				})
			})
			if !errors.Is(err, undo) {
				t.Errorf("ended with %v", err)
			}
		}()
	}
	ids, _ := b.accept(t, n, 1, execution.Stage{RunID: runID, Module: "TELLS"})
	b.await(t, n, ids[0])
	if got := <-begun; got != ids[0] || len(begun) > 0 {
		t.Errorf("%s began, and %d more", got, len(begun))
	}
	b.balanced(t, "at last")
}

func TestStagesBeyondTheWindowAreParkedAndAllEnd(t *testing.T) {
	t.Parallel()
	for way, o := range map[string]options{"one slot of the queue": {workers: 1}, "several": {slots: 3, workers: 3}, "of its own": {slots: 2}} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, o, newBusy("QUICK", time.Millisecond))
			runID := b.run(t, n, 50)
			var ids []uuid.UUID
			for range 5 {
				made, refused := b.accept(t, n, 10, execution.Stage{RunID: runID, Module: "QUICK"})
				if len(refused) > 0 {
					t.Fatal(refused)
				}
				ids = append(ids, made...)
			}
			for _, id := range ids {
				b.await(t, n, id)
			}
			if got := b.account(t); got != "keeps back 50, 0 live, 0 parked" {
				t.Errorf("the account %s", got)
			}
			b.conclude(t, runID)
			b.balanced(t, "after the run")
		})
	}
}

// A process that only serves accepts stages too; a stage has less time than its module
// if it says so.
func TestAStageHasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	waits := module{name: "WAITS", price: 1, repeat: component.RepeatPure, run: func(ctx context.Context, _ component.Call) (component.Result, error) {
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
			if took := got.UpdatedAt.Std().Sub(got.CreatedAt.Std()); got.Status != status.ExecutionFailed || failure(got).Code != "TIMEOUT" || took > 8*time.Second {
				t.Errorf("ended %s with %s after %v", got.Status, got.Error, took)
			}
		}
	}
	if err := serving.service.CheckStage("WAITS", json.RawMessage(`[]`), json.RawMessage(`{}`)); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("a wrong input: %v", err)
	}
}

// However many stages of runs lie before them, a list finds the executions.
func TestAListWalksPastStages(t *testing.T) {
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
	for range 10 { // it may have taken too long for one page
		if len(page.Data) > 0 || page.NextCursor == nil {
			break
		}
		if page, err = n.service.List(t.Context(), b.workspace, execution.ListParams{Limit: 20, Cursor: *page.NextCursor}); err != nil {
			t.Fatal(err)
		}
	}
	if len(page.Data) != 1 || page.Data[0].ID != old || page.HasMore {
		t.Errorf("listed are %+v", page)
	}
}
