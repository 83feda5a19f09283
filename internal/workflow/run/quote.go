package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// Quote returns what a run of a workflow costs with the runs below it, at least if it completes
// and at most (decisions 7.5). It is about the present version unless another is named. Child
// runs count where their version is fixed and access allows their workflow. It returns NOT_FOUND
// for an unknown workflow or version.
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
	quoted := api.RunQuote{WorkflowID: workflowID, WorkflowVersion: loaded.Version, MinimumCredits: q.least, UnknownBounds: []api.UnknownBound{}}
	for _, u := range q.unknown {
		quoted.UnknownBounds = append(quoted.UnknownBounds, api.UnknownBound{ComponentID: u.componentID, Reason: u.reason})
	}
	if len(q.unknown) == 0 {
		quoted.MaximumCredits = new(min(credit.Amount(q.most.Charge), s.ceiling()) + storage.AtMost(q.most.Stages).Fee())
	}
	return quoted, nil
}

// maxEstimated is how many versions of workflows one quote reads. What child runs of others
// cost is unknown.
const maxEstimated = 100

// estimator computes quotes of workflows that run each other.
type estimator struct {
	*Service
	ctx         context.Context
	workspaceID uuid.UUID
	access      Access
	versions    map[versionKey]*quote // nil: under way, or unknown
	err         error                 // the first, because of which a version could not be read
}

type versionKey struct {
	workflowID uuid.UUID
	number     int32
}

// quote is what a run of a version costs.
type quote struct {
	least   credit.Amount // with storage fees
	most    graph.Cost    // without, since the runs of a tree share what is free
	unknown []unknown     // why it may cost more
}

// unknown is a bound that is known only when the run is under way.
type unknown struct{ componentID, reason string }

func (s *Service) estimator(ctx context.Context, workspaceID uuid.UUID, access Access) *estimator {
	return &estimator{Service: s, ctx: ctx, workspaceID: workspaceID, access: access, versions: map[versionKey]*quote{}}
}

// quote estimates a version and the runs below it.
func (e *estimator) quote(key versionKey, plan *graph.Plan) (*quote, error) {
	e.versions[key] = nil // what a workflow that runs itself costs is unknown
	q := &quote{}
	cost := plan.Costs("", func(c graph.Component) graph.Price { return e.price(q, plan, c) })
	q.least = min(credit.Amount(cost.Least.Charge), e.ceiling()) + storage.Usage{Stages: cost.Least.Stages}.Fee()
	q.most = cost.Most
	e.versions[key] = q
	return q, e.err
}

// ceiling returns what no run and the runs below it can exceed, storage fees aside.
func (s *Service) ceiling() (most credit.Amount) {
	for _, d := range s.Modules.List() {
		most = max(most, d.Price)
	}
	return most * engine.MaxStages
}

// price returns what a component costs, with what is below it.
func (e *estimator) price(q *quote, plan *graph.Plan, c graph.Component) graph.Price {
	price := e.own(c)
	_, m := plan.Component(c.ID)
	switch {
	case m.Loop:
		return price.With(e.iterations(q, plan, c))
	case c.Module == "RUN_WORKFLOW":
		return price.With(e.child(q, c))
	}
	return price
}

// own returns what a component itself costs: its price if it completes, and nothing if it fails.
func (s *Service) own(c graph.Component) (price graph.Price) {
	one := graph.Cost{Stages: 1}
	price.Failed = graph.Range{Least: one, Most: one}
	if entry, known := s.Modules.Lookup(c.Module); known {
		one.Charge = int64(entry.Price)
	}
	price.Completed = graph.Range{Least: one, Most: one}
	return price
}

// iterations returns what the iterations of a loop that completes cost together.
func (e *estimator) iterations(q *quote, plan *graph.Plan, c graph.Component) (all graph.Range) {
	items, known := literalItems(plan, c)
	if !known {
		q.unknown = append(q.unknown, unknown{c.ID, "items"})
		items = engine.MaxItems
	}
	if items == 0 {
		return all
	}
	one := plan.Costs(c.ID, func(c graph.Component) graph.Price { return e.price(q, plan, c) })
	all.Most = one.Most.Times(items)
	if known && !mayKeepOn(c) {
		all.Least = one.Least.Times(items)
	}
	return all
}

// mayKeepOn reports whether a loop may complete although items of it fail. An environment variable
// may say so.
func mayKeepOn(c graph.Component) bool {
	var config struct {
		OnItemFailure string `json:"onItemFailure"`
	}
	err := json.Unmarshal(engine.Object(c.Config), &config)
	return err != nil || config.OnItemFailure != "" && config.OnItemFailure != graph.OnFailureFail
}

// literalItems is how many items a loop has whose items are written in its input.
func literalItems(plan *graph.Plan, c graph.Component) (int64, bool) {
	if len(plan.Sources(c.ID)) > 0 {
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

// child returns what a child run costs that completes.
func (e *estimator) child(q *quote, c graph.Component) graph.Range {
	below := e.version(c)
	if below == nil {
		q.unknown = append(q.unknown, unknown{c.ID, "workflow"})
		return graph.Range{}
	}
	if len(below.unknown) > 0 {
		q.unknown = append(q.unknown, unknown{c.ID, "workflow"})
	}
	most := below.most.Plus(graph.Cost{Stages: 1}) // room for its input
	return graph.Range{Least: graph.Cost{Charge: int64(below.least)}, Most: most}
}

// version estimates the version that a RUN_WORKFLOW runs. It returns nil if that is not known.
func (e *estimator) version(c graph.Component) *quote {
	var config struct {
		WorkflowID uuid.UUID `json:"workflowId"`
		Version    *int32    `json:"version"`
	}
	if json.Unmarshal(engine.Object(c.Config), &config) != nil || config.Version == nil || e.access == nil || !e.access.MayUse(config.WorkflowID) {
		return nil
	}
	key := versionKey{config.WorkflowID, *config.Version}
	if q, known := e.versions[key]; known || len(e.versions) >= maxEstimated || e.err != nil {
		return q
	}
	e.versions[key] = nil
	loaded, err := e.Workflows.Load(e.ctx, e.API, e.workspaceID, key.workflowID, &key.number)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Code != fault.Unavailable {
		return nil // it is not there yet, or does not fit the components of this deployment
	}
	if err != nil {
		e.err = err
		return nil
	}
	q, _ := e.quote(key, loaded.Plan)
	return q
}

// reservation returns what a run reserves when it begins, but for components that are done
// already: the least that its own components cost if it completes. Iterations of loops and child
// runs reserve as they come. Otherwise a workspace with little left could start a run that costs
// much more than that, since what is reserved is not refused afterwards.
func (s *Service) reservation(plan *graph.Plan, done []string) credit.Amount {
	cost := plan.Costs("", func(c graph.Component) graph.Price {
		if slices.Contains(done, c.ID) {
			return graph.Price{}
		}
		return s.own(c)
	})
	return credit.Amount(cost.Least.Charge)
}
