package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// runAction is what a form on the page of a run does. It returns the run to show.
type runAction struct {
	operation string // operationId in the contract, which needs the role editor
	do        func(s *site, ctx context.Context, r *http.Request, key notify.Key) (uuid.UUID, error)
}

// runActions maps the last part of the path to the action of a form.
var runActions = map[string]runAction{
	"signal": {"sendRunSignal", signal},
	"cancel": {"cancelWorkflowRun", cancelRun},
	"rerun":  {"triggerWorkflow", rerun},
}

// actOn returns the handler of a form on the page of a run.
func (s *site) actOn(a runAction) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, v, err := s.Member(r)
		if err != nil {
			return err
		}
		key, err := runKey(r, v)
		if err != nil {
			return err
		}
		if err := s.allow(ctx, v, a.operation); err != nil {
			return s.showRun(ctx, w, r, v, err)
		}
		shown, err := a.do(s, ctx, r, key)
		if err != nil {
			return s.showRun(ctx, w, r, v, err)
		}
		return page.SeeOther(w, r, runAddress(v.WorkspaceID, shown))
	}
}

// signal sends a signal that the run waits for, with the payload that was typed. An empty payload is
// an empty object.
func signal(s *site, ctx context.Context, r *http.Request, key notify.Key) (uuid.UUID, error) {
	payload := cmp.Or(strings.TrimSpace(r.PostFormValue("payload")), "{}")
	value, err := strictjson.Decode([]byte(payload))
	if _, object := value.(map[string]any); err != nil || !object {
		return key.ID, fault.New(fault.InvalidInput, "The payload must be a JSON object, such as {\"approved\": true}.")
	}
	awaited, err := s.Runs.Awaited(ctx, key)
	if err != nil {
		return key.ID, err
	}
	name := r.PostFormValue("name")
	if !slices.Contains(awaited, name) {
		return key.ID, fault.New(fault.Conflict, "The run does not wait for the signal %q any more.", name)
	}
	_, err = s.Runs.Signal(ctx, key, everyWorkflow{}, name, []byte(payload))
	return key.ID, err
}

// cancelRun requests the cancellation of a run.
func cancelRun(s *site, ctx context.Context, r *http.Request, key notify.Key) (uuid.UUID, error) {
	mode := cmp.Or(r.PostFormValue("mode"), string(api.CancelModeGraceful))
	asked := api.CancelWorkflowRunRequest{Mode: (*api.CancelMode)(&mode)}
	if text := strings.TrimSpace(r.PostFormValue("reason")); text != "" {
		asked.Reason = &text
	}
	if err := contract.CheckGiven("cancelWorkflowRun", asked); err != nil {
		return key.ID, err
	}
	_, err := s.Runs.Cancel(ctx, key, everyWorkflow{}, mode, asked.Reason)
	return key.ID, err
}

// rerun repeats a run, from a stage if the form names one. Resubmitting the form starts nothing.
func rerun(s *site, ctx context.Context, r *http.Request, key notify.Key) (uuid.UUID, error) {
	earlier, err := s.Runs.Get(ctx, key, everyWorkflow{})
	if err != nil {
		return key.ID, err
	}
	origin := orchestrator.Origin{RunID: key.ID}
	if text := r.PostFormValue("from"); text != "" {
		stage, err := uuid.Parse(text)
		if err != nil {
			return key.ID, fault.New(fault.InvalidInput, "There is no such stage in this run.")
		}
		origin.FromStageID = &stage
	}
	params := run.TriggerParams{WorkspaceID: key.WorkspaceID, WorkflowID: earlier.WorkflowID, RerunOf: &origin, Access: everyWorkflow{}}
	if once := onceFor(r, key.WorkspaceID, "console.rerun"); once != nil {
		params.Once = once
	}
	started, err := s.Runs.Trigger(ctx, params)
	return started.RunID, err
}
