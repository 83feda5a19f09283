package execution_test

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// module is a component that calls a function.
type module struct {
	name    string
	price   credit.Amount
	repeat  component.Repeat
	effect  component.Effect // EffectRead if empty
	timeout time.Duration
	modes   []component.Mode // nil: both
	run     func(ctx context.Context, call component.Call) (component.Result, error)
}

func (m module) Describe() component.Descriptor {
	anything := json.RawMessage(`{"type":"object","additionalProperties":true}`)
	timeout := m.timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	modes := m.modes
	if modes == nil {
		modes = []component.Mode{component.ModeComponent, component.ModeWorkflow}
	}
	return component.Descriptor{
		Module: m.name, Title: m.name, Description: "A component of the tests.", Category: "UTILITY",
		Input: anything, Config: anything, Output: anything, Price: m.price, Timeout: timeout,
		Effect: cmp.Or(m.effect, component.EffectRead), Repeat: m.repeat, Modes: modes,
	}
}

func (m module) Run(ctx context.Context, call component.Call) (component.Result, error) {
	return m.run(ctx, call)
}

// node is one process, with a Service and a Runner.
type node struct {
	service  *execution.Service
	runner   *execution.Runner
	identity *execution.Identity
	pool     *pgxpool.Pool
	stop     func()
}

// bench is a database with a workspace.
type bench struct {
	dsn       string
	pool      *pgxpool.Pool
	workspace uuid.UUID
	keyring   *seal.Keyring
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{dsn: pgtest.DSN(t)}
	b.pool = open(t, b.dsn)
	var err error
	if b.workspace, err = uuid.NewV7(); err != nil {
		t.Fatal(err)
	}
	if _, err := workspace.Create(t.Context(), b.pool, workspace.CreateParams{ID: b.workspace, Name: "test", Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)}); err != nil {
		t.Fatal(err)
	}
	if err := (billing.Books{}).Renew(t.Context(), b.pool, b.workspace); err != nil { // starts the first period
		t.Fatal(err)
	}
	key, err := seal.ParseKey("q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=")
	if err != nil {
		key = seal.Key{ID: "test", Secret: [32]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
	}
	if b.keyring, err = seal.NewKeyring(key); err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(context.Background(), dsn, "test", postgres.Owner, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// options of a node.
type options struct {
	slots    int  // for local executions; 0: all executions go through the queue
	workers  int  // of the queue; 0: none
	idle     bool // accepts only, without a worker identity
	works    bool // runs executions, but accepts none
	unpolled bool // the queue fetches jobs only when it is notified
	ended    func(ctx context.Context, out execution.Outcome) error

	skew  time.Duration    // offset of the node's clock
	now   func() time.Time // measures durations; the node's clock if nil
	clock *clock.Clock     // the node's estimate of PostgreSQL's clock
	most  time.Duration    // Deps.CallTimeout
}

// capacity returns how many executions a node can run at once.
func (o options) capacity() int {
	if o.works {
		return o.workers
	}
	return o.slots + o.workers
}

// start starts a node. It stops when the test ends, or by node.stop.
func (b *bench) start(t *testing.T, o options, modules ...component.Module) *node {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	registry, err := component.NewRegistry(modules...)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{pool: open(t, b.dsn)}
	inserter, err := river.NewClient(riverpgxv5.New(n.pool), &river.Config{Schema: postgres.RiverSchema, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	hub := notify.NewHub()
	local := func() time.Time { return time.Now().Add(o.skew) }
	o.clock = clock.New(local)
	o.clock.Observe(local(), local(), time.Now()) // of PostgreSQL, which is on this machine
	if o.now == nil {
		o.now = local
	}
	deps := execution.Deps{DB: n.pool, Jobs: inserter, Modules: registry, Keyring: b.keyring, Vault: vault.New(n.pool, b.keyring), Hub: hub, Now: o.now, Clock: o.clock, CallTimeout: o.most}
	ctx, cancel := context.WithCancel(context.Background())
	relayed := make(chan struct{})
	relay := &notify.Relay{Hub: hub, DSN: b.dsn, Log: log, Changed: execution.Changed(n.pool)}
	go func() { defer close(relayed); relay.Run(ctx) }()
	n.stop = func() { cancel(); <-relayed }
	if o.idle {
		n.runner = execution.NewRunner(deps, &execution.Identity{}, 0, log)
		n.runner.Finish = o.ended
		n.service = execution.NewService(deps, n.runner)
		t.Cleanup(n.stop)
		return n
	}
	n.identity = execution.NewIdentity(b.dsn, o.capacity(), log)
	n.runner = execution.NewRunner(deps, n.identity, o.slots, log)
	n.runner.Finish = o.ended
	n.service = execution.NewService(deps, n.runner)
	held := make(chan struct{})
	sweeper := execution.NewSweeper(n.runner)
	go func() {
		defer close(held)
		var both sync.WaitGroup
		both.Go(func() { n.runner.Reclaim(ctx) })
		n.identity.Run(ctx, sweeper.Sweep)
		both.Wait()
	}()
	<-n.identity.Ready()
	queue := b.work(t, n, o, log)
	stopped := false
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		if queue != nil {
			_ = queue.StopAndCancel(context.Background())
		}
		soft, done := waittest.CleanupContext(t)
		defer done()
		n.runner.Drain(soft)
		n.runner.Close()
		cancel()
		<-relayed
		<-held
	}
	t.Cleanup(n.stop)
	return n
}

func (b *bench) work(t *testing.T, n *node, o options, log *slog.Logger) *river.Client[pgx.Tx] {
	t.Helper()
	if o.workers == 0 {
		return nil
	}
	set := river.NewWorkers()
	river.AddWorker(set, &execution.Worker{Runner: n.runner})
	poll := 200 * time.Millisecond
	if o.unpolled {
		poll = time.Hour
	}
	queue, err := river.NewClient(riverpgxv5.New(n.pool), &river.Config{
		Schema: postgres.RiverSchema, Logger: log, Workers: set, JobTimeout: -1,
		Queues: map[string]river.QueueConfig{execution.Queue: {
			MaxWorkers: o.workers, FetchCooldown: time.Millisecond, FetchPollInterval: poll,
		}},
		Test: river.TestConfig{Time: o.clock},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := queue.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return queue
}

func (b *bench) submit(t *testing.T, n *node, p execution.SubmitParams) api.ComponentExecution {
	t.Helper()
	p.WorkspaceID = b.workspace
	if p.Attempts == 0 {
		p.Attempts = 1
	}
	if p.Input == nil {
		p.Input = json.RawMessage(`{}`)
	}
	p.Config = json.RawMessage(`{}`)
	made, err := n.service.Submit(t.Context(), p)
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return made.Record
}

func (b *bench) await(t *testing.T, n *node, id uuid.UUID) api.ComponentExecution {
	t.Helper()
	got, err := n.service.Await(t.Context(), b.workspace, id, time.Until(waittest.Deadline(t)))
	if err != nil {
		t.Fatalf("await: %v", err)
	}
	if !got.Status.Terminal() {
		t.Fatalf("execution is %s at the end of the test", got.Status)
	}
	return got
}

func (b *bench) postings(t *testing.T) (count, sum int64) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), "SELECT count(*), COALESCE(sum(usage), 0)::bigint FROM credit_postings WHERE kind = 'EXECUTION'").Scan(&count, &sum)
	if err != nil {
		t.Fatal(err)
	}
	return count, sum
}
