package schedule_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/gen/api"
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
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// priced is a component that costs credits.
type priced struct{}

func (priced) Describe() component.Descriptor {
	anything := json.RawMessage(`{"type":"object","additionalProperties":true}`)
	return component.Descriptor{
		Module: "PRICED", Title: "Priced", Description: "A component of the tests.", Category: "UTILITY", Price: credit.Credits(1),
		Input: anything, Config: anything, Output: anything, Timeout: time.Second, Effect: component.EffectNone, Repeat: component.RepeatPure,
		Modes: []component.Mode{component.ModeWorkflow},
	}
}

func (priced) Run(context.Context, component.Call) (component.Result, error) {
	return component.Result{}, nil
}

// bench is a database with a workspace.
type bench struct {
	dsn       string
	pool      *pgxpool.Pool // sees all workspaces
	workspace uuid.UUID
	ctx       context.Context // of requests
	log       *slog.Logger
}

func newBench(t *testing.T, paid credit.Amount) *bench {
	t.Helper()
	b := &bench{dsn: pgtest.DSN(t), log: slog.New(slog.DiscardHandler)}
	b.pool = b.open(t, postgres.Owner)
	var err error
	if b.workspace, err = workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "test", Plan: plan.Starter, Paid: paid}); err != nil {
		t.Fatal(err)
	}
	b.ctx = postgres.Scope(context.Background(), b.workspace)
	return b
}

func (b *bench) open(t *testing.T, role postgres.Role) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(context.Background(), b.dsn, "test", role, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// node is a process that runs no executions.
type node struct {
	*bench
	*schedule.Service
	workflows *workflow.Service
	runs      *run.Service
	sweeper   *orchestrator.Sweeper
	vault     *vault.Vault
}

func (b *bench) start(t *testing.T) *node {
	t.Helper()
	log := b.log
	requests, system := b.open(t, postgres.API), b.open(t, postgres.System)
	modules, err := component.NewRegistry(append(logic.Modules(), priced{})...)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.NewKeyring(seal.Key{ID: "test", Secret: [32]byte{1, 2, 3, 4, 5, 6, 7, 8}})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := river.NewClient(riverpgxv5.New(requests), &river.Config{Schema: postgres.RiverSchema, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{bench: b, workflows: workflow.NewService(requests, modules, ring)}
	hub := notify.NewHub()
	n.vault = vault.New(system, ring)
	deps := execution.Deps{DB: requests, Jobs: jobs, Modules: modules, Keyring: ring, Hub: hub}
	ends := deps
	ends.DB = system
	runner := execution.NewRunner(ends, &execution.Identity{}, 0, log)
	executions := execution.NewService(deps, runner)
	e := orchestrator.New(orchestrator.Deps{
		System: system, Hub: hub, Executions: executions, Modules: modules, Workflows: n.workflows, Vault: n.vault, Log: log,
	})
	n.runs = run.NewService(run.Deps{
		API: requests, Hub: hub, Engine: e, Executions: executions, Modules: modules, Workflows: n.workflows, Vault: n.vault,
	})
	n.Service = schedule.NewService(schedule.Deps{API: requests, Runs: n.runs, Vault: n.vault, Log: log})
	n.workflows.Unfit = n.Unfit
	n.sweeper = orchestrator.NewSweeper(e)
	n.sweeper.Schedule = n.Enqueue
	t.Cleanup(func() {
		n.Service.Close()
		executions.Close()
		runner.Drain(context.Background())
		runner.Close()
		e.Close()
	})
	return n
}

// waits is a workflow that a schedule starts and whose runs wait for a signal.
const waits = `[{"id":"start","module":"ON_SCHEDULE","config":{"cron":"* * * * *"}},{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}}]`

const edge = `[{"id":"1","from":"start","to":"wait","port":"next"}]`

func (n *node) save(t *testing.T, components, edges string) uuid.UUID {
	t.Helper()
	saved, _, err := n.workflows.Create(n.ctx, workflow.CreateParams{WorkspaceID: n.workspace, Draft: workflow.Draft{
		Name: "test", Components: json.RawMessage(components), SequenceEdges: json.RawMessage(edges),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return saved.ID
}

// schedule creates a schedule that is due much later.
func (n *node) schedule(t *testing.T, workflowID uuid.UUID, d schedule.Draft) notify.Key {
	t.Helper()
	if d.Cron == "" {
		d.Cron = "0 0 1 1 *"
	}
	made, _, err := n.Create(n.ctx, schedule.CreateParams{WorkspaceID: n.workspace, WorkflowID: workflowID, Draft: d})
	if err != nil {
		t.Fatal(err)
	}
	return notify.Key{WorkspaceID: n.workspace, ID: made.ID}
}

// due changes a schedule so that it has been due for the specified duration.
func (b *bench) due(t *testing.T, key notify.Key, ago time.Duration) {
	t.Helper()
	b.exec(t, "UPDATE schedules SET next_at = now() - $2::interval WHERE id = $1", key.ID, ago)
}

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) number(t *testing.T, query string, args ...any) (n int64) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// anyone may use all workflows.
type anyone struct{}

func (anyone) MayUse(uuid.UUID) bool { return true }

func (n *node) show(t *testing.T, key notify.Key) api.Schedule {
	t.Helper()
	shown, err := n.Get(n.ctx, key, anyone{})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// until sweeps until a condition holds.
func (n *node) until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	waittest.Until(t, what, func() bool {
		n.sweeper.Sweep(t.Context())
		return yes()
	})
}
