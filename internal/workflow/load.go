package workflow

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Loaded is a version of a workflow, fit to be run: its secrets are in their places.
type Loaded struct {
	Version int32
	Status  api.WorkflowStatus // of the workflow, at the time of the look
	Plan    *graph.Plan
	Input   Input
	// Variables are those of the environment that its components name.
	Variables []string
	// Fixed are, by component, the variables in the origins of addresses next to stored
	// secrets: a stage fails if one changed after SavedAt.
	Fixed   map[string][]string
	SavedAt time.Time
}

// Wanted returns what a run of the version takes from the environment. outer are the secrets
// of the run around it.
func (l Loaded) Wanted(outer []string) environment.Wanted {
	fixed := slices.Concat(slices.Collect(maps.Values(l.Fixed))...)
	return environment.Wanted{Names: l.Variables, Fixed: fixed, SavedAt: l.SavedAt, Outer: outer}
}

// Load is a version of a workflow for those who run it, the present one for nil, by a
// connection that sees the workspace. NOT_FOUND for an unknown id or version. Versions
// never change, so a plan is made once in a while only.
func (s *Service) Load(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, number *int32) (Loaded, error) {
	head, err := db.New().WorkflowGetStatus(ctx, conn, db.WorkflowGetStatusParams{WorkspaceID: workspaceID, ID: workflowID})
	if postgres.NotFound(err) {
		return Loaded{}, notFound(nil)
	}
	if err != nil {
		return Loaded{}, fmt.Errorf("read workflow: %w", err)
	}
	if number == nil {
		number = &head.Version
	}
	loaded, err := s.LoadVersion(ctx, conn, workspaceID, workflowID, *number)
	loaded.Status = api.WorkflowStatus(head.Status)
	return loaded, err
}

// LoadVersion is Load for those who go on with a version, whatever has become of the
// workflow: it leaves the status out.
func (s *Service) LoadVersion(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, number int32) (Loaded, error) {
	key := planKey{workspaceID, workflowID, number}
	made, ok := s.plans.get(key)
	if !ok {
		var err error
		if made, err = s.plan(ctx, conn, key); err != nil {
			return Loaded{}, err
		}
		s.plans.put(key, made)
	}
	return Loaded{Version: number, Plan: made.plan, Input: made.input, Variables: made.variables, Fixed: made.fixed, SavedAt: made.savedAt}, nil
}

// plan compiles a stored version. It compiled when it was saved; if it does not now,
// the modules are others.
func (s *Service) plan(ctx context.Context, conn postgres.DB, key planKey) (planned, error) {
	row, err := read(ctx, conn, key.workspaceID, key.workflowID, &key.number)
	if err != nil {
		return planned{}, err
	}
	var d definition
	if err := json.Unmarshal(row.Definition, &d); err != nil {
		return planned{}, fmt.Errorf("read the stored definition: %w", err)
	}
	stored, _, err := s.restore(&d, func() (secrets, error) {
		return s.unsealed(ctx, conn, key.workspaceID, key.workflowID, key.number)
	})
	if err != nil {
		return planned{}, err
	}
	made := planned{size: len(row.Definition), variables: d.variables(), savedAt: row.SavedAt}
	if made.fixed, err = s.fixed(d, stored); err != nil {
		return planned{}, err
	}
	if made.plan, made.input, err = compile(d, s.modules); err != nil {
		if failure, ok := err.(*fault.Error); ok {
			failure.Message = "This version of the workflow does not fit the components of this deployment any more: " + failure.Message
		}
		return planned{}, err
	}
	return made, nil
}

// planKey is a version of a workflow.
type planKey struct {
	workspaceID, workflowID uuid.UUID
	number                  int32
}

// planned is what a version became. size is that of its definition.
type planned struct {
	plan      *graph.Plan
	input     Input
	variables []string
	fixed     map[string][]string
	savedAt   time.Time
	size      int
}

// maxPlanned is how many bytes of definitions are held as plans, which take some times
// as much.
const maxPlanned = 16 << 20

// plans are those that were used last.
type plans struct {
	mu    sync.Mutex
	known map[planKey]*list.Element // of heldPlan
	order *list.List                // the last used first
	size  int
}

type heldPlan struct {
	key planKey
	planned
}

func newPlans() *plans { return &plans{known: map[planKey]*list.Element{}, order: list.New()} }

func (p *plans) get(key planKey) (planned, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held, ok := p.known[key]
	if !ok {
		return planned{}, false
	}
	p.order.MoveToFront(held)
	return held.Value.(heldPlan).planned, true
}

func (p *plans) put(key planKey, made planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.known[key]; ok {
		return // made twice at the same time
	}
	p.known[key] = p.order.PushFront(heldPlan{key, made})
	for p.size += made.size; p.size > maxPlanned && p.order.Len() > 1; {
		last := p.order.Remove(p.order.Back()).(heldPlan)
		delete(p.known, last.key)
		p.size -= last.size
	}
}
