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

// Loaded is a version of a workflow that is ready to run, with its secrets filled in.
type Loaded struct {
	Version int32
	Status  api.WorkflowStatus // of the workflow when it was loaded
	Plan    *graph.Plan
	Input   Input
	// Variables are the environment variables that the components refer to.
	Variables []string
	// Fixed lists, by component, the variables in the origins of addresses next to stored secrets.
	// A stage fails if such a variable has changed since SavedAt.
	Fixed   map[string][]string
	SavedAt time.Time
	// Deadline is how long a run of the version may take by default. Zero: the definition doesn't say it.
	Deadline time.Duration
}

// Wanted returns the part of the environment that a run of the version needs. outer contains the
// secrets of the parent run.
func (l Loaded) Wanted(outer []string) environment.Wanted {
	fixed := slices.Concat(slices.Collect(maps.Values(l.Fixed))...)
	return environment.Wanted{Names: l.Variables, Fixed: fixed, SavedAt: l.SavedAt, Outer: outer}
}

// Load returns a version of a workflow for running it. A nil number means the current version.
// conn must see the workspace. Load returns NOT_FOUND for an unknown workflow or version. Versions
// never change, so compiled plans are cached.
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

// LoadVersion is Load without the workflow's status, for runs that have already started.
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
	return Loaded{Version: number, Plan: made.plan, Input: made.input, Variables: made.variables, Fixed: made.fixed, SavedAt: made.savedAt, Deadline: made.deadline}, nil
}

// plan compiles a stored version. It returns INVALID_INPUT if the version no longer compiles
// because modules have changed since it was saved.
func (s *Service) plan(ctx context.Context, conn postgres.DB, key planKey) (planned, error) {
	row, err := read(ctx, conn, key.workspaceID, key.workflowID, &key.number)
	if err != nil {
		return planned{}, err
	}
	var d definition
	if err := json.Unmarshal(row.Definition, &d); err != nil {
		return planned{}, fmt.Errorf("decode the stored definition: %w", err)
	}
	stored, _, err := s.restore(&d, func() (secrets, error) {
		return s.readSecrets(ctx, conn, key.workspaceID, key.workflowID, key.number)
	})
	if err != nil {
		return planned{}, err
	}
	made := planned{size: len(row.Definition), savedAt: row.SavedAt}
	if d.DeadlineMs != nil {
		made.deadline = time.Duration(*d.DeadlineMs) * time.Millisecond
	}
	if made.fixed, err = s.fixed(d, stored); err != nil {
		return planned{}, err
	}
	if made.plan, made.input, err = compile(d, s.modules); err != nil {
		if failure, ok := err.(*fault.Error); ok {
			failure.Message = "This version of the workflow does not work with the components of this deployment: " + failure.Message
		}
		return planned{}, err
	}
	made.variables = d.variables(made.plan)
	return made, nil
}

// Shape returns the plan of a version in which stored secrets are placeholders, so that no master key
// is needed. A nil number means the current version. It returns NOT_FOUND for an unknown workflow or
// version, and INVALID_INPUT if the version doesn't compile.
func (s *Service) Shape(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, number *int32) (*graph.Plan, error) {
	if number == nil {
		head, err := db.New().WorkflowGetStatus(ctx, conn, db.WorkflowGetStatusParams{WorkspaceID: workspaceID, ID: workflowID})
		if postgres.NotFound(err) {
			return nil, notFound(nil)
		}
		if err != nil {
			return nil, fmt.Errorf("read workflow: %w", err)
		}
		number = &head.Version
	}
	row, err := read(ctx, conn, workspaceID, workflowID, number)
	if err != nil {
		return nil, err
	}
	var d definition
	if err := json.Unmarshal(row.Definition, &d); err != nil {
		return nil, fmt.Errorf("decode the stored definition: %w", err)
	}
	plan, _, err := compile(d, s.modules)
	return plan, err
}

// planKey identifies a version of a workflow.
type planKey struct {
	workspaceID, workflowID uuid.UUID
	number                  int32
}

// planned is a compiled version. size is the size of its definition.
type planned struct {
	plan      *graph.Plan
	input     Input
	variables []string
	fixed     map[string][]string
	savedAt   time.Time
	deadline  time.Duration
	size      int
}

// maxCached limits the cached plans by the bytes of their definitions. A plan takes a few times as
// much memory.
const maxCached = 16 << 20

// planCache caches the plans that were used most recently.
type planCache struct {
	mu    sync.Mutex
	known map[planKey]*list.Element // elements contain a cachedPlan
	order *list.List                // most recently used first
	size  int
}

type cachedPlan struct {
	key planKey
	planned
}

func newPlanCache() *planCache {
	return &planCache{known: map[planKey]*list.Element{}, order: list.New()}
}

func (p *planCache) get(key planKey) (planned, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cached, ok := p.known[key]
	if !ok {
		return planned{}, false
	}
	p.order.MoveToFront(cached)
	return cached.Value.(cachedPlan).planned, true
}

func (p *planCache) put(key planKey, made planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.known[key]; ok {
		return // a concurrent call also compiled this version
	}
	p.known[key] = p.order.PushFront(cachedPlan{key, made})
	for p.size += made.size; p.size > maxCached && p.order.Len() > 1; {
		last := p.order.Remove(p.order.Back()).(cachedPlan)
		delete(p.known, last.key)
		p.size -= last.size
	}
}
