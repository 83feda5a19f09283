package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/web/form"
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
	Filter    filter // without a status: all workflows except archived ones
	Statuses  []api.WorkflowStatus
	Workflows []workflowRow
	Next      string // address of the next page; empty: this is the last page
}

var workflowStatuses = []api.WorkflowStatus{api.WorkflowStatusACTIVE, api.WorkflowStatusPAUSED, api.WorkflowStatusARCHIVED}

// workflowRow is a workflow in a list.
type workflowRow struct {
	api.WorkflowSummary
	Address, Runs string
	Last          *runRow // nil: none of the last runs of the workspace
}

// workflows shows a page of the workflows of a workspace, newest first.
func (s *site) workflows(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	p := workflowsPage{Filter: filterOf(r, page.Base(v.WorkspaceID)+"/workflows", "status"), Statuses: workflowStatuses}
	params := workflow.ListParams{Limit: listedWorkflows, Cursor: r.URL.Query().Get("cursor"), Status: api.WorkflowStatus(p.Filter.Get("status"))}
	if params.Status != "" && !slices.Contains(workflowStatuses, params.Status) {
		return fault.New(fault.InvalidInput, "There is no workflow status %q.", params.Status)
	}
	if p.Frame, err = s.Frame(ctx, v, "workflows", "Workflows"); err != nil {
		return err
	}
	listed, err := s.Workflows.List(ctx, v.WorkspaceID, params)
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
	p.Next = p.Filter.next(listed.NextCursor)
	s.Render(w, http.StatusOK, "workflows", p)
	return nil
}

func workflowAddress(workspaceID, id uuid.UUID) string {
	return page.Base(workspaceID) + "/workflows/" + id.String()
}

// shownVersions is the number of versions in the choice of a version.
const shownVersions = 100

// workflowPage is the data of the page of a workflow.
type workflowPage struct {
	page.Frame
	api.Workflow
	Address    string
	Current    int32 // number of the current version
	Graph      *graphic
	Components []componentRow
	Problem    string // why there is no graph
	Warnings   []warningRow
	Selected   *literal // nil: no component is selected
	Quote      *api.RunQuote
	Form       *form.Form
	NewRun     uuid.UUID // makes resubmitting the form harmless
}

// warningRow is a warning with the component that it is about.
type warningRow struct {
	api.WorkflowWarning
	Component, Address string // empty: the warning is about the workflow
}

// Title returns the name of the selected component.
func (l literal) Title() string { return nameOf(l.ID, l.Name) }

// literal is a component in a definition.
type literal struct {
	api.WorkflowComponent
	Sources []graph.Source
	Body    *graphic // of a loop
}

// Runnable reports whether the workflow can be run.
func (p workflowPage) Runnable() bool { return p.Status == api.WorkflowStatusACTIVE }

// Old reports whether the page shows an earlier version.
func (p workflowPage) Old() bool { return p.Version != p.Current }

// Versions returns the numbers of the last versions, the newest first.
func (p workflowPage) Versions() (all []int32) {
	for number := p.Current; number > max(0, p.Current-shownVersions); number-- {
		all = append(all, number)
	}
	return all
}

// Shown returns JSON for reading.
func (p workflowPage) Shown(value json.RawMessage) page.Text { return page.Readable(value) }

// Definition returns the version as a file.
func (p workflowPage) Definition() (page.Text, error) {
	text, err := strictjson.Encode(present.WorkflowExport(p.Workflow))
	return page.Readable(text), err
}

// workflow shows the page of a workflow.
func (s *site) workflow(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	p, err := s.workflowPage(ctx, r, v)
	if err != nil {
		return err
	}
	s.Render(w, http.StatusOK, "workflow", p)
	return nil
}

// workflowID returns the ID of the workflow in the path. It returns NOT_FOUND for a malformed ID.
func workflowID(r *http.Request) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue("workflowId"))
	if err != nil {
		return id, fault.New(fault.NotFound, "There is no workflow with this ID.")
	}
	return id, nil
}

