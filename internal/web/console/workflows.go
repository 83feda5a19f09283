package console

import (
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// listedWorkflows is the number of workflows in a list.
const listedWorkflows = 50

// recentRuns is the number of runs among which the list of workflows finds the last run of each.
const recentRuns = 100

// workflowsPage is the data of the page with the workflows of a workspace.
type workflowsPage struct {
	page.Frame
	Status    api.WorkflowStatus // of the filter; empty: all except archived
	Workflows []workflowRow
	Next      string // address of the next page; empty: this is the last page
}

// Statuses returns the values of the filter.
func (workflowsPage) Statuses() []api.WorkflowStatus { return workflowStatuses }

var workflowStatuses = []api.WorkflowStatus{api.WorkflowStatusACTIVE, api.WorkflowStatusPAUSED, api.WorkflowStatusARCHIVED}

// workflowRow is a workflow in a list.
type workflowRow struct {
	api.WorkflowSummary
	Address, Runs string
	Last          *runRow // nil: none of the last runs of the workspace
}

// workflows shows a page of the workflows of a workspace, newest first.
func (s *site) workflows(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := s.Member(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	p := workflowsPage{Status: api.WorkflowStatus(query.Get("status"))}
	if p.Status != "" && !slices.Contains(workflowStatuses, p.Status) {
		return fault.New(fault.InvalidInput, "There is no workflow status %q.", p.Status)
	}
	if p.Frame, err = s.Frame(ctx, v, "workflows", "Workflows"); err != nil {
		return err
	}
	listed, err := s.Workflows.List(ctx, v.WorkspaceID, workflow.ListParams{Limit: listedWorkflows, Cursor: query.Get("cursor"), Status: p.Status})
	if err != nil {
		return err
	}
	recent, err := s.Runs.List(ctx, v.WorkspaceID, run.ListParams{Limit: recentRuns})
	if err != nil {
		return err
	}
	last := map[uuid.UUID]*runRow{}
	for _, one := range recent.Data {
		if last[one.WorkflowID] == nil {
			last[one.WorkflowID] = &runRow{WorkflowRun: one, Address: runAddress(v.WorkspaceID, one.ID)}
		}
	}
	for _, one := range listed.Data {
		p.Workflows = append(p.Workflows, workflowRow{
			WorkflowSummary: one, Address: workflowAddress(v.WorkspaceID, one.ID), Runs: p.Base() + "/runs?workflow=" + one.ID.String(), Last: last[one.ID],
		})
	}
	if listed.NextCursor != nil {
		query.Set("cursor", *listed.NextCursor)
		p.Next = p.Base() + "/workflows?" + query.Encode()
	}
	s.Render(w, http.StatusOK, "workflows", p)
	return nil
}

func workflowAddress(workspaceID, id uuid.UUID) string {
	return page.Base(workspaceID) + "/workflows/" + id.String()
}
