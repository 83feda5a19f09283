package console

import (
	"context"
	"encoding/json"
	"net/http"
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
	Filter    filter
	Statuses  []status.Run
	Triggers  []string
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

// failure is the error of a run, a stage, an execution or an attempt to deliver a callback.
type failure struct {
	Code, Message string
	Class         string // instead of a code, of an attempt to deliver a callback
	Attempt       int
	Details       json.RawMessage
}

// failureOf returns the error of a record. It returns the zero value for a record without an error.
func failureOf(stored json.RawMessage) (f failure) {
	_ = json.Unmarshal(stored, &f) // null, or an error that the service wrote
	return f
}

// The values of filters, in the order in which the page shows them.
var (
	runStatuses = []status.Run{status.RunCreated, status.RunExecuting, status.RunFailed, status.RunCompleted, status.RunCanceled}
	runTriggers = []string{"API", "SCHEDULE", "WEBHOOK", "RUN"}
)

// runParams returns a filter for the service. It returns INVALID_INPUT for an unknown value.
func runParams(f filter) (p run.ListParams, err error) {
	p = run.ListParams{Limit: shownRuns, Status: status.Run(f.Get("status")), Trigger: f.Get("trigger")}
	if p.Status != "" && !slices.Contains(runStatuses, p.Status) {
		return p, fault.New(fault.InvalidInput, "There is no run status %q.", p.Status)
	}
	if p.Trigger != "" && !slices.Contains(runTriggers, p.Trigger) {
		return p, fault.New(fault.InvalidInput, "There is no trigger %q.", p.Trigger)
	}
	if text := f.Get("workflow"); text != "" {
		id, err := uuid.Parse(text)
		if err != nil {
			return p, fault.New(fault.InvalidInput, "%q is not the ID of a workflow.", text)
		}
		p.WorkflowID = &id
	}
	p.Created.After, err = f.since()
	return p, err
}

// runs shows a page of the runs of a workspace, newest first.
func (s *site) runs(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	p := runsPage{Filter: filterOf(r, page.Base(v.WorkspaceID)+"/runs", "status", "workflow", "trigger", "since"), Statuses: runStatuses, Triggers: runTriggers}
	params, err := runParams(p.Filter)
	if err != nil {
		return err
	}
	params.Cursor = r.URL.Query().Get("cursor")
	if p.Frame, err = s.Frame(ctx, v, "runs", "Runs"); err != nil {
		return err
	}
	p.Follow = followWorkspace(v.WorkspaceID)
	all, err := s.Runs.List(ctx, v.WorkspaceID, params)
	if err != nil {
		return err
	}
	if p.Runs, err = s.rows(ctx, v.WorkspaceID, all.Data); err != nil {
		return err
	}
	p.Next = p.Filter.next(all.NextCursor)
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
