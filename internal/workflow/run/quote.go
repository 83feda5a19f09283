package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// Quote estimates what a run of a workflow costs, including its descendants: the minimum if it
// completes, and the maximum (decisions 7.5). A nil version means the current one. Child runs are
// included if their version is fixed and access allows their workflow. Quote returns NOT_FOUND for
// an unknown workflow or version.
func (s *Service) Quote(ctx context.Context, workspaceID, workflowID uuid.UUID, version *int32, access Access) (api.RunQuote, error) {
	loaded, err := s.Workflows.Load(ctx, s.API, workspaceID, workflowID, version)
	if err != nil {
		return api.RunQuote{}, err
	}
	e := s.estimator(ctx, workspaceID, access)
	q, err := e.quote(versionKey{workflowID, loaded.Version}, loaded.Plan)
	if err != nil {
		return api.RunQuote{}, err
	}
	bounds, most := s.bounds(q)
	return api.RunQuote{WorkflowID: workflowID, WorkflowVersion: loaded.Version, MinimumCredits: q.least, MaximumCredits: most, UnknownBounds: bounds}, nil
}

// QuotePlan is Quote for a workflow that is not saved.
func (s *Service) QuotePlan(ctx context.Context, workspaceID uuid.UUID, plan *graph.Plan, access Access) (api.DefinitionQuote, error) {
	q, err := s.estimator(ctx, workspaceID, access).quote(versionKey{}, plan)
	if err != nil {
		return api.DefinitionQuote{}, err
	}
	bounds, most := s.bounds(q)
	return api.DefinitionQuote{MinimumCredits: q.least, MaximumCredits: most, UnknownBounds: bounds}, nil
}

// bounds returns the components whose cost has no known bound, or else the maximum.
func (s *Service) bounds(q *quote) (unknown []api.UnknownBound, most *credit.Amount) {
	unknown = []api.UnknownBound{}
	for _, u := range q.unknown {
		unknown = append(unknown, api.UnknownBound{ComponentID: u.componentID, Reason: u.reason})
	}
	if len(unknown) == 0 {
		most = new(min(credit.Amount(q.most.Charge), s.ceiling()) + storage.AtMost(q.most.Stages).Fee())
	}
	return unknown, most
}

// maxEstimated limits the workflow versions that one quote reads. If there are more, the cost of
// the remaining child runs is unknown.
const maxEstimated = 100

// estimator estimates the cost of workflows that run each other.
type estimator struct {
	*Service
	ctx         context.Context
	workspaceID uuid.UUID
	access      Access
	versions    map[versionKey]*quote // nil: being estimated, or unknown
	err         error                 // first error while reading a version
}

type versionKey struct {
	workflowID uuid.UUID
	number     int32
}

// quote is the cost of a run of a version.
type quote struct {
	least   credit.Amount // including storage fees
	most    graph.Cost    // excluding storage fees, since the runs of a tree share the free part
	unknown []unknown     // reasons why the run may cost more
}

// unknown is a cost that is known only while the run advances.
type unknown struct{ componentID, reason string }

// estimator returns an estimator for one quote.
func (s *Service) estimator(ctx context.Context, workspaceID uuid.UUID, access Access) *estimator {
	return &estimator{Service: s, ctx: ctx, workspaceID: workspaceID, access: access, versions: map[versionKey]*quote{}}
}

// quote estimates the cost of a run of a version, including its descendants.
func (e *estimator) quote(key versionKey, plan *graph.Plan) (*quote, error) {
	e.versions[key] = nil // the cost of a workflow that runs itself is unknown
	q := &quote{}
	cost := plan.Costs("", func(c graph.Component) graph.Price { return e.price(q, plan, c) })
	q.least = min(credit.Amount(cost.Least.Charge), e.ceiling()) + storage.Usage{Stages: cost.Least.Stages}.Fee()
	q.most = cost.Most
	e.versions[key] = q
	return q, e.err
}

// ceiling returns the maximum price of a run and its descendants, excluding storage fees.
func (s *Service) ceiling() (most credit.Amount) {
	for _, d := range s.Modules.List() {
		most = max(most, d.Price)
	}
	return most * engine.MaxStages
}

// price returns the price of a component, including its iterations or its child run.
func (e *estimator) price(q *quote, plan *graph.Plan, c graph.Component) graph.Price {
	price := e.ownPrice(c)
	_, m := plan.Component(c.ID)
	switch {
	case m.Loop:
		return price.With(e.iterations(q, plan, c))
	case c.Module == component.RunWorkflow:
		return price.With(e.child(q, c))
	}
	return price
}

