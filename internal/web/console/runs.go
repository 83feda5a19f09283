package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// How many rows a page shows.
const (
	shownRuns      = 50
	shownWorkflows = 100 // in the filter
)

// runsPage is the data of the page with the runs of a workspace.
type runsPage struct {
	page.Frame
	Filter    runFilter
	Runs      []runRow
	Workflows []api.WorkflowSummary // for the filter
	Name      string                // of the workflow in the filter
	Next      string                // address of the next page; empty: this is the last page
	Created   bool                  // the workspace has workflows
}

// runRow is a run in a list.
type runRow struct {
	api.WorkflowRun
	Name, Address string
	Failure       failure
}

// Took returns how long the run took, or has taken so far.
func (r runRow) Took() time.Duration {
	if r.FinishedAt != nil {
		return r.FinishedAt.Std().Sub(r.CreatedAt.Std())
	}
	return time.Since(r.CreatedAt.Std())
}

// failure is the error of a run or a stage.
type failure struct {
	Code, Message string
	Attempt       int
	Details       json.RawMessage
}

// failureOf returns the error of a record. It returns the zero value for a record without an error.
func failureOf(stored json.RawMessage) (f failure) {
	_ = json.Unmarshal(stored, &f) // null, or an error that the service wrote
	return f
}

// runFilter selects runs. Its values are those of the query.
type runFilter struct {
	Status, Workflow, Trigger, Since string

	base string // path of the page
}

// The values of filters, in the order in which the page shows them.
var (
	runStatuses = []status.Run{status.RunCreated, status.RunExecuting, status.RunFailed, status.RunCompleted, status.RunCanceled}
	runTriggers = []string{"API", "SCHEDULE", "WEBHOOK", "RUN"}
	periods     = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}
)

// filterOf returns the filter in the query of a request.
func filterOf(r *http.Request, base string) runFilter {
	query := r.URL.Query()
	return runFilter{
		Status: query.Get("status"), Workflow: query.Get("workflow"), Trigger: query.Get("trigger"), Since: query.Get("since"), base: base,
	}
}

// params returns the filter for the service. It returns INVALID_INPUT for an unknown value.
func (f runFilter) params() (p run.ListParams, err error) {
	p = run.ListParams{Limit: shownRuns, Status: status.Run(f.Status), Trigger: f.Trigger}
	if f.Status != "" && !slices.Contains(runStatuses, p.Status) {
		return p, fault.New(fault.InvalidInput, "There is no run status %q.", f.Status)
	}
	if f.Trigger != "" && !slices.Contains(runTriggers, f.Trigger) {
		return p, fault.New(fault.InvalidInput, "There is no trigger %q.", f.Trigger)
	}
	if f.Workflow != "" {
		id, err := uuid.Parse(f.Workflow)
		if err != nil {
			return p, fault.New(fault.InvalidInput, "%q is not the ID of a workflow.", f.Workflow)
		}
		p.WorkflowID = &id
	}
	if f.Since != "" {
		period, ok := periods[f.Since]
		if !ok {
			return p, fault.New(fault.InvalidInput, "There is no period %q.", f.Since)
		}
		p.Created.After = new(time.Now().Add(-period))
	}
	return p, nil
}

// values returns the filter as a query, without empty values.
func (f runFilter) values() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"status": f.Status, "workflow": f.Workflow, "trigger": f.Trigger, "since": f.Since} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// With returns the address of the first page of the runs, with another value of a parameter.
func (f runFilter) With(name string, value any) string {
	query := f.values()
	if text := page.Word(value); text == "" {
		query.Del(name)
	} else {
		query.Set(name, text)
	}
	if len(query) == 0 {
		return f.base
	}
	return f.base + "?" + query.Encode()
}

// Any reports whether the filter leaves out runs.
func (f runFilter) Any() bool { return len(f.values()) > 0 }

// Statuses returns the values of the filter.
func (runFilter) Statuses() []status.Run { return runStatuses }

// Triggers returns the values of the filter.
func (runFilter) Triggers() []string { return runTriggers }

// Periods returns the values of the filter, the shortest first.
func (runFilter) Periods() []string { return []string{"1h", "24h", "7d", "30d"} }

// runs shows a page of the runs of a workspace, newest first.
func (s *site) runs(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := s.Member(r)
	if err != nil {
		return err
	}
	p := runsPage{Filter: filterOf(r, page.Base(v.WorkspaceID)+"/runs")}
	params, err := p.Filter.params()
	if err != nil {
		return err
	}
	params.Cursor = r.URL.Query().Get("cursor")
	if p.Frame, err = s.Frame(ctx, v, "runs", "Runs"); err != nil {
		return err
	}
	p.Follow = "/v1/sdk/stream?workspace=" + v.WorkspaceID.String()
	page, err := s.Runs.List(ctx, v.WorkspaceID, params)
	if err != nil {
		return err
	}
	if p.Runs, err = s.rows(ctx, v.WorkspaceID, page.Data); err != nil {
		return err
	}
	if page.NextCursor != nil {
		query := p.Filter.values()
		query.Set("cursor", *page.NextCursor)
		p.Next = p.Filter.base + "?" + query.Encode()
	}
	listed, err := s.Workflows.List(ctx, v.WorkspaceID, workflow.ListParams{Limit: shownWorkflows})
	if err != nil {
		return err
	}
	p.Workflows, p.Created = listed.Data, len(listed.Data) > 0
	if params.WorkflowID != nil {
		names, err := s.Workflows.Names(ctx, v.WorkspaceID, []uuid.UUID{*params.WorkflowID})
		if err != nil {
			return err
		}
		if p.Name = names[*params.WorkflowID]; p.Name == "" {
			p.Name = params.WorkflowID.String()
		}
	}
	s.Render(w, http.StatusOK, "runs", p)
	return nil
}

// rows returns the rows of runs, with the names of their workflows.
func (s *site) rows(ctx context.Context, workspaceID uuid.UUID, runs []api.WorkflowRun) ([]runRow, error) {
	var ids []uuid.UUID
	for _, one := range runs {
		ids = append(ids, one.WorkflowID)
	}
	names, err := s.Workflows.Names(ctx, workspaceID, ids)
	rows := make([]runRow, len(runs))
	for i, one := range runs {
		rows[i] = runRow{
			WorkflowRun: one, Name: names[one.WorkflowID], Address: runAddress(workspaceID, one.ID), Failure: failureOf(one.Error),
		}
	}
	return rows, err
}

func runAddress(workspaceID, runID uuid.UUID) string {
	return page.Base(workspaceID) + "/runs/" + runID.String()
}