// versionOf returns the version in a form or a query. It returns nil without one, and NOT_FOUND for a
// malformed number.
func versionOf(text string) (*int32, error) {
	if text == "" {
		return nil, nil
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 {
		return nil, fault.New(fault.NotFound, "There is no version %q of this workflow.", text)
	}
	return new(int32(number)), nil
}

// workflowPage returns the page of the version that the request names, with an empty form.
func (s *site) workflowPage(ctx context.Context, r *http.Request, v page.Visitor) (p workflowPage, err error) {
	id, err := workflowID(r)
	if err != nil {
		return p, err
	}
	number, err := versionOf(r.FormValue("version"))
	if err != nil {
		return p, err
	}
	current, err := s.Workflows.Get(ctx, v.WorkspaceID, id, nil)
	if err != nil {
		return p, err
	}
	p.Workflow, p.Current = current, current.Version
	if number != nil && *number != current.Version {
		if p.Workflow, err = s.Workflows.Get(ctx, v.WorkspaceID, id, number); err != nil {
			return p, err
		}
	}
	if p.Frame, err = s.Frame(ctx, v, "workflows", p.Workflow.Name); err != nil {
		return p, err
	}
	p.Address = workflowAddress(v.WorkspaceID, id)
	known, err := s.Workflows.Outline(ctx, v.WorkspaceID, id, p.Version)
	if err != nil {
		return p, err
	}
	p.Problem, p.Form = known.Problem, form.Of("/input", known.Schema, known.Secrets)
	if err := p.draw(known, r.URL.Query()); err != nil {
		return p, err
	}
	if quote, err := s.Runs.Quote(ctx, v.WorkspaceID, id, &p.Version, everyWorkflow{}); err == nil {
		p.Quote = &quote
	} else if fault.CodeOf(err) != fault.InvalidInput {
		return p, err
	}
	p.NewRun, err = uuid7.New()
	return p, err
}

// draw adds the graph, the list of components, the warnings and the selected component.
func (p *workflowPage) draw(known workflow.Outline, query url.Values) error {
	var all []api.WorkflowComponent
	if err := json.Unmarshal(p.Workflow.Components, &all); err != nil {
		return err
	}
	o := p.outline()
	o.plan, o.choice, o.warned = known.Plan, choice{component: query.Get("component")}, map[string]bool{}
	for _, one := range known.Warnings {
		row := warningRow{WorkflowWarning: one}
		if tokens := fault.Tokens(one.Pointer); len(tokens) > 1 && tokens[0] == "components" {
			if at, err := strconv.Atoi(tokens[1]); err == nil && at < len(all) {
				row.Component, o.warned[all[at].ID] = nameOf(all[at].ID, all[at].Name), true
				row.Address = o.addressOf(all[at].ID)
				row.Message = strings.TrimPrefix(row.Message, fmt.Sprintf("component %q: ", all[at].ID))
			}
		}
		p.Warnings = append(p.Warnings, row)
	}
	for _, one := range all {
		if one.ID == o.choice.component {
			p.Selected = &literal{WorkflowComponent: one}
		}
	}
	if p.Selected == nil && o.choice.component != "" {
		return fault.New(fault.NotFound, "There is no component %q in this version of the workflow.", o.choice.component)
	}
	if known.Plan == nil {
		for _, one := range all {
			p.Components = append(p.Components, o.row(one.ID, 0))
		}
		return nil
	}
	p.Components, p.Graph = o.list("", 0), o.graphic("")
	if p.Selected != nil {
		p.Selected.Sources = known.Plan.Sources(p.Selected.ID)
		if len(known.Plan.Members(p.Selected.ID)) > 0 {
			p.Selected.Body = o.graphic(p.Selected.ID)
		}
	}
	return nil
}

// At returns the address of a component on this page.
func (p workflowPage) At(component string) string { return p.outline().addressOf(component) }

// outline returns the outline of the version without its components.
func (p workflowPage) outline() outline {
	o := outline{address: p.Address, definition: true}
	if p.Old() {
		o.version = p.Version
	}
	return o
}
