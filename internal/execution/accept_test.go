package execution_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// offer is an element of ExecutionAcceptMany.
type offer struct {
	workspace uuid.UUID
	amount    credit.Amount
	worker    int32
}

func acceptParams(offers []offer) db.ExecutionAcceptManyParams {
	p := db.ExecutionAcceptManyParams{Queue: execution.Queue, SafetyNet: time.Hour}
	for _, o := range offers {
		p.Ids, p.WorkspaceIds = append(p.Ids, uuid.Must(uuid.NewV7())), append(p.WorkspaceIds, o.workspace)
		p.Amounts = append(p.Amounts, int64(o.amount))
		p.Modules, p.Repeats, p.Calls = append(p.Modules, "ECHO"), append(p.Repeats, "pure"), append(p.Calls, []byte{1})
		p.Attempts, p.WorkerIds, p.Traceparents = append(p.Attempts, 1), append(p.WorkerIds, o.worker), append(p.Traceparents, "")
		p.Prices, p.RunIds, p.Timeouts = append(p.Prices, int64(o.amount)), append(p.RunIds, uuid.Nil), append(p.Timeouts, 0)
		p.KeyIds, p.KeyRootIds, p.CallbackUrls = append(p.KeyIds, uuid.Nil), append(p.KeyRootIds, uuid.Nil), append(p.CallbackUrls, "")
		p.CallbackSealed, p.CallbackSigned, p.CallbackHeaders = append(p.CallbackSealed, nil), append(p.CallbackSigned, false), append(p.CallbackHeaders, "")
	}
	return p
}

// The statement that accepts executions inserts River's jobs itself. They must be the jobs that the
// pinned version of River would insert.
func TestAcceptedJobsAreThoseOfRiver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	jobs, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{Schema: postgres.RiverSchema})
	if err != nil {
		t.Fatal(err)
	}
	same := func(what string, id int64, args river.JobArgs, opts river.InsertOpts) {
		opts.Queue = execution.Queue
		inserted, err := jobs.Insert(t.Context(), args, &opts)
		if err != nil {
			t.Fatal(err)
		}
		if ours, rivers := b.job(t, id), b.job(t, inserted.Job.ID); ours != rivers {
			t.Errorf("%s:\nours:    %s\nRiver's: %s", what, ours, rivers)
		}
	}
	inAnHour := river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)}
	for what, c := range map[string]struct {
		worker int32
		live   int // executions of the workspace
		opts   river.InsertOpts
	}{
		"for any worker":        {0, 0, river.InsertOpts{}},
		"as a safety net":       {1, 0, inAnHour},
		"of a parked execution": {1, 1000, river.InsertOpts{Pending: true}},
	} {
		b.exec(t, "UPDATE credit_accounts SET live = $1", c.live)
		p := acceptParams([]offer{{workspace: b.workspace, worker: c.worker}})
		rows, err := db.New().ExecutionAcceptMany(t.Context(), b.pool, p)
		if err != nil {
			t.Fatal(err)
		}
		same(what, rows[0].JobID, execution.Args{WorkspaceID: b.workspace, ExecutionID: p.Ids[0]}, c.opts)
	}
	run := runArgs{WorkspaceID: b.workspace, RunID: uuid.Must(uuid.NewV7())}
	id, err := db.New().RunInsert(t.Context(), b.pool, db.RunInsertParams{
		WorkspaceID: run.WorkspaceID, ID: run.RunID, Status: status.RunCreated, Trigger: "API", Input: []byte(`{}`), Queue: execution.Queue, SafetyNet: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	same("of a run", id, run, inAnHour)
}

type runArgs struct {
	WorkspaceID uuid.UUID `json:"workspaceId"`
	RunID       uuid.UUID `json:"runId"`
}

func (runArgs) Kind() string { return "workflow_run" }

// job returns a job without its ID and with times to the minute.
func (b *bench) job(t *testing.T, id int64) (row string) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `SELECT ((to_jsonb(j) - 'id' - 'created_at' - 'scheduled_at') ||
		jsonb_build_object('delay', date_trunc('minute', j.scheduled_at - now() + interval '30 s')))::text FROM river.river_job j WHERE id = $1`, id).Scan(&row)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// books are an account as the rule of admission sees it.
type books struct {
	plan, paid, limit, reserved, live, stored int
	stopped                                   bool
}

