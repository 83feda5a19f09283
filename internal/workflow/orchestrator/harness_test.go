package orchestrator_test

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

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// module is a component whose behavior is a function.
type module struct {
	component.Descriptor
	run func(ctx context.Context, call component.Call) (component.Result, error)
}

func (m module) Describe() component.Descriptor { return m.Descriptor }
func (m module) Run(ctx context.Context, call component.Call) (component.Result, error) {
	return m.run(ctx, call)
}

const anything = `{"type":"object","additionalProperties":true}`

// made returns a module without an effect, whose price is one credit.
func made(name string, run func(ctx context.Context, call component.Call) (component.Result, error)) module {
	return module{component.Descriptor{
		Module: name, Title: name, Description: "A component of the tests.", Category: "UTILITY",
		Input: json.RawMessage(anything), Config: json.RawMessage(anything), Output: json.RawMessage(anything), Price: credit.Credits(1),
		Timeout: 20 * time.Second, Effect: component.EffectNone, Repeat: component.RepeatPure,
		Modes: []component.Mode{component.ModeComponent, component.ModeWorkflow},
	}, run}
}

// echo returns the module ECHO: its output is its input.
func echo() module {
	return made("ECHO", func(_ context.Context, call component.Call) (component.Result, error) {
		return component.Result{Output: call.Input}, nil
	})
}

// node is a process with its own database and workspace.
type node struct {
	dsn       string
	pool      *pgxpool.Pool // sees all workspaces
	workspace uuid.UUID
	workflows *workflow.Service
	runs      *run.Service
	metrics   *telemetry.Metrics
	limit     time.Duration   // Deps.TimeLimit
	ctx       context.Context // of requests
}

// start starts a node that has the control-flow modules and the specified modules. It stops the
// node when the test ends. The advances of the node have no time limits, so that a busy machine doesn't
// change what they compute.
func start(t testing.TB, credits int64, of plan.Name, modules ...component.Module) *node {
	t.Helper()
	return startWith(t, time.Hour, credits, of, modules...)
}

// startWith is start with a time limit of advances. 0 means the usual limits.
func startWith(t testing.TB, limit time.Duration, credits int64, of plan.Name, modules ...component.Module) *node {
	t.Helper()
	n := &node{dsn: pgtest.DSN(t), limit: limit}
	n.pool = n.open(t, postgres.Owner, 4)
	var err error
	if n.workspace, err = workspace.Create(t.Context(), n.pool, workspace.CreateParams{Name: "test", Plan: of, Paid: credit.Credits(credits)}); err != nil {
		t.Fatal(err)
	}
	n.serve(t, modules...)
	return n
}

// serve starts the processes of a node.
func (n *node) serve(t testing.TB, modules ...component.Module) {
	t.Helper()
	registry, err := component.NewRegistry(append(logic.Modules(), modules...)...)
	if err != nil {
		t.Fatal(err)
	}
	keyring, err := seal.NewKeyring(seal.Key{ID: "test", Secret: [32]byte{1, 2, 3, 4, 5, 6, 7, 8}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	n.ctx = postgres.Scope(context.Background(), n.workspace)
	requests, system := n.open(t, postgres.API, 12), n.open(t, postgres.System, 16)
	inserter, err := river.NewClient(riverpgxv5.New(requests), &river.Config{Schema: postgres.RiverSchema, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	n.metrics = telemetry.NewMetrics("test")
	hub, kept := notify.NewHub(), vault.New(system, keyring)
	deps := execution.Deps{DB: requests, Jobs: inserter, Modules: registry, Keyring: keyring, Vault: kept, Hub: hub, Metrics: n.metrics}
	identity := execution.NewIdentity(n.dsn, 16, log)
	ends := deps
	ends.DB = system
	runner := execution.NewRunner(ends, identity, 8, log)
	executions := execution.NewService(deps, runner)
	n.workflows = workflow.NewService(requests, registry, keyring)
	variables := environment.NewService(requests, keyring)
	e := orchestrator.New(orchestrator.Deps{
		System: system, Hub: hub, Executions: executions, Modules: registry,
		Workflows: n.workflows, Environment: variables, Vault: kept, Log: log, TimeLimit: n.limit,
	})
	runner.Finish = e.FinishStage
	n.runs = run.NewService(run.Deps{
		API: requests, Hub: hub, Engine: e, Executions: executions, Modules: registry,
		Workflows: n.workflows, Environment: variables, Vault: kept,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { identity.Run(ctx, execution.NewSweeper(runner).Sweep) })
	running.Go(func() { sweep(ctx, orchestrator.NewSweeper(e)) })
	<-identity.Ready()
	queue := fetch(t, system, &execution.Worker{Runner: runner}, &orchestrator.Worker{Orchestrator: e})
	t.Cleanup(func() {
		_ = queue.StopAndCancel(context.Background())
		soft, done := waittest.CleanupContext(t)
		defer done()
		runner.Drain(soft)
		runner.Close()
		e.Close()
		executions.Close()
		cancel()
		running.Wait()
	})
}

func (n *node) open(t testing.TB, role postgres.Role, conns int32) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(context.Background(), n.dsn, "test", role, conns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// fetch returns a client that runs jobs.
func fetch(t testing.TB, pool *pgxpool.Pool, executions *execution.Worker, runs *orchestrator.Worker) *river.Client[pgx.Tx] {
	t.Helper()
	set := river.NewWorkers()
	river.AddWorker(set, executions)
	river.AddWorker(set, runs)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: postgres.RiverSchema, Logger: slog.New(slog.DiscardHandler), Workers: set, JobTimeout: -1,
		Queues: map[string]river.QueueConfig{orchestrator.Queue: {MaxWorkers: 8, FetchCooldown: time.Millisecond, FetchPollInterval: 200 * time.Millisecond}},
	})
	if err == nil {
		err = client.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func sweep(ctx context.Context, sweeper *orchestrator.Sweeper) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			sweeper.Sweep(ctx)
		}
	}
}

// draw stores a workflow. Edges and connections may be empty.
func (n *node) draw(t testing.TB, components, edges, connections string) uuid.UUID {
	t.Helper()
	draft := workflow.Draft{
		Name: "test", Components: json.RawMessage(components),
		SequenceEdges: json.RawMessage(cmp.Or(edges, "[]")), DataConnections: json.RawMessage(cmp.Or(connections, "[]")),
	}
	saved, _, err := n.workflows.Create(n.ctx, workflow.CreateParams{WorkspaceID: n.workspace, Draft: draft})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return saved.ID
}

// number returns the number that a query returns.
func (n *node) number(t testing.TB, query string, args ...any) (number int64) {
	t.Helper()
	if err := n.pool.QueryRow(context.Background(), query, args...).Scan(&number); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return number
}

// audit fails the test if the accounts differ from the postings and the live runs, or if credits
// are still reserved.
func (n *node) audit(t testing.TB) {
	t.Helper()
	broken, _, err := billing.Audit(context.Background(), n.pool, uuid.Nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, drift := range broken {
		t.Errorf("the books: %s", drift)
	}
	if reserved := n.number(t, "SELECT sum(reserved)::bigint FROM credit_accounts"); reserved != 0 {
		t.Errorf("%s credits are still reserved", credit.Amount(reserved))
	}
}
