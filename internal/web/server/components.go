package server

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/web/contract"
)

// defaultLimit is the page size if the request has no limit (decisions 1.5).
const defaultLimit = 20

// ExecuteComponent accepts an execution and, if requested, waits until it finishes. Once the
// execution is accepted, the response is 200, even if the wait times out or fails.
func (s *Server) ExecuteComponent(ctx context.Context, request api.ExecuteComponentRequestObject) (api.ExecuteComponentResponseObject, error) {
	params, err := s.submitParams(ctx, request.Body)
	if err != nil {
		return nil, mismatchFirst(ctx, s.Executions.CheckRepeat, callOf(ctx), contract.Together(err, s.Executions.Check(params)))
	}
	var stopWaiting func()
	params.WaitFor, stopWaiting = s.mayWait(ctx, params.WorkspaceID, params.WaitFor)
	defer stopWaiting()
	submitted, err := s.Executions.Submit(ctx, params)
	if err != nil {
		return nil, err
	}
	telemetry.Concerns(ctx, submitted.Record.ID)
	return jsonResponse(submitted.Record).replayed(submitted.Replayed), nil
}

// submitParams returns the parameters of Submit for a request body. It returns INVALID_INPUT if
// the form of the body, the credit limit or the callback's URL, headers or secret is invalid.
func (s *Server) submitParams(ctx context.Context, body *api.ExecuteComponentRequest) (execution.SubmitParams, error) {
	call := callOf(ctx)
	params := execution.SubmitParams{
		WorkspaceID: call.principal.WorkspaceID,
		KeyID:       call.principal.KeyID,
		KeyRootID:   call.principal.RootID,
		Sees:        visibleKeys(call.principal),
		Module:      body.Module,
		Input:       body.Input,
		Config:      body.Config,
		Strict:      call.strict,
		Attempts:    max(1, int(value(body.Attempts))),
		Retry:       body.Retry,
		Idempotency: call.idempotency(),
		Traceparent: telemetry.Traceparent(ctx),
		WaitFor:     time.Duration(value(body.WaitForMs)) * time.Millisecond,
		Deadline:    time.Duration(value(body.DeadlineMs)) * time.Millisecond,
	}
	var faults error
	if form := fault.Malformed(call.faults); form != nil {
		faults = form
	}
	if body.Retry != nil && body.Attempts != nil {
		faults = contract.Together(faults, fault.InvalidAt("/retry", "cannot be combined with attempts: retry limits the attempts by time, or by its maxAttempts"))
	}
	if body.MaxCredits != nil {
		most, err := credit.Parse(body.MaxCredits.String())
		if err != nil {
			faults = contract.Together(faults, fault.InvalidAt("/maxCredits", "must have at most 6 decimals"))
		}
		params.MaxCredits = &most
	}
	given, err := s.callbackParams(body.CallbackURL, body.CallbackSecret, body.CallbackHeaders)
	params.Callback = given
	return params, contract.Together(faults, err)
}

// visibleKeys returns the keys whose executions the principal may see, or nil for all keys.
func visibleKeys(principal auth.Principal) []uuid.UUID {
	if !principal.Restricted() {
		return nil
	}
	return principal.Keys()
}

// checkSees returns NOT_FOUND if the calling key may not see the execution.
func (s *Server) checkSees(ctx context.Context, executionID uuid.UUID) error {
	principal := callOf(ctx).principal
	if !principal.Restricted() {
		return nil
	}
	return s.Executions.CheckSees(ctx, principal.WorkspaceID, executionID, visibleKeys(principal))
}

// ListComponentExecutions returns one page of the executions that the key may see.
func (s *Server) ListComponentExecutions(ctx context.Context, request api.ListComponentExecutionsRequestObject) (api.ListComponentExecutionsResponseObject, error) {
	principal, params := callOf(ctx).principal, request.Params
	created, err := createdIn(params.CreatedAfter, params.CreatedBefore)
	if err != nil {
		return nil, err
	}
	page, err := s.Executions.List(ctx, principal.WorkspaceID, execution.ListParams{
		Limit: limit(params.Limit), Cursor: value(params.Cursor), Keys: visibleKeys(principal),
		Module: value(params.Module), Status: value(params.Status), Created: created,
	})
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return jsonResponse(page), err
}

// GetComponentExecution returns the current record of an execution.
func (s *Server) GetComponentExecution(ctx context.Context, request api.GetComponentExecutionRequestObject) (api.GetComponentExecutionResponseObject, error) {
	telemetry.Concerns(ctx, request.ExecutionID)
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	record, err := s.Executions.Get(ctx, callOf(ctx).principal.WorkspaceID, request.ExecutionID)
	return jsonResponse(record), err
}

// CancelComponentExecution cancels an execution and returns its record.
func (s *Server) CancelComponentExecution(ctx context.Context, request api.CancelComponentExecutionRequestObject) (api.CancelComponentExecutionResponseObject, error) {
	telemetry.Concerns(ctx, request.ExecutionID)
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	var reason *string
	if request.Body != nil {
		reason = request.Body.Reason
	}
	record, err := s.Executions.CancelOne(ctx, callOf(ctx).principal.WorkspaceID, request.ExecutionID, reason)
	return jsonResponse(record), err
}

// StreamComponentExecution streams the events of an execution. The first state is read before the
// header is sent, so an unknown ID results in an ordinary 404.
func (s *Server) StreamComponentExecution(ctx context.Context, request api.StreamComponentExecutionRequestObject) (api.StreamComponentExecutionResponseObject, error) {
	telemetry.Concerns(ctx, request.ExecutionID)
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	call := callOf(ctx)
	principal, head := call.principal, call.head
	if last := request.Params.LastEventID; head || last != nil && *last == finalEventID {
		record, err := s.Executions.Get(ctx, principal.WorkspaceID, request.ExecutionID)
		switch {
		case err != nil:
			return nil, err
		case last != nil && *last == eventID(record.Status) && record.Status.Terminal():
			return response(streamOver), nil
		case head:
			return response(streamHead), nil
		}
	}
	ctx, stop, err := s.streams.open(ctx)
	if err != nil {
		return nil, err
	}
	events, err := s.Executions.Watch(ctx, principal.WorkspaceID, request.ExecutionID)
	if err != nil {
		stop()
		return nil, err
	}
	return executionStream(ctx, stop, events, s.streams.of(principal)), nil
}

// value returns *p, or the zero value if p is nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func limit(requested *api.Limit) int {
	if requested == nil {
		return defaultLimit
	}
	return int(*requested)
}
