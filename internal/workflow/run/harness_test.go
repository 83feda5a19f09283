package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
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
	"github.com/weft-automation/weft/internal/account/accesstoken"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soak reports whether the tests run at full size.
var soak = os.Getenv("WEFT_SOAK") != ""

// size returns quick, or full in the soak test.
func size(quick, full int) int {
	if soak {
		return full
	}
	return quick
}

type module = workflowtest.Module

// bench is a database with a workspace.
type bench struct {
	dsn       string
	pool      *pgxpool.Pool // sees all workspaces
	workspace uuid.UUID
	keyring   *seal.Keyring
	modules   *component.Registry
	guard     *egress.Guard // fetches access tokens; nil: not available
}

// newBench returns a bench whose nodes have all control-flow modules, WORK, PURE, and the modules
// in extra.
func newBench(t testing.TB, extra ...component.Module) *bench {
	t.Helper()
	b := &bench{dsn: pgtest.DSN(t)}
	b.pool = b.open(t, postgres.Owner, 4)
	b.workspace = b.account(t, credit.Credits(1_000_000), plan.Enterprise)
	var err error
	if b.keyring, err = seal.NewKeyring(seal.Key{ID: "test", Secret: [32]byte{1, 2, 3, 4, 5, 6, 7, 8}}); err != nil {
		t.Fatal(err)
	}
	if b.modules, err = component.NewRegistry(append(append(logic.Modules(), workflowtest.Work(), workflowtest.Pure()), extra...)...); err != nil {
		t.Fatal(err)
	}
	return b
}

