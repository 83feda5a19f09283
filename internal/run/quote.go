package run

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/engine"
	"github.com/weft-automation/weft/internal/graph"
	"github.com/weft-automation/weft/internal/storage"
)

// quote is what a run of a plan would cost (decisions 7.5).
type quote struct {
	least   credit.Amount
	most    credit.Amount // as far as it is known
	stages  int64         // that most is for
	unknown []unknown     // by what it may be more
}

// Quote says what a run of a workflow would cost, of its present version unless another is
// named. NOT_FOUND for an unknown workflow or version.
func (s *Service) Quote(ctx context.Context, workspaceID, workflowID uuid.UUID, version *int32) (api.RunQuote, error) {
	loaded, err := s.Workflows.Load(ctx, s.API, workspaceID, workflowID, version)
	if err != nil {
		return api.RunQuote{}, err
	}
	q := s.quote(loaded.Plan)
	quoted := api.RunQuote{WorkflowID: workflowID, WorkflowVersion: loaded.Version, MinimumCredits: q.least, UnknownBounds: []api.UnknownBound{}}
	for _, u := range q.unknown {
		quoted.UnknownBounds = append(quoted.UnknownBounds, api.UnknownBound{ComponentID: u.componentID, Reason: u.reason})
	}
	if len(q.unknown) == 0 {
		quoted.MaximumCredits = &q.most
	}
	return quoted, nil
}

// unknown is a bound that is known only when the run is under way.
type unknown struct{ componentID, reason string }

// quote sums the prices of what will run for certain, and of all that may. What runs for certain
// has fewer stages than are free, so the least contains no storage fee.
func (s *Service) quote(plan *graph.Plan) (q quote) {
	s.quoteScope(plan, "", 1, &q)
	q.most += storage.AtMost(q.stages).Fee()
	q.least = s.least(plan, nil)
	return q
}

// least sums the prices of what will run for certain, but for what is done already.
func (s *Service) least(plan *graph.Plan, done []string) (sum credit.Amount) {
	for _, id := range plan.Certain() {
		if !slices.Contains(done, id) {
			sum += s.price(plan, id)
		}
	}
	return sum
}

func (s *Service) quoteScope(plan *graph.Plan, loop string, times int64, q *quote) {
	for _, id := range plan.Members(loop) {
		c, m := plan.Component(id)
		q.most += credit.Amount(int64(s.price(plan, id)) * times)
		q.stages += times
		switch {
		case m.Loop:
			items, known := literalItems(plan, c)
			if !known {
				q.unknown = append(q.unknown, unknown{id, "items"})
				items = engine.MaxItems
			}
			s.quoteScope(plan, id, min(times*items, engine.MaxStages), q) // a run has no more
		case c.Module == "RUN_WORKFLOW":
			q.unknown = append(q.unknown, unknown{id, "workflow"})
		}
	}
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

func (s *Service) price(plan *graph.Plan, id string) credit.Amount {
	c, _ := plan.Component(id)
	entry, known := s.Modules.Lookup(c.Module)
	if !known {
		return 0
	}
	return entry.Price
}
