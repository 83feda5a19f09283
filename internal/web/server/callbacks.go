package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// ReplayComponentCallback enqueues an additional delivery of a callback and returns the record of
// the execution. It returns NO_CALLBACK or EXECUTION_NOT_FINISHED if the execution has no callback
// or isn't final.
func (s *Server) ReplayComponentCallback(ctx context.Context, request api.ReplayComponentCallbackRequestObject) (api.ReplayComponentCallbackResponseObject, error) {
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	workspaceID := callOf(ctx).principal.WorkspaceID
	if err := s.Callbacks.Replay(ctx, callback.Of{WorkspaceID: workspaceID, ID: request.ExecutionID}, value(request.Params.Force)); err != nil {
		return nil, err
	}
	record, err := s.Executions.Get(ctx, workspaceID, request.ExecutionID)
	return jsonResponse(record), err
}

// ListCallbackAttempts returns one page of a callback's delivery attempts.
func (s *Server) ListCallbackAttempts(ctx context.Context, request api.ListCallbackAttemptsRequestObject) (api.ListCallbackAttemptsResponseObject, error) {
	if err := s.checkSees(ctx, request.ExecutionID); err != nil {
		return nil, err
	}
	page, err := s.Callbacks.Attempts(ctx, callback.Of{WorkspaceID: callOf(ctx).principal.WorkspaceID, ID: request.ExecutionID},
		limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListCallbackAttempts200JSONResponse(page), err
}

// ReplayRunCallback does for a run what ReplayComponentCallback does for an execution.
func (s *Server) ReplayRunCallback(ctx context.Context, request api.ReplayRunCallbackRequestObject) (api.ReplayRunCallbackResponseObject, error) {
	key, principal := runKey(ctx, request.RunID), callOf(ctx).principal
	if _, err := s.Runs.Get(ctx, key, principal); err != nil {
		return nil, err
	}
	if err := s.Callbacks.Replay(ctx, callback.Of{WorkspaceID: key.WorkspaceID, ID: key.ID, Run: true}, value(request.Params.Force)); err != nil {
		return nil, err
	}
	record, err := s.Runs.Get(ctx, key, principal)
	return jsonResponse(record), err
}

// ListRunCallbackAttempts returns one page of the delivery attempts of a run's callback.
func (s *Server) ListRunCallbackAttempts(ctx context.Context, request api.ListRunCallbackAttemptsRequestObject) (api.ListRunCallbackAttemptsResponseObject, error) {
	key := runKey(ctx, request.RunID)
	if _, err := s.Runs.Get(ctx, key, callOf(ctx).principal); err != nil {
		return nil, err
	}
	page, err := s.Callbacks.Attempts(ctx, callback.Of{WorkspaceID: key.WorkspaceID, ID: key.ID, Run: true},
		limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListRunCallbackAttempts200JSONResponse(page), err
}

// callbackParams returns the callback of a request, or nil if the request has none. It returns
// INVALID_INPUT if the URL, the secret or the headers are invalid.
func (s *Server) callbackParams(url, secret *string, headers map[string]string) (*callback.Params, error) {
	faults := egress.CheckCallbackHeaders(headers)
	if secret != nil {
		faults = contract.Together(faults, callback.CheckSecret(*secret))
	}
	if url == nil {
		return nil, contract.Together(faults, checkNoCallback(secret, headers))
	}
	if err := contract.Together(faults, s.Guard.CheckCallbackURL(*url)); err != nil {
		return nil, err
	}
	return &callback.Params{URL: *url, Secret: secret, Headers: headers}, nil
}

// checkNoCallback returns INVALID_INPUT if a request without a callbackUrl has other callback fields.
// Otherwise the service would ignore these fields, and the caller would wait for a callback in vain.
func checkNoCallback(secret *string, headers map[string]string) error {
	var details []fault.Detail
	if secret != nil {
		details = append(details, fault.NewDetail("/callbackSecret", "requires a callbackUrl. Add the URL or omit the secret"))
	}
	if headers != nil {
		details = append(details, fault.NewDetail("/callbackHeaders", "requires a callbackUrl. Add the URL or omit the headers"))
	}
	if len(details) == 0 {
		return nil
	}
	return fault.Malformed(details)
}

// callbackChange returns what a request changes in the callback of a schedule or a hook. It returns
// INVALID_INPUT if the URL, the secret or the headers are invalid, or the placeholder of a secret.
func (s *Server) callbackChange(url, secret, headers json.RawMessage) (change run.CallbackChange, err error) {
	change.URL.Given, change.Secret.Given, change.Headers.Given = url != nil, secret != nil, headers != nil
	for _, one := range []struct {
		text json.RawMessage
		into any
	}{{url, &change.URL.Value}, {secret, &change.Secret.Value}, {headers, &change.Headers.Value}} {
		if one.text != nil && json.Unmarshal(one.text, one.into) != nil {
			return change, errors.New("decode a callback that the contract allows") // the decoder's error may contain a secret
		}
	}
	faults := contract.Together(checkPlaceholders(change), egress.CheckCallbackHeaders(change.Headers.Value))
	if change.Secret.Value != nil {
		faults = contract.Together(faults, callback.CheckSecret(*change.Secret.Value))
	}
	if change.URL.Value != nil {
		faults = contract.Together(faults, s.Guard.CheckCallbackURL(*change.URL.Value))
	}
	return change, faults
}

// checkPlaceholders returns INVALID_INPUT for the placeholder of a secret, which a client could send back
// from a record.
func checkPlaceholders(change run.CallbackChange) error {
	var details []fault.Detail
	if change.Secret.Value != nil && *change.Secret.Value == component.Redacted {
		details = append(details, fault.NewDetail("/callbackSecret", "is [redacted]: send the secret, or leave callbackSecret out, which keeps the stored one"))
	}
	for _, name := range slices.Sorted(maps.Keys(change.Headers.Value)) {
		if change.Headers.Value[name] == component.Redacted {
			pointer := "/callbackHeaders/" + fault.EscapeToken(name)
			details = append(details, fault.NewDetail(pointer, "is [redacted]: send the value, or leave callbackHeaders out, which keeps the stored ones"))
		}
	}
	if len(details) == 0 {
		return nil
	}
	return fault.Malformed(details)
}
