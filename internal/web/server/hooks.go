package server

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/workflow/hook"
)

// CreateHook stores a hook.
func (s *Server) CreateHook(ctx context.Context, request api.CreateHookRequestObject) (api.CreateHookResponseObject, error) {
	call, body := callOf(ctx), request.Body
	made, replayed, err := s.hooks.Create(ctx, hook.CreateParams{
		WorkspaceID: call.principal.WorkspaceID, WorkflowID: body.WorkflowID, Idempotency: call.idempotency(),
		Draft: hook.Draft{Name: value(body.Name), Status: string(value(body.Status)), Verification: body.Verification},
	})
	return jsonResponse(made).replayed(replayed), err
}

// ListHooks is a page of hooks, of those workflows that the key may be used on.
func (s *Server) ListHooks(ctx context.Context, request api.ListHooksRequestObject) (api.ListHooksResponseObject, error) {
	p, err := listOf(ctx, request.Params.Limit, request.Params.Cursor, request.Params.WorkflowID)
	if err != nil {
		return nil, err
	}
	page, err := s.hooks.List(ctx, callOf(ctx).principal.WorkspaceID, p)
	return jsonResponse(page), err
}

// GetHook is a hook.
func (s *Server) GetHook(ctx context.Context, request api.GetHookRequestObject) (api.GetHookResponseObject, error) {
	record, err := s.hooks.Get(ctx, belonging(ctx, request.HookID), callOf(ctx).principal)
	return jsonResponse(record), err
}

// ReplaceHook gives a hook another name, status or verification.
func (s *Server) ReplaceHook(ctx context.Context, request api.ReplaceHookRequestObject) (api.ReplaceHookResponseObject, error) {
	body := value(request.Body)
	record, err := s.hooks.Replace(ctx, belonging(ctx, request.HookID), hook.Draft{
		Name: value(body.Name), Status: string(value(body.Status)), Verification: body.Verification,
	})
	return jsonResponse(record), err
}

// DeleteHook ends a hook.
func (s *Server) DeleteHook(ctx context.Context, request api.DeleteHookRequestObject) (api.DeleteHookResponseObject, error) {
	gone, err := s.hooks.Delete(ctx, belonging(ctx, request.HookID))
	return jsonResponse(gone), err
}

// ReceiveHook takes what another service delivers. Whose it is the hook tells, and that it
// may be taken its signature.
func (s *Server) ReceiveHook(ctx context.Context, request api.ReceiveHookRequestObject) (api.ReceiveHookResponseObject, error) {
	call := callOf(ctx)
	body, err := io.ReadAll(request.Body) // the gates have bounded it
	if err != nil {
		return nil, fmt.Errorf("read a delivery: %w", err)
	}
	begun, err := s.hooks.Receive(ctx, hook.Delivery{
		HookID: request.HookID, Client: call.visit.client, Header: call.header, Body: body, Traceparent: telemetry.Traceparent(ctx),
		Admit: func(ctx context.Context, workspaceID uuid.UUID) error {
			telemetry.Identify(ctx, workspaceID, uuid.Nil)
			return refusalOf(s.limiter.Take(ctx, workspaceID, 1))
		},
	})
	if err != nil {
		return nil, err
	}
	telemetry.Concerns(ctx, begun.RunID)
	result := api.DeliveryResult{RunID: begun.RunID, JobID: strconv.FormatInt(begun.JobID, 10)}
	return jsonResponse(result).replayed(begun.Replayed), nil
}
