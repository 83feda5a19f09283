package workflow_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/workflow"
)

// module is a component for tests.
type module struct {
	component.Descriptor
	flow component.Flow
}

func (m module) Describe() component.Descriptor { return m.Descriptor }
func (m module) Flow() component.Flow           { return m.flow }
func (m module) Run(context.Context, component.Call) (component.Result, error) {
	return component.Result{}, nil
}

func describe(name, input, config, output string, flow component.Flow) module {
	return module{component.Descriptor{
		Module: name, Title: name, Description: name, Category: "TEST", Timeout: time.Second,
		Input: json.RawMessage(input), Config: json.RawMessage(config), Output: json.RawMessage(output),
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: []component.Mode{component.ModeWorkflow},
	}, flow}
}

const none = `{"type":"object","properties":{}}`

// registry has a trigger, a call with secrets, a loop, and a module that workflows cannot use.
func registry(t *testing.T) *component.Registry {
	t.Helper()
	alone := describe("ALONE", none, none, none, component.Flow{})
	alone.Modes = []component.Mode{component.ModeComponent}
	r, err := component.NewRegistry(
		describe("START", none, none, `{"type":"object","additionalProperties":true}`, component.Flow{Trigger: true}),
		describe("CALL",
			`{"type":"object","properties":{"headers":{"type":"object","additionalProperties":{"type":"string","x-secret":true}},"body":{},"count":{"type":"integer"}}}`,
			`{"type":"object","required":["url"],"properties":{"url":{"type":"string","minLength":3},"token":{"type":"string","x-secret":true},
				"options":{"type":"object","additionalProperties":true},"big":{"type":"number"}}}`,
			`{"type":"object","properties":{"text":{"type":"string"},"status":{"type":"integer"}}}`, component.Flow{}),
		describe("LOOP", `{"type":"object","required":["items"],"properties":{"items":{"type":"array"}}}`, none, none, component.Flow{Loop: true}),
		alone,
	)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bench is a workspace with a Service that has the database access of a request.
type bench struct {
	*workflow.Service
	dsn       string
	pool      *pgxpool.Pool // sees all workspaces
	scoped    *pgxpool.Pool
	workspace uuid.UUID
	ctx       context.Context
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{dsn: pgtest.DSN(t)}
	open := func(role postgres.Role) *pgxpool.Pool {
		pool, err := postgres.Open(t.Context(), b.dsn, "test", role, 8)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	b.pool, b.scoped = open(postgres.Owner), open(postgres.API)
	b.workspace = b.another(t, "Acme")
	b.ctx = postgres.Scope(t.Context(), b.workspace)
	b.Service = b.service(t)
	return b
}

// another creates a second workspace.
func (b *bench) another(t *testing.T, name string) uuid.UUID {
	t.Helper()
	id, err := workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: name, Plan: plan.Starter})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// service returns the Service of a different process.
func (b *bench) service(t *testing.T) *workflow.Service {
	t.Helper()
	return b.serviceOf(t, registry(t))
}

func (b *bench) serviceOf(t *testing.T, modules *component.Registry) *workflow.Service {
	t.Helper()
	return workflow.NewService(b.scoped, modules, keyring(t))
}

func (b *bench) setVariable(t *testing.T, name, value string) {
	t.Helper()
	if _, err := environment.NewService(b.scoped, keyring(t)).Set(b.ctx, environment.SetParams{WorkspaceID: b.workspace, Name: name, Value: value}); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) deleteVariable(t *testing.T, name string) {
	t.Helper()
	if _, err := environment.NewService(b.scoped, keyring(t)).Delete(b.ctx, b.workspace, name); err != nil {
		t.Fatal(err)
	}
}

func keyring(t *testing.T) *seal.Keyring {
	t.Helper()
	key := seal.Key{ID: "test"}
	key.Secret[0] = 7
	ring, err := seal.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// draft returns a workflow with these components and edges.
func draft(name, components string, edges ...string) workflow.Draft {
	d := workflow.Draft{Name: name, Components: json.RawMessage(components)}
	if len(edges) > 0 {
		d.SequenceEdges = json.RawMessage(edges[0])
	}
	return d
}

const one = `[{"id":"call","module":"CALL","config":{"url":"https://a.test","options":{"a":1,"b":2}}}]`

func (b *bench) create(t *testing.T, d workflow.Draft) api.Workflow {
	t.Helper()
	made, replayed, err := b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d})
	if err != nil || replayed {
		t.Fatalf("create: %v, replayed %v", err, replayed)
	}
	return made
}

func (b *bench) update(id uuid.UUID, componentID, config string) (api.UpdatedWorkflowComponent, error) {
	p := workflow.UpdateParams{WorkspaceID: b.workspace, WorkflowID: id, ComponentID: componentID}
	if config != "" {
		p.Config = json.RawMessage(config)
	}
	return b.UpdateComponent(b.ctx, p)
}