// ownPrice returns the price of a component itself: the module's price if the component completes,
// and zero if it fails.
func (s *Service) ownPrice(c graph.Component) (price graph.Price) {
	one := graph.Cost{Stages: 1}
	price.Failed = graph.Range{Least: one, Most: one}
	if entry, known := s.Modules.Lookup(c.Module); known {
		one.Charge = int64(entry.Price)
	}
	price.Completed = graph.Range{Least: one, Most: one}
	return price
}

// iterations returns the total cost of the iterations of a loop that completes.
func (e *estimator) iterations(q *quote, plan *graph.Plan, c graph.Component) (all graph.Range) {
	_, module := plan.Component(c.ID)
	items, known := literalItems(plan, c)
	if module.Repeats {
		items, known = maxIterations(c)
	}
	if !known {
		q.unknown = append(q.unknown, unknown{c.ID, "items"})
		items = engine.MaxItems
	}
	if items == 0 {
		return all
	}
	one := plan.Costs(c.ID, func(c graph.Component) graph.Price { return e.price(q, plan, c) })
	all.Most = one.Most.Times(items)
	switch {
	case module.Repeats:
		all.Least = one.Least // the first iteration may be the last one
	case known && !mayContinue(c):
		all.Least = one.Least.Times(items)
	}
	return all
}

// maxIterations returns the number of iterations that a REPEAT allows, unless a variable says it.
func maxIterations(c graph.Component) (int64, bool) {
	var config struct {
		MaxIterations int64 `json:"maxIterations"`
	}
	err := json.Unmarshal(engine.Object(c.Config), &config)
	return config.MaxIterations, err == nil
}

// mayContinue reports whether a loop may complete although items fail. It returns true if that
// depends on an environment variable.
func mayContinue(c graph.Component) bool {
	var config struct {
		OnItemFailure string `json:"onItemFailure"`
	}
	err := json.Unmarshal(engine.Object(c.Config), &config)
	return err != nil || config.OnItemFailure != "" && config.OnItemFailure != graph.OnFailureFail
}

// literalItems returns the number of items of a loop whose items are literals in its input.
func literalItems(plan *graph.Plan, c graph.Component) (int64, bool) {
	if len(plan.Sources(c.ID)) > 0 || plan.Refers(c.ID) {
		return 0, false
	}
	var input struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(engine.Object(c.Input), &input); err != nil {
		return 0, false
	}
	return int64(len(input.Items)), true
}

// child returns the cost of a child run that completes.
func (e *estimator) child(q *quote, c graph.Component) graph.Range {
	below := e.version(c)
	if below == nil {
		q.unknown = append(q.unknown, unknown{c.ID, "workflow"})
		return graph.Range{}
	}
	if len(below.unknown) > 0 {
		q.unknown = append(q.unknown, unknown{c.ID, "workflow"})
	}
	most := below.most.Plus(graph.Cost{Stages: 1}) // one more stage, whose bytes cover the input of the child run
	return graph.Range{Least: graph.Cost{Charge: int64(below.least)}, Most: most}
}

// version estimates the version that a RUN_WORKFLOW runs. It returns nil if the version is
// unknown.
func (e *estimator) version(c graph.Component) *quote {
	child, err := e.Workflows.Child(e.ctx, e.API, e.workspaceID, engine.Object(c.Config))
	if _, refused := errors.AsType[*fault.Error](err); err != nil && !refused {
		e.err = cmp.Or(e.err, err)
	}
	if err != nil || child.Version == nil || e.access == nil || !e.access.MayUse(child.ID) {
		return nil
	}
	key := versionKey{child.ID, *child.Version}
	if q, known := e.versions[key]; known || len(e.versions) >= maxEstimated || e.err != nil {
		return q
	}
	e.versions[key] = nil
	loaded, err := e.Workflows.Load(e.ctx, e.API, e.workspaceID, key.workflowID, &key.number)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Code != fault.Unavailable {
		return nil // the version does not exist yet, or does not compile with this deployment's modules
	}
	if err != nil {
		e.err = err
		return nil
	}
	q, _ := e.quote(key, loaded.Plan)
	return q
}

// reservation returns the credits that a run reserves when it starts: the minimum cost of its
// components if the run completes, except the components in completed. Iterations of loops and
// child runs reserve their prices when they start. Without the reservation, a workspace with few
// credits left could start a run that costs much more.
func (s *Service) reservation(plan *graph.Plan, completed []string) credit.Amount {
	cost := plan.Costs("", func(c graph.Component) graph.Price {
		if slices.Contains(completed, c.ID) {
			return graph.Price{}
		}
		return s.ownPrice(c)
	})
	return credit.Amount(cost.Least.Charge)
}
