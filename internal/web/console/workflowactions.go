package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/web/form"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// workflowAction is what a form on the page of a workflow does. It returns the address to show. The
// page is the one to show if the form is rejected; the action may change it.
type workflowAction struct {
	operation string // operationId in the contract, which needs the role editor
	do        func(s *site, ctx context.Context, r *http.Request, p *workflowPage) (string, error)
}

// workflowActions maps the last part of the path to the action of a form.
var workflowActions = map[string]workflowAction{
	"run":     {"triggerWorkflow", runWorkflow},
	"pause":   {"replaceWorkflow", setStatus(api.WorkflowStatusPAUSED)},
	"resume":  {"replaceWorkflow", setStatus(api.WorkflowStatusACTIVE)},
	"archive": {"archiveWorkflow", archiveWorkflow},
}

// actOnWorkflow returns the handler of a form on the page of a workflow.
func (s *site) actOnWorkflow(a workflowAction) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, v, err := s.Member(r)
		if err != nil {
			return err
		}
		p, err := s.workflowPage(ctx, r, v)
		if err != nil {
			return err
		}
		shown := ""
		if err = s.allow(ctx, v, a.operation); err == nil {
			shown, err = a.do(s, ctx, r, &p)
		}
		if err != nil {
			var answer int
			answer, p.Fault = s.Explain(ctx, w.Header(), err)
			s.Render(w, answer, "workflow", p)
			return nil
		}
		return page.SeeOther(w, r, shown)
	}
}

// errUnreadable rejects a form with values that cannot be read.
var errUnreadable = fault.New(fault.InvalidInput, "Correct the marked fields.")

// runWorkflow runs the version that the page shows. Resubmitting the form starts nothing.
func runWorkflow(s *site, ctx context.Context, r *http.Request, p *workflowPage) (string, error) {
	input, readable := p.Form.Read(r.PostForm)
	if !readable {
		return "", errUnreadable
	}
	params := run.TriggerParams{WorkspaceID: p.Workspace.ID, WorkflowID: p.Workflow.ID, Input: input, Access: everyWorkflow{}}
	if p.Old() {
		params.Version = &p.Version
	}
	if once := onceFor(r, p.Workspace.ID, "console.run"); once != nil {
		params.Once = once
	}
	started, err := s.Runs.Trigger(ctx, params)
	if err != nil {
		return "", explained(err, p.Form)
	}
	return runAddress(p.Workspace.ID, started.RunID), nil
}

// onceFor makes resubmitting a form harmless by the ID in it. It returns nil for a form without a
// valid ID.
func onceFor(r *http.Request, workspaceID uuid.UUID, operation string) *idempotency.Key {
	id := page.FormID(r)
	if id == uuid.Nil {
		return nil
	}
	return &idempotency.Key{
		WorkspaceID: workspaceID, Operation: operation, Path: r.URL.Path, Key: id.String(), BodyHash: sha256.Sum256([]byte(r.PostForm.Encode())),
	}
}

// setStatus returns an action that saves the current version again with another status.
func setStatus(status api.WorkflowStatus) func(*site, context.Context, *http.Request, *workflowPage) (string, error) {
	return func(s *site, ctx context.Context, r *http.Request, p *workflowPage) (string, error) {
		expected, err := versionOf(r.PostFormValue("current"))
		if err != nil || expected == nil {
			return "", errChanged
		}
		w, err := s.Workflows.Get(ctx, p.Workspace.ID, p.Workflow.ID, nil)
		if err != nil {
			return "", err
		}
		_, err = s.Workflows.Replace(ctx, workflow.ReplaceParams{
			WorkspaceID: p.Workspace.ID, WorkflowID: w.ID, Expected: []int32{*expected},
			Draft: workflow.Draft{
				Name: w.Name, Description: w.Description, Status: status, InputSchema: w.InputSchema, Retry: w.Retry, DeadlineMs: w.DeadlineMs,
				Components: w.Components, SequenceEdges: w.SequenceEdges, DataConnections: w.DataConnections, Triggers: w.Triggers,
			},
		})
		return p.Address, plain(err)
	}
}

// errChanged rejects a form that was made for an earlier version.
var errChanged = fault.New(fault.PreconditionFailed, "The workflow has changed since you opened this page. Check the new version, and try again.")

// plain returns an error without the words of HTTP.
func plain(err error) error {
	if fault.CodeOf(err) == fault.PreconditionFailed {
		return errChanged
	}
	return err
}

// archiveWorkflow archives a workflow.
func archiveWorkflow(s *site, ctx context.Context, r *http.Request, p *workflowPage) (string, error) {
	expected, err := versionOf(r.PostFormValue("current"))
	if err != nil || expected == nil {
		return "", errChanged
	}
	_, err = s.Workflows.Archive(ctx, p.Workspace.ID, p.Workflow.ID, []int32{*expected})
	return p.Address, plain(err)
}

// explained puts the errors of values next to their fields. It returns the error to show on top.
func explained(err error, forms ...*form.Form) error {
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok || len(failure.Details) == 0 {
		return err
	}
	others := failure.Details
	for _, one := range forms {
		others = one.Explain(others)
	}
	if len(others) > 0 {
		return err
	}
	return &fault.Error{Code: failure.Code, Message: errUnreadable.Message, Unprocessable: failure.Unprocessable, Err: err}
}
