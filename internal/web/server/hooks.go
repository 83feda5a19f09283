package server

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/workflow/hook"
)

// CreateHook creates a hook.
func (s *Server) CreateHook(ctx context.Context, request api.CreateHookRequestObject) (api.CreateHookResponseObject, error) {
	call, body := callOf(ctx), request.Body
	callback, err := s.callbackChange(body.CallbackURL, body.CallbackSecret, body.CallbackHeaders)
	if err != nil {
		return nil, err
	}
	made, replayed, err := s.Hooks.Create(ctx, hook.CreateParams{
		WorkspaceID: call.principal.WorkspaceID, WorkflowID: body.WorkflowID, Idempotency: call.idempotency(),
		Draft: hook.Draft{
			Name: value(body.Name), Status: string(value(body.Status)), Verification: body.Verification, Headers: body.Headers, Respond: body.Respond,
			DeadlineMs: body.DeadlineMs, Callback: callback,
		},
	})
	return jsonResponse(made).replayed(replayed), err
}

// ListHooks returns one page of hooks of the workflows that the key may use.
func (s *Server) ListHooks(ctx context.Context, request api.ListHooksRequestObject) (api.ListHooksResponseObject, error) {
	p, err := listParams(ctx, request.Params.Limit, request.Params.Cursor, request.Params.WorkflowID)
	if err != nil {
		return nil, err
	}
	page, err := s.Hooks.List(ctx, callOf(ctx).principal.WorkspaceID, p)
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return jsonResponse(page), err
}

// GetHook returns a hook.
func (s *Server) GetHook(ctx context.Context, request api.GetHookRequestObject) (api.GetHookResponseObject, error) {
	record, err := s.Hooks.Get(ctx, keyOf(ctx, request.HookID), callOf(ctx).principal)
	return jsonResponse(record), err
}

// ReplaceHook replaces the name, status and verification of a hook.
func (s *Server) ReplaceHook(ctx context.Context, request api.ReplaceHookRequestObject) (api.ReplaceHookResponseObject, error) {
	body := value(request.Body)
	callback, err := s.callbackChange(body.CallbackURL, body.CallbackSecret, body.CallbackHeaders)
	if err != nil {
		return nil, err
	}
	record, err := s.Hooks.Replace(ctx, keyOf(ctx, request.HookID), hook.Draft{
		Name: value(body.Name), Status: string(value(body.Status)), Verification: body.Verification, Headers: body.Headers, Respond: body.Respond,
		DeadlineMs: body.DeadlineMs, Callback: callback,
	})
	return jsonResponse(record), err
}

// DeleteHook deletes a hook and returns it.
func (s *Server) DeleteHook(ctx context.Context, request api.DeleteHookRequestObject) (api.DeleteHookResponseObject, error) {
	deleted, err := s.Hooks.Delete(ctx, keyOf(ctx, request.HookID))
	return jsonResponse(deleted), err
}

// ReceiveHook accepts a delivery from another service and starts a run. The hook determines the
// workspace and how the delivery is verified.
func (s *Server) ReceiveHook(ctx context.Context, request api.ReceiveHookRequestObject) (api.ReceiveHookResponseObject, error) {
	call := callOf(ctx)
	body, err := io.ReadAll(request.Body) // admit has already read and bounded it
	if err != nil {
		return nil, fmt.Errorf("read the delivery: %w", err)
	}
	received, err := s.Hooks.Receive(ctx, hook.Delivery{
		HookID: request.HookID, Client: call.visit.client, Header: call.header, Query: call.query, Body: body, Traceparent: telemetry.Traceparent(ctx),
		Admit: s.admitDelivery, Wait: s.mayWait,
	})
	if err != nil {
		return nil, err
	}
	if received.Challenge != nil {
		return challengeResponse(*received.Challenge), nil
	}
	telemetry.Concerns(ctx, received.RunID)
	if received.Output != nil {
		return jsonResponse(received.Output).replayed(received.Replayed), nil
	}
	result := api.DeliveryResult{RunID: received.RunID, JobID: strconv.FormatInt(received.JobID, 10), Finished: received.Finished}
	return jsonResponse(result).replayed(received.Replayed), nil
}

// challengeResponse returns the answer to a handshake. It is never rendered as markup: all responses
// have X-Content-Type-Options.
func challengeResponse(text string) response {
	return textResponse("text/plain; charset=utf-8", []byte(text))
}

// admitDelivery charges a verified request to a hook to its workspace.
func (s *Server) admitDelivery(ctx context.Context, workspaceID uuid.UUID) error {
	telemetry.Identify(ctx, workspaceID, uuid.Nil)
	return limitError(s.Limiter.Take(ctx, workspaceID, 1))
}

// ChallengeHook returns the challenge of a sender that verifies the address of a hook.
func (s *Server) ChallengeHook(ctx context.Context, request api.ChallengeHookRequestObject) (api.ChallengeHookResponseObject, error) {
	p, call := request.Params, callOf(ctx)
	d := hook.Delivery{HookID: request.HookID, Client: call.hold.client, Query: call.query, Admit: s.admitDelivery}
	if p.ValidationToken != nil && p.HubMode == nil {
		token, err := s.Hooks.Validate(ctx, d)
		return challengeResponse(token), err
	}
	var missing []fault.Detail
	for _, one := range []struct {
		name  string
		given bool
	}{{"hub.mode", p.HubMode != nil}, {"hub.challenge", p.HubChallenge != nil}, {"hub.verify_token", p.HubVerifyToken != nil}} {
		if !one.given {
			missing = append(missing, fault.NewDetail("/query/"+one.name, "is required"))
		}
	}
	if len(missing) > 0 {
		return nil, fault.Malformed(missing)
	}
	err := s.Hooks.Challenge(ctx, d, *p.HubVerifyToken)
	return challengeResponse(*p.HubChallenge), err
}
