package execution_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// offer is an element of ExecutionAcceptMany.
type offer struct {
	workspace uuid.UUID
	kind      string
	amount    credit.Amount
	bytes     int64
	worker    int32
	delay     time.Duration
}

func acceptParams(offers []offer) db.ExecutionAcceptManyParams {
	p := db.ExecutionAcceptManyParams{Queue: execution.Queue}
	for _, o := range offers {
		p.Ids, p.Kinds, p.WorkspaceIds = append(p.Ids, uuid.Must(uuid.NewV7())), append(p.Kinds, o.kind), append(p.WorkspaceIds, o.workspace)
		p.Amounts, p.Bytes, p.DelaysMs = append(p.Amounts, int64(o.amount)), append(p.Bytes, o.bytes), append(p.DelaysMs, o.delay.Milliseconds())
		p.Modules, p.Repeats, p.Calls = append(p.Modules, "ECHO"), append(p.Repeats, "pure"), append(p.Calls, []byte{1})
		p.Attempts, p.WorkerIds, p.Traceparents = append(p.Attempts, 1), append(p.WorkerIds, o.worker), append(p.Traceparents, "")
		p.Prices, p.RunIds, p.Timeouts = append(p.Prices, int64(o.amount)), append(p.RunIds, uuid.Nil), append(p.Timeouts, 0)
		p.KeyIds, p.KeyRootIds, p.CallbackUrls = append(p.KeyIds, uuid.Nil), append(p.KeyRootIds, uuid.Nil), append(p.CallbackUrls, "")
		p.CallbackSealed, p.CallbackSigned, p.CallbackHeaders = append(p.CallbackSealed, nil), append(p.CallbackSigned, false), append(p.CallbackHeaders, "")
	}
	return p
}

const kindExecution = "component_execution"

// The statement that accepts executions inserts River's jobs itself. They must be the jobs that the
// pinned version of River would insert.
func TestAcceptedJobsAreThoseOfRiver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	jobs, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{Schema: postgres.RiverSchema})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		offer offer
		live  int // executions of the workspace
		opts  river.InsertOpts
	}{
		"for any worker":         {offer{kind: kindExecution}, 0, river.InsertOpts{Queue: execution.Queue}},
		"as a safety net":        {offer{kind: kindExecution, worker: 1, delay: time.Hour}, 0, river.InsertOpts{Queue: execution.Queue, ScheduledAt: time.Now().Add(time.Hour)}},
		"of a parked execution":  {offer{kind: kindExecution, worker: 1, delay: time.Hour}, 1000, river.InsertOpts{Queue: execution.Queue, Pending: true}},
		"of a run that is later": {offer{kind: execution.RunKind, delay: time.Hour}, 0, river.InsertOpts{Queue: execution.Queue, ScheduledAt: time.Now().Add(time.Hour)}},
	} {
		c.offer.workspace = b.workspace
		b.exec(t, "UPDATE credit_accounts SET live = $1", c.live)
		p := acceptParams([]offer{c.offer})
		rows, err := db.New().ExecutionAcceptMany(t.Context(), b.pool, p)
		if err != nil {
			t.Fatal(err)
		}
		args := river.JobArgs(execution.Args{WorkspaceID: b.workspace, ExecutionID: p.Ids[0]})
		if c.offer.kind == execution.RunKind {
			args = runArgs{WorkspaceID: b.workspace, RunID: p.Ids[0]}
		}
		inserted, err := jobs.Insert(t.Context(), args, &c.opts)
		if err != nil {
			t.Fatal(err)
		}
		ours, rivers := b.job(t, rows[0].JobID), b.job(t, inserted.Job.ID)
		if ours != rivers {
			t.Errorf("%s:\nours:    %s\nRiver's: %s", name, ours, rivers)
		}
	}
}

type runArgs struct {
	WorkspaceID uuid.UUID `json:"workspaceId"`
	RunID       uuid.UUID `json:"runId"`
}

func (runArgs) Kind() string { return execution.RunKind }

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

// The statement admits what the books admit one by one, for random accounts and batches.
func TestLE08AcceptanceAdmitsWhatTheBooksAdmit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	random := rand.New(rand.NewPCG(1, 2))
	ids := []uuid.UUID{b.poor(t, 0), b.poor(t, 0), b.poor(t, 0)}
	undo := errors.New("roll back")
	for range 300 {
		for _, id := range ids {
			b.exec(t, `UPDATE credit_accounts SET plan = $2, paid = $3, usage_limit = $4, reserved = $5, stored = $6, storage_limit = 100, stopped = $7 WHERE workspace_id = $1`,
				id, random.IntN(4), random.IntN(4), random.IntN(3), random.IntN(5), 95+random.IntN(6), random.IntN(8) == 0)
		}
		var offers []offer
		var wants []billing.Want
		for i := range 1 + random.IntN(8) {
			o := offer{workspace: ids[random.IntN(3)], kind: kindExecution, amount: credit.Amount(random.IntN(3))}
			if i == 0 && random.IntN(3) == 0 {
				o.kind, o.bytes = execution.RunKind, int64(random.IntN(4))
			}
			offers, wants = append(offers, o), append(wants, billing.Want{WorkspaceID: o.workspace, Amount: o.amount, Bytes: o.bytes, Run: o.kind == execution.RunKind})
		}
		var ours, books []string
		state := func(tx pgx.Tx) (text string, err error) {
			err = tx.QueryRow(t.Context(), "SELECT string_agg(format('%s %s %s', reserved, live, stored), ', ' ORDER BY workspace_id) FROM credit_accounts").Scan(&text)
			return text, err
		}
		attempt := func(decide func(tx pgx.Tx) ([]string, error)) (result []string) {
			err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
				var err error
				if result, err = decide(tx); err != nil {
					return err
				}
				after, err := state(tx)
				if result = append(result, after); err != nil {
					return err
				}
				return undo
			})
			if !errors.Is(err, undo) {
				t.Fatal(err)
			}
			return result
		}
		ours = attempt(func(tx pgx.Tx) (decided []string, err error) {
			rows, err := db.New().ExecutionAcceptMany(t.Context(), tx, acceptParams(offers))
			for _, row := range rows {
				decided = append(decided, fmt.Sprint(row.JobID != 0))
			}
			return decided, err
		})
		books = attempt(func(tx pgx.Tx) (decided []string, err error) {
			refusals, err := billing.Books{}.DecideTx(t.Context(), tx, wants)
			for _, refusal := range refusals {
				decided = append(decided, fmt.Sprint(refusal == nil))
			}
			return decided, err
		})
		if offers[0].kind == execution.RunKind && ours[0] == "false" { // nothing is accepted without the run
			ours, books = ours[:1], books[:1]
		}
		if !slices.Equal(ours, books) {
			t.Fatalf("%+v:\nstatement: %s\nbooks:     %s", offers, strings.Join(ours, " "), strings.Join(books, " "))
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
		offers[i] = offer{workspace: b.workspace, kind: kindExecution, worker: int32(i % 2)}
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