// admit is the rule of admission: the last want may exceed the credits and the storage.
func (a *books) admit(amount, bytes int) bool {
	left := a.plan + a.paid + max(0, a.limit-a.plan) - a.reserved
	if amount > 0 && (a.stopped || left <= 0) || a.stored >= storageLimit {
		return false
	}
	a.reserved, a.live, a.stored = a.reserved+amount, a.live+1, a.stored+bytes
	return true
}

const storageLimit = 100

// The statements that accept executions and reserve for runs admit what the rule admits one by one,
// for random accounts and batches.
func TestLE08StatementsAdmitWhatTheRuleAdmits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	random := rand.New(rand.NewPCG(1, 2))
	ids := []uuid.UUID{b.poor(t, 0), b.poor(t, 0), b.poor(t, 0)}
	undo := errors.New("roll back")
	for range 300 {
		accounts := map[uuid.UUID]*books{}
		for _, id := range ids {
			a := &books{plan: random.IntN(4), paid: random.IntN(4), limit: random.IntN(3), reserved: random.IntN(5), stored: 95 + random.IntN(6), stopped: random.IntN(8) == 0}
			accounts[id] = a
			b.exec(t, `UPDATE credit_accounts SET plan = $2, paid = $3, usage_limit = $4, reserved = $5, stored = $6, storage_limit = $7, stopped = $8 WHERE workspace_id = $1`,
				id, a.plan, a.paid, a.limit, a.reserved, a.stored, storageLimit, a.stopped)
		}
		accepts := random.IntN(2) == 0 // otherwise it reserves
		var offers []offer
		var wants []billing.Want
		var admitted, want []bool
		for range 1 + random.IntN(8) {
			id, amount, bytes := ids[random.IntN(3)], random.IntN(3), random.IntN(4)
			if accepts {
				bytes = 0
			}
			offers = append(offers, offer{workspace: id, amount: credit.Amount(amount)})
			wants = append(wants, billing.Want{WorkspaceID: id, Amount: credit.Amount(amount), Bytes: int64(bytes)})
			want = append(want, accounts[id].admit(amount, bytes))
		}
		err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			if accepts {
				rows, err := db.New().ExecutionAcceptMany(t.Context(), tx, acceptParams(offers))
				if err != nil {
					return err
				}
				for _, row := range rows {
					admitted = append(admitted, row.Reason == "" && row.JobID != 0)
				}
			} else {
				for _, w := range wants {
					admitted = append(admitted, billing.Books{}.ReserveTx(t.Context(), tx, w) == nil)
				}
			}
			for id, a := range accounts {
				got := books{plan: a.plan, paid: a.paid, limit: a.limit, stopped: a.stopped}
				if err := tx.QueryRow(t.Context(), "SELECT reserved, live, stored FROM credit_accounts WHERE workspace_id = $1", id).Scan(&got.reserved, &got.live, &got.stored); err != nil {
					return err
				}
				if got != *a {
					t.Errorf("%+v: the account is %+v, want %+v", wants, got, *a)
				}
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
		if !slices.Equal(admitted, want) {
			t.Fatalf("%+v, accepted %v: admitted %v, want %v", wants, accepts, admitted, want)
		}
	}
}

// Executions without a slot are parked first, and those that fit the share are not parked.
func TestRL08AcceptanceParksBeyondTheShare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(t, "UPDATE credit_accounts SET live = 3, parked = 1, waiting = 1") // one is active
	b.exec(t, "INSERT INTO workers (host, slots) VALUES ('one', 5)")          // the share is 4
	offers := make([]offer, 4)
	for i := range offers {
		offers[i] = offer{workspace: b.workspace, worker: int32(i % 2)}
	}
	rows, err := db.New().ExecutionAcceptMany(context.Background(), b.pool, acceptParams(offers))
	if err != nil {
		t.Fatal(err)
	}
	var parked []bool
	for _, row := range rows {
		parked = append(parked, row.Parked)
	}
	if want := []bool{false, false, true, false}; !slices.Equal(parked, want) {
		t.Errorf("parked: %v, want %v", parked, want)
	}
	if counted := b.count(t, "credit_accounts WHERE live = 7 AND parked = 2"); counted != 1 {
		t.Error("the account does not count the parked execution")
	}
}