// account creates a workspace with the specified credits and plan.
func (b *bench) account(t testing.TB, paid credit.Amount, of plan.Name) uuid.UUID {
	t.Helper()
	id, err := workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "test " + string(of), Plan: of, Paid: paid})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (b *bench) open(t testing.TB, role postgres.Role, conns int32) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(context.Background(), b.dsn, "test", role, conns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// node is one process.
type node struct {
	*bench
	workflows   *workflow.Service
	environment *environment.Service
	engine      *orchestrator.Orchestrator
	runs        client
	ctx         context.Context // of requests
	windUp      func()          // starts the shutdown
	stop        func()
}

// options configure a node.
type options struct {
	slots int                                                    // slots for executions, and as many queue workers
	deaf  bool                                                   // the node gets no notifications of finished executions
	also  func(ctx context.Context, out execution.Outcome) error // also called for finished executions
	sweep time.Duration                                          // interval of its sweeps; 0: never
}

// start starts a node and stops it when the test ends.
func (b *bench) start(t testing.TB, o options) *node {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n := &node{bench: b, ctx: postgres.Scope(context.Background(), b.workspace)}
	requests, system := b.open(t, postgres.API, 5), b.open(t, postgres.System, 6)
	inserter, err := river.NewClient(riverpgxv5.New(requests), &river.Config{Schema: postgres.RiverSchema, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	hub := notify.NewHub()
	kept := vault.New(system, b.keyring)
	deps := execution.Deps{DB: requests, Jobs: inserter, Modules: b.modules, Keyring: b.keyring, Vault: kept, Hub: hub}
	if b.guard != nil {
		deps.Tokens = accesstoken.New(system, b.keyring, b.guard)
	}
	identity := execution.NewIdentity(b.dsn, 2*max(o.slots, 1), log)
	ends := deps
	ends.DB = system
	runner := execution.NewRunner(ends, identity, o.slots, log)
	runner.Finish = func(ctx context.Context, out execution.Outcome) error {
		err := errors.New("deaf")
		if !o.deaf {
			err = n.engine.FinishStage(ctx, out)
		}
		if o.also != nil && (err == nil || out.Stored()) {
			_ = o.also(ctx, execution.Outcome{Run: out.Run, Executions: out.Executions})
		}
		return err
	}
	executions := execution.NewService(deps, runner)
	n.workflows = workflow.NewService(requests, b.modules, b.keyring)
	n.environment = environment.NewService(requests, b.keyring)
	n.engine = orchestrator.New(orchestrator.Deps{
		System: system, Hub: hub, Executions: executions, Modules: b.modules,
		Workflows: n.workflows, Environment: n.environment, Vault: kept, Log: log,
	})
	n.runs = client{run.NewService(run.Deps{
		API: requests, Hub: hub, Engine: n.engine, Executions: executions, Modules: b.modules,
		Workflows: n.workflows, Environment: n.environment, Vault: kept,
	})}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	relay := &notify.Relay{Hub: hub, DSN: b.dsn, Log: log, Changed: run.Changed(system)}
	running.Go(func() { relay.Run(ctx) })
	running.Go(func() { runner.Reclaim(ctx) })
	running.Go(func() { identity.Run(ctx, execution.NewSweeper(runner).Sweep) })
	if o.sweep > 0 {
		running.Go(func() { sweep(ctx, orchestrator.NewSweeper(n.engine), o.sweep) })
	}
	<-identity.Ready()
	queue := queue(t, system, max(o.slots, 1), &execution.Worker{Runner: runner}, &orchestrator.Worker{Orchestrator: n.engine})
	n.windUp = runner.StopSuccessors
	n.stop = sync.OnceFunc(func() {
		_ = queue.StopAndCancel(context.Background())
		soft, done := waittest.CleanupContext(t)
		defer done()
		runner.Drain(soft)
		runner.Close()
		n.engine.Close()
		executions.Close()
		cancel()
		running.Wait()
	})
	t.Cleanup(n.stop)
	return n
}

// queue returns a client that runs jobs.
func queue(t testing.TB, pool *pgxpool.Pool, workers int, executions *execution.Worker, runs *orchestrator.Worker) *river.Client[pgx.Tx] {
	t.Helper()
	set := river.NewWorkers()
	river.AddWorker(set, executions)
	river.AddWorker(set, runs)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: postgres.RiverSchema, Logger: slog.New(slog.DiscardHandler), Workers: set, JobTimeout: -1,
		Queues: map[string]river.QueueConfig{orchestrator.Queue: {MaxWorkers: workers, FetchCooldown: time.Millisecond, FetchPollInterval: 200 * time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return client
}

func sweep(ctx context.Context, sweeper *orchestrator.Sweeper, every time.Duration) {
	ticker := time.NewTicker(every)
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

// anyone may use all workflows.
type anyone struct{}

func (anyone) MayUse(uuid.UUID) bool { return true }

// save stores a workflow.
func (n *node) save(t testing.TB, draft workflow.Draft) uuid.UUID {
	t.Helper()
	draft.Name = "test"
	saved, _, err := n.workflows.Create(n.ctx, workflow.CreateParams{WorkspaceID: n.workspace, Draft: draft})
	if err != nil {
		t.Fatalf("save: %s\n%s\n%s", told(err), draft.Components, draft.SequenceEdges)
	}
	return saved.ID
}

// draw is save for components, edges and connections in JSON form.
func (n *node) draw(t testing.TB, components, edges, connections string) uuid.UUID {
	t.Helper()
	draft := workflow.Draft{Components: json.RawMessage(components)}
	if edges != "" {
		draft.SequenceEdges = json.RawMessage(edges)
	}
	if connections != "" {
		draft.DataConnections = json.RawMessage(connections)
	}
	return n.save(t, draft)
}

func told(err error) string {
	text, _ := json.Marshal(err)
	return err.Error() + " " + string(text)
}

// trigger starts a run.
func (n *node) trigger(t testing.TB, p run.TriggerParams) notify.Key {
	t.Helper()
	p.WorkspaceID = n.workspace
	begun, err := n.runs.Trigger(n.ctx, p)
	if err != nil {
		t.Fatalf("trigger: %s", told(err))
	}
	return notify.Key{WorkspaceID: n.workspace, ID: begun.RunID}
}

// end waits for the final event of a run, and returns its record and stages.
func (n *node) end(t testing.TB, key notify.Key) (api.WorkflowRun, map[string]api.RunStage) {
	t.Helper()
	ctx, cancel := context.WithDeadline(n.ctx, waittest.Deadline(t))
	defer cancel()
	events, err := n.runs.Watch(ctx, key, anyone{}, nil)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	for range events {
	}
	got, err := n.runs.Get(n.ctx, key, anyone{})
	if err != nil {
		t.Fatal(err)
	}
	stages := n.stages(t, key)
	if !got.Status.Terminal() {
		t.Fatalf("run %s is %s: %v", key.ID, got.Status, live(stages))
	}
	return got, stages
}

// analyze updates statistics, as autovacuum does in production. Otherwise queries would be planned
// for empty tables and scan whole workspaces.
func (b *bench) analyze(t testing.TB) {
	t.Helper()
	if _, err := b.pool.Exec(context.Background(), "ANALYZE workflow_runs, run_stages, run_events, component_executions"); err != nil {
		t.Error(err)
	}
}

// stages returns the stages of a run by component and iteration.
func (n *node) stages(t testing.TB, key notify.Key) map[string]api.RunStage {
	t.Helper()
	stages := map[string]api.RunStage{}
	for stage, err := range n.runs.Stages(n.ctx, key) {
		if err != nil {
			t.Fatal(err)
		}
		at := workflowtest.Place(stage.ComponentID, stage.Iteration)
		if _, twice := stages[at]; twice {
			t.Errorf("run %s has the stage %s twice", key.ID, at)
		}
		stages[at] = stage
	}
	return stages
}

func live(stages map[string]api.RunStage) (live []string) {
	for at, stage := range stages {
		if !stage.Status.Terminal() {
			live = append(live, at+" "+stage.Module+" "+string(stage.Status))
		}
	}
	return live
}
