// Package console serves the pages under /console: what happens in a workspace, its runs and its
// executions.
//
// It makes no decisions. It shows the data that the services return, and calls the services for
// submitted forms, with the roles of the contract.
package console

import (
	"cmp"
	"context"
	"embed"
	"html/template"
	"net/http"
	"path"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/web/catalog"
	"github.com/weft-automation/weft/internal/web/diagram"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

//go:embed pages
var pages embed.FS

// Deps are the services that the pages call.
type Deps struct {
	Page       page.Deps
	Workflows  *workflow.Service
	Runs       *run.Service
	Executions *execution.Service
	Callbacks  *callback.Service
	Schedules  *schedule.Service
	Credits    billing.Reader
	Catalogue  *catalog.Catalog
	Limiter    *ratelimit.Limiter
	Views      *permit.Turns // of pages of a workspace; nil: no limit
}

// site handles all pages.
type site struct {
	*page.Site
	Deps
}

// Mount adds /console and what is below it to a mux of package page.
func Mount(mux *http.ServeMux, deps Deps) error {
	all, err := page.New(deps.Page, mux, pages, template.FuncMap{
		"state": stateWord, "item": itemText, "failed": failureOf, "first": catalog.FirstSentence,
		"node": func() [2]int { return [2]int{diagram.NodeWidth, diagram.NodeHeight} },
	})
	if err != nil {
		return err
	}
	s := &site{Site: all, Deps: deps}
	s.Handle("GET /console", s.home)
	s.view("/console/{workspaceId}", 1, s.overview)
	s.view("/console/{workspaceId}/executions", 1, s.executions)
	s.view("/console/{workspaceId}/executions/{executionId}", 1, s.execution)
	s.Handle("POST /console/{workspaceId}/executions/{executionId}/replay", s.replay)
	s.Handle("GET /console/{workspaceId}/executions/{executionId}/replay", toPage)
	s.Handle("POST /console/{workspaceId}/executions/{executionId}/cancel", s.cancelExecution)
	s.Handle("GET /console/{workspaceId}/executions/{executionId}/cancel", toPage)
	s.view("/console/{workspaceId}/runs", 1, s.runs)
	s.view("/console/{workspaceId}/runs/{runId}", 5, s.run)
	for path, action := range runActions {
		s.Handle("POST /console/{workspaceId}/runs/{runId}/"+path, s.actOn(action))
		s.Handle("GET /console/{workspaceId}/runs/{runId}/"+path, toPage)
	}
	s.view("/console/{workspaceId}/workflows", 1, s.workflows)
	s.view("/console/{workspaceId}/workflows/{workflowId}", 1, s.workflow)
	for path, action := range workflowActions {
		s.Handle("POST /console/{workspaceId}/workflows/{workflowId}/"+path, s.actOnWorkflow(action))
		s.Handle("GET /console/{workspaceId}/workflows/{workflowId}/"+path, toPage)
	}
	s.view("/console/{workspaceId}/playground", 1, s.playground)
	s.view("/console/{workspaceId}/playground/{module}", 1, s.module)
	s.Handle("POST /console/{workspaceId}/playground/{module}", s.call)
	return nil
}

// view registers a page of a workspace for its members. A view counts like so many requests to the API, and
// waits for its turn while others of the workspace are in progress.
func (s *site) view(path string, cost int, show func(context.Context, http.ResponseWriter, *http.Request, page.Visitor) error) {
	s.Handle("GET "+path, func(w http.ResponseWriter, r *http.Request) error {
		ctx, v, err := s.Member(r)
		if err == nil {
			err = s.charge(ctx, v, cost)
		}
		if err != nil {
			return err
		}
		return s.Views.Do(ctx, v.WorkspaceID, func() error { return show(ctx, w, r, v) })
	})
}

// costs are the costs of operations in requests, as in the contract. All others cost 1.
var costs = map[string]int{callOperation: 2}

// allow returns an error unless the visitor is an editor and the rate limits of the workspace allow the
// operation, which counts like a request to the API. It writes a denied role to the audit log.
func (s *site) allow(ctx context.Context, v page.Visitor, operation string) error {
	if !v.Role.Reaches(person.Editor) {
		refused := person.NotAllowed(person.Editor)
		s.Audit.Deny(ctx, v.WorkspaceID, v.Actor(), operation, refused.Reason)
		return refused
	}
	return s.charge(ctx, v, cmp.Or(costs[operation], 1))
}

// charge counts so many requests, and returns an error unless the rate limits of the workspace allow them.
func (s *site) charge(ctx context.Context, v page.Visitor, cost int) error {
	if d := s.Limiter.Take(ctx, v.WorkspaceID, cost); !d.Allowed {
		return &fault.Error{
			Code: fault.RateLimited, Reason: string(d.Violated), RetryAfter: d.Wait,
			Message: "This workspace has exceeded the requests of its plan. Try again in a few seconds.",
		}
	}
	return nil
}

// toPage redirects a GET of a form's address to the page with the form, whose address is the one above.
func toPage(w http.ResponseWriter, r *http.Request) error {
	return page.SeeOther(w, r, path.Dir(r.URL.EscapedPath()))
}

// home redirects to the overview of the person's first workspace, or to the sign-in form.
func (s *site) home(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Visitor(r, nil)
	if err != nil {
		return page.SeeOther(w, r, "/settings")
	}
	current, err := s.People.Current(r.Context(), v.Person, v.ExpiresAt)
	if err != nil || len(current.Workspaces) == 0 {
		return page.SeeOther(w, r, "/settings")
	}
	return page.SeeOther(w, r, page.Base(current.Workspaces[0].ID))
}

// followWorkspace returns the address of the stream of a workspace's changes.
func followWorkspace(id uuid.UUID) string { return "/v1/sdk/stream?workspace=" + id.String() }

// everyWorkflow lets a person use all workflows of the workspace. Only keys can be restricted.
type everyWorkflow struct{}

// MayUse returns true.
func (everyWorkflow) MayUse(uuid.UUID) bool { return true }
