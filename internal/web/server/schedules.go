package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

// CreateSchedule creates a schedule.
func (s *Server) CreateSchedule(ctx context.Context, request api.CreateScheduleRequestObject) (api.CreateScheduleResponseObject, error) {
	call, body := callOf(ctx), request.Body
	callback, err := s.callbackChange(body.CallbackURL, body.CallbackSecret, body.CallbackHeaders)
	if err != nil {
		return nil, err
	}
	made, replayed, err := s.Schedules.Create(ctx, schedule.CreateParams{
		WorkspaceID: call.principal.WorkspaceID, WorkflowID: body.WorkflowID, Idempotency: call.idempotency(),
		Draft: schedule.Draft{
			Name: value(body.Name), Cron: value(body.Cron), TimeZone: value(body.TimeZone),
			Overlap: string(value(body.Overlap)), Status: string(value(body.Status)), Input: body.Input, DeadlineMs: body.DeadlineMs,
			Callback: callback,
		},
	})
	return jsonResponse(made).replayed(replayed), err
}

// ListSchedules returns one page of schedules of the workflows that the key may use.
func (s *Server) ListSchedules(ctx context.Context, request api.ListSchedulesRequestObject) (api.ListSchedulesResponseObject, error) {
	p, err := listParams(ctx, request.Params.Limit, request.Params.Cursor, request.Params.WorkflowID)
	if err != nil {
		return nil, err
	}
	page, err := s.Schedules.List(ctx, callOf(ctx).principal.WorkspaceID, p)
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return jsonResponse(page), err
}

// GetSchedule returns a schedule.
func (s *Server) GetSchedule(ctx context.Context, request api.GetScheduleRequestObject) (api.GetScheduleResponseObject, error) {
	record, err := s.Schedules.Get(ctx, keyOf(ctx, request.ScheduleID), callOf(ctx).principal)
	return jsonResponse(record), err
}

// ReplaceSchedule replaces the settings of a schedule.
func (s *Server) ReplaceSchedule(ctx context.Context, request api.ReplaceScheduleRequestObject) (api.ReplaceScheduleResponseObject, error) {
	body := request.Body
	callback, err := s.callbackChange(body.CallbackURL, body.CallbackSecret, body.CallbackHeaders)
	if err != nil {
		return nil, err
	}
	record, err := s.Schedules.Replace(ctx, keyOf(ctx, request.ScheduleID), schedule.Draft{
		Name: value(body.Name), Cron: body.Cron, TimeZone: value(body.TimeZone), Overlap: string(value(body.Overlap)), Status: string(value(body.Status)),
		Input: body.Input, Previous: body.Previous, DeadlineMs: body.DeadlineMs, Callback: callback,
	})
	return jsonResponse(record), err
}

// DeleteSchedule deletes a schedule and returns it.
func (s *Server) DeleteSchedule(ctx context.Context, request api.DeleteScheduleRequestObject) (api.DeleteScheduleResponseObject, error) {
	deleted, err := s.Schedules.Delete(ctx, keyOf(ctx, request.ScheduleID))
	return jsonResponse(deleted), err
}

// keyOf returns the key of a row with this ID in the caller's workspace.
func keyOf(ctx context.Context, id api.ID) notify.Key {
	return notify.Key{WorkspaceID: callOf(ctx).principal.WorkspaceID, ID: id}
}

// listParams returns the parameters of a list that is limited to the workflows that the key may
// use. It returns FORBIDDEN if workflowID names a different workflow.
func listParams(ctx context.Context, most *api.Limit, cursor *api.Cursor, workflowID *api.ID) (run.ListParams, error) {
	principal := callOf(ctx).principal
	p := run.ListParams{Limit: limit(most), Cursor: value(cursor), WorkflowID: workflowID, Allowed: principal.Workflows}
	if workflowID != nil && !principal.MayUse(*workflowID) {
		return p, run.ErrOtherWorkflow
	}
	return p, nil
}
