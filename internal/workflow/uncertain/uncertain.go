// Package uncertain finds the runs of a restored database that would repeat a call that is not safe to
// repeat. The call may have been made after the backup: the run shows no stage for it.
package uncertain

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/quarantine"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// runWorkflow is the module that starts a child run.
const runWorkflow = "RUN_WORKFLOW"

// Finder finds uncertain runs.
type Finder struct {
	DB        postgres.DB // sees all workspaces
	Workflows *workflow.Service
	Modules   *component.Registry
}

// Each calls visit for all unfinished runs in which a component that is not safe to repeat may still
// start. A component counts as unsafe unless the literal fields of the workflow show that it is safe.
// Workflows that child runs may start are included.
func (f *Finder) Each(ctx context.Context, visit func(notify.Key) error) error {
	return quarantine.ListRuns(ctx, f.DB, func(row db.InstallationListUnfinishedRow) error {
		key := notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		found, err := f.run(ctx, key)
		if err != nil {
			return fmt.Errorf("check what run %s would repeat: %w", key.ID, err)
		}
		if !found {
			return nil
		}
		return visit(key)
	})
}

// run reports whether a run is uncertain.
func (f *Finder) run(ctx context.Context, key notify.Key) (bool, error) {
	row, err := db.New().RunGet(ctx, f.DB, db.RunGetParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if row.Status.Terminal() || row.CancelRequestedAt != nil || len(row.Error) > 0 {
		return false, nil // nothing starts any more
	}
	plan, err := f.Workflows.Shape(ctx, f.DB, key.WorkspaceID, row.WorkflowID, &row.WorkflowVersion)
	if unusable(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	rows, err := db.New().StageListForRerun(ctx, f.DB, db.StageListForRerunParams{WorkspaceID: key.WorkspaceID, RunID: key.ID})
	if err != nil {
		return false, err
	}
	j := judge{Finder: f, ctx: ctx, workspace: key.WorkspaceID, plan: plan, seen: map[version]bool{}, stages: map[engine.Place]engine.EarlierStage{}}
	for _, stage := range rows {
		j.stages[engine.PlaceOf(stage.ComponentID, stage.Iteration)] = engine.EarlierStage(stage)
	}
	return j.scope("", nil)
}

// unusable reports whether a workflow is missing or doesn't compile, so that nothing is known of it.
func unusable(err error) bool {
	failure, ok := errors.AsType[*fault.Error](err)
	return ok && failure.Code != fault.Unavailable
}

// judge judges one run, or one workflow that a run may start.
type judge struct {
	*Finder
	ctx       context.Context
	workspace uuid.UUID
	plan      *graph.Plan
	stages    map[engine.Place]engine.EarlierStage
	seen      map[version]bool // so that recursion ends
}

// version is a version of a workflow, 0 for the active one.
type version struct {
	workflow uuid.UUID
	number   int32
}

// scope reports whether an unsafe component may still start in a scope: the components in no loop, or
// one iteration of a loop.
func (j *judge) scope(loop string, iteration []int32) (bool, error) {
	states := map[string]graph.State{}
	for _, id := range j.plan.Members(loop) {
		if stage, ran := j.stages[engine.PlaceOf(id, iteration)]; ran {
			states[id] = graph.State{Status: stage.Status}
			if stage.Port != nil {
				states[id] = graph.State{Status: stage.Status, Port: *stage.Port}
			}
		}
	}
	for _, id := range j.plan.Ahead(loop, states) {
		if found, err := j.component(id); found || err != nil {
			return found, err
		}
	}
	for _, id := range j.plan.Members(loop) {
		stage, ran := j.stages[engine.PlaceOf(id, iteration)]
		if _, module := j.plan.Component(id); !ran || !module.Loop || stage.Status.Terminal() {
			continue
		}
		if stage.ItemCount == nil {
			return j.body(id)
		}
		for i := range *stage.ItemCount {
			if found, err := j.scope(id, append(append([]int32{}, iteration...), i)); found || err != nil {
				return found, err
			}
		}
	}
	return false, nil
}

// component reports whether a component that has not started is unsafe. The body of a loop counts.
func (j *judge) component(id string) (bool, error) {
	c, module := j.plan.Component(id)
	if module.Loop {
		return j.body(id)
	}
	if c.Module == runWorkflow {
		return j.child(c)
	}
	entry, known := j.Modules.Lookup(c.Module)
	if !known {
		return true, nil
	}
	var bound []string
	for _, source := range j.plan.Sources(id) {
		bound = append(bound, source.To)
	}
	return entry.RepeatOfLiterals(c.Input, c.Config, bound) == component.RepeatUnsafe, nil
}

// body reports whether any component in a loop is unsafe.
func (j *judge) body(loop string) (bool, error) {
	for _, id := range j.plan.Members(loop) {
		if found, err := j.component(id); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// child reports whether any component of the workflow that a component runs is unsafe.
func (j *judge) child(c graph.Component) (bool, error) {
	child, err := j.Workflows.Child(j.ctx, j.DB, j.workspace, c.Config)
	if unusable(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	this := version{workflow: child.ID}
	if child.Version != nil {
		this.number = *child.Version
	}
	if j.seen[this] {
		return false, nil
	}
	j.seen[this] = true
	plan, err := j.Workflows.Shape(j.ctx, j.DB, j.workspace, child.ID, child.Version)
	if unusable(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	below := *j
	below.plan, below.stages = plan, nil
	return below.scope("", nil)
}
