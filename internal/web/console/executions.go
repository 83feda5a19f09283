package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/web/page"
)

// How many rows a page shows.
const (
	shownExecutions = 50
	shownAttempts   = 50
)

var executionStatuses = []status.Execution{status.ExecutionCreated, status.ExecutionExecuting, status.ExecutionFailed, status.ExecutionCompleted}

// executionsPage is the data of the page with the executions of a workspace.
type executionsPage struct {
	page.Frame
	Filter     filter
	Statuses   []status.Execution
	Executions []executionRow
	Next       string // address of the next page; empty: this is the last page
}

// executionRow is an execution in a list.
type executionRow struct {
	api.ComponentExecution
	Address  string
	Failure  failure
	Callback callbackState
}

// Took returns how long the execution took, or has taken so far.
func (r executionRow) Took() time.Duration {
	if r.Status.Terminal() {
		return r.UpdatedAt.Std().Sub(r.CreatedAt.Std())
	}
	return time.Since(r.CreatedAt.Std())
}

// Live reports whether the execution is not finished.
func (r executionRow) Live() bool { return !r.Status.Terminal() }

// Shown returns JSON for reading.
func (executionRow) Shown(value json.RawMessage) page.Text { return page.Readable(value) }

// callbackState describes the callback of an execution.
type callbackState struct {
	Word    string // empty: the execution has no callback
	State   string // as in the style sheet
	Failure failure
}

// stateOfCallback returns the state of an execution's callback.
func stateOfCallback(e api.ComponentExecution) callbackState {
	c := e.Callback
	s := callbackState{Word: "Delivered", State: stateCompleted, Failure: failureOf(c.LastError)}
	switch {
	case c.URL == nil:
		return callbackState{}
	case c.DeliveredAt != nil:
	case c.AttemptCount == 0:
		s.Word, s.State = "Pending", stateQueued
	default:
		s.Word, s.State = "Not delivered", stateFailed
	}
	return s
}

func executionRowOf(workspaceID uuid.UUID, e api.ComponentExecution) executionRow {
	return executionRow{ComponentExecution: e, Address: executionAddress(workspaceID, e.ID), Failure: failureOf(e.Error), Callback: stateOfCallback(e)}
}

func executionAddress(workspaceID, id uuid.UUID) string {
	return page.Base(workspaceID) + "/executions/" + id.String()
}

// executions shows a page of the executions of a workspace that aren't stages of runs, newest first.
func (s *site) executions(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	p := executionsPage{Filter: filterOf(r, page.Base(v.WorkspaceID)+"/executions", "status", "module", "since"), Statuses: executionStatuses}
	params := execution.ListParams{Limit: shownExecutions, Cursor: r.URL.Query().Get("cursor"), Module: p.Filter.Get("module"), Status: status.Execution(p.Filter.Get("status"))}
	if params.Status != "" && !slices.Contains(executionStatuses, params.Status) {
		return fault.New(fault.InvalidInput, "There is no execution status %q.", params.Status)
	}
	if params.Created.After, err = p.Filter.since(); err != nil {
		return err
	}
	if p.Frame, err = s.Frame(ctx, v, "executions", "Executions"); err != nil {
		return err
	}
	p.Follow = followWorkspace(v.WorkspaceID)
	listed, err := s.Executions.List(ctx, v.WorkspaceID, params)
	if err != nil {
		return err
	}
	for _, e := range listed.Data {
		p.Executions = append(p.Executions, executionRowOf(v.WorkspaceID, e))
	}
	p.Next = p.Filter.next(listed.NextCursor)
	s.Render(w, http.StatusOK, "executions", p)
	return nil
}

// executionPage is the data of the page of an execution.
type executionPage struct {
	page.Frame
	executionRow
	URL      string // of the callback; may be empty
	Attempts []api.CallbackAttempt
	More     bool // there are more attempts
	Force    bool // a replay sends a callback that was delivered
}

// execution shows the page of an execution.
func (s *site) execution(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	return s.showExecution(ctx, w, r, v, nil)
}

// showExecution renders the page of an execution, with the error of a form.
func (s *site) showExecution(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor, rejected error) error {
	id, err := executionID(r)
	if err != nil {
		return err
	}
	record, err := s.Executions.Get(ctx, v.WorkspaceID, id)
	if err != nil {
		return err
	}
	record.Output = s.hide(record.Module, record.Output)
	p := executionPage{executionRow: executionRowOf(v.WorkspaceID, record)}
	if p.Frame, err = s.Frame(ctx, v, "executions", record.Module); err != nil {
		return err
	}
	if p.Live() {
		p.Follow = "/v1/sdk/components/executions/" + id.String() + "/stream?workspace=" + v.WorkspaceID.String()
	}
	if record.Callback.URL != nil {
		p.URL, p.Force = *record.Callback.URL, record.Callback.DeliveredAt != nil
		attempts, err := s.Callbacks.Attempts(ctx, callback.Of{WorkspaceID: v.WorkspaceID, ID: id}, shownAttempts, "")
		if err != nil {
			return err
		}
		p.Attempts, p.More = attempts.Data, attempts.HasMore
	}
	answer := http.StatusOK
	if rejected != nil {
		answer, p.Fault = s.Explain(ctx, w.Header(), rejected)
	}
	s.Render(w, answer, "execution", p)
	return nil
}

func executionID(r *http.Request) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue("executionId"))
	if err != nil {
		return id, fault.New(fault.NotFound, "There is no execution with this ID.")
	}
	return id, nil
}

// replay sends the callback of an execution again.
func (s *site) replay(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := s.Member(r)
	if err != nil {
		return err
	}
	id, err := executionID(r)
	if err != nil {
		return err
	}
	if err := s.allow(ctx, v, "replayComponentCallback"); err != nil {
		return s.showExecution(ctx, w, r, v, err)
	}
	if err := s.Callbacks.Replay(ctx, callback.Of{WorkspaceID: v.WorkspaceID, ID: id}, r.PostFormValue("force") == "yes"); err != nil {
		return s.showExecution(ctx, w, r, v, err)
	}
	return page.SeeOther(w, r, executionAddress(v.WorkspaceID, id))
}

// cancelExecution cancels an execution.
func (s *site) cancelExecution(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := s.Member(r)
	if err != nil {
		return err
	}
	id, err := executionID(r)
	if err != nil {
		return err
	}
	const operation = "cancelComponentExecution"
	if err := s.allow(ctx, v, operation); err != nil {
		return s.showExecution(ctx, w, r, v, err)
	}
	asked := api.CancelExecutionRequest{}
	if text := strings.TrimSpace(r.PostFormValue("reason")); text != "" {
		asked.Reason = &text
	}
	if err := contract.CheckGiven(operation, asked); err != nil {
		return s.showExecution(ctx, w, r, v, err)
	}
	if _, err := s.Executions.CancelOne(ctx, v.WorkspaceID, id, asked.Reason); err != nil {
		return s.showExecution(ctx, w, r, v, err)
	}
	return page.SeeOther(w, r, executionAddress(v.WorkspaceID, id))
}
