package server

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// TriggerWorkflow accepts a run and, if requested, waits until it finishes. Once the run is
// accepted, the response is 200, even if the wait times out or fails.
func (s *Server) TriggerWorkflow(ctx context.Context, request api.TriggerWorkflowRequestObject) (api.TriggerWorkflowResponseObject, error) {
	params, err := s.triggerParams(ctx, request)
	if err != nil {
		return nil, mismatchFirst(ctx, s.Executions.CheckRepeat, callOf(ctx), err)
	}
	if params.WaitFor != nil {
		waitFor, stopWaiting := s.mayWait(ctx, params.WorkspaceID, *params.WaitFor)
		defer stopWaiting()
		params.WaitFor = &waitFor
	}
	triggered, err := s.Runs.Trigger(ctx, params)
	if err != nil {
		return nil, err
	}
	telemetry.Concerns(ctx, triggered.RunID)
	result := api.TriggerResult{RunID: triggered.RunID, JobID: strconv.FormatInt(triggered.JobID, 10)}
	if triggered.Run == nil {
		return jsonResponse(result).replayed(triggered.Replayed), nil
	}
	prefix, err := strictjson.Encode(result)
	if err != nil {
		return nil, err
	}
	whole := s.whole(ctx, runKey(ctx, triggered.RunID), *triggered.Run)
	whole.prefix = append(bytes.TrimSuffix(prefix, []byte("}")), `,"run":`...)
	return response(whole.write).replayed(triggered.Replayed), nil
}

// triggerParams returns the parameters of Trigger for a request. It returns INVALID_INPUT if the credit
// limit or the callback is invalid.
func (s *Server) triggerParams(ctx context.Context, request api.TriggerWorkflowRequestObject) (run.TriggerParams, error) {
	call := callOf(ctx)
	params := run.TriggerParams{
		WorkspaceID: call.principal.WorkspaceID, WorkflowID: request.WorkflowID, KeyRootID: call.principal.RootID, Access: call.principal,
		Traceparent: telemetry.Traceparent(ctx),
	}
	if key := call.idempotency(); key != nil {
		params.Once = key
	}
	body := request.Body
	if body == nil {
		return params, nil
	}
	params.Version, params.Input, params.Metadata = body.Version, body.Input, body.Metadata
	if body.WaitForMs != nil {
		params.WaitFor = new(time.Duration(*body.WaitForMs) * time.Millisecond)
	}
	if body.RerunOf != nil {
		params.RerunOf = &orchestrator.Origin{RunID: body.RerunOf.RunID, FromStageID: body.RerunOf.FromStageID}
	}
	params.Deadline = time.Duration(value(body.DeadlineMs)) * time.Millisecond
	var faults error
	if body.MaxCredits != nil {
		most, err := credit.Parse(body.MaxCredits.String())
		if err != nil {
			faults = fault.InvalidAt("/maxCredits", "must have at most 6 decimals")
		}
		params.MaxCredits = &most
	}
	given, err := s.callbackParams(body.CallbackURL, body.CallbackSecret, body.CallbackHeaders)
	params.Callback = given
	return params, contract.Together(faults, err)
}

// QuoteWorkflow returns what a run would cost.
func (s *Server) QuoteWorkflow(ctx context.Context, request api.QuoteWorkflowRequestObject) (api.QuoteWorkflowResponseObject, error) {
	var version *int32
	if request.Body != nil {
		version = request.Body.Version
	}
	principal := callOf(ctx).principal
	quote, err := s.Runs.Quote(ctx, principal.WorkspaceID, request.WorkflowID, version, principal)
	return jsonResponse(quote), err
}

// ListWorkflowRuns returns one page of runs of the workflows that the key may use.
func (s *Server) ListWorkflowRuns(ctx context.Context, request api.ListWorkflowRunsRequestObject) (api.ListWorkflowRunsResponseObject, error) {
	params := request.Params
	p, err := listParams(ctx, params.Limit, params.Cursor, params.WorkflowID)
	if err != nil {
		return nil, err
	}
	p.Status, p.Trigger = value(params.Status), string(value(params.Trigger))
	if p.Created, err = createdIn(params.CreatedAfter, params.CreatedBefore); err != nil {
		return nil, err
	}
	page, err := s.Runs.List(ctx, callOf(ctx).principal.WorkspaceID, p)
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return jsonResponse(page), err
}

// GetWorkflowRun returns the record of a run, with its stages unless the request excludes them.
func (s *Server) GetWorkflowRun(ctx context.Context, request api.GetWorkflowRunRequestObject) (api.GetWorkflowRunResponseObject, error) {
	key := runKey(ctx, request.RunID)
	record, err := s.Runs.Get(ctx, key, callOf(ctx).principal)
	if err != nil {
		return nil, err
	}
	if request.Params.Stages != nil {
		return jsonResponse(record), nil
	}
	return response(s.whole(ctx, key, record).write), nil
}

// StreamWorkflowRun streams the log of a run.
func (s *Server) StreamWorkflowRun(ctx context.Context, request api.StreamWorkflowRunRequestObject) (api.StreamWorkflowRunResponseObject, error) {
	call := callOf(ctx)
	principal, head := call.principal, call.head
	if last := request.Params.LastEventID; head || last != nil {
		over, err := s.Runs.IsFinalEvent(ctx, runKey(ctx, request.RunID), principal, value(last))
		switch {
		case err != nil:
			return nil, err
		case over:
			return response(streamOver), nil
		case head:
			return response(streamHead), nil
		}
	}
	ctx, stop, err := s.streams.open(ctx)
	if err != nil {
		return nil, err
	}
	events, err := s.Runs.Watch(ctx, notify.Key{WorkspaceID: principal.WorkspaceID, ID: request.RunID}, principal, afterOf(request.Params))
	if err != nil {
		stop()
		return nil, err
	}
	return runStream(ctx, stop, events, s.streams.of(principal)), nil
}

// afterOf returns the number of the event after which a stream starts, from the header or else
// the query. It returns nil if the stream starts with the current state.
func afterOf(p api.StreamWorkflowRunParams) *int64 {
	if p.LastEventID != nil {
		return p.LastEventID
	}
	return p.After
}

// ListRunStages returns one page of a run's stages.
func (s *Server) ListRunStages(ctx context.Context, request api.ListRunStagesRequestObject) (api.ListRunStagesResponseObject, error) {
	page, err := s.Runs.StagePage(ctx, runKey(ctx, request.RunID), callOf(ctx).principal,
		run.StageParams{Limit: limit(request.Params.Limit), Cursor: value(request.Params.Cursor)})
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return jsonResponse(page), err
}

// ListRunEvents returns one page of a run's log.
func (s *Server) ListRunEvents(ctx context.Context, request api.ListRunEventsRequestObject) (api.ListRunEventsResponseObject, error) {
	page, err := s.Runs.EventPage(ctx, runKey(ctx, request.RunID), callOf(ctx).principal,
		run.ListParams{Limit: limit(request.Params.Limit), Cursor: value(request.Params.Cursor)}, value(request.Params.After))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return jsonResponse(page), err
}

// CancelWorkflowRun requests the cancellation of a run and returns its record.
func (s *Server) CancelWorkflowRun(ctx context.Context, request api.CancelWorkflowRunRequestObject) (api.CancelWorkflowRunResponseObject, error) {
	var mode string
	var reason *string
	if request.Body != nil {
		mode, reason = string(value(request.Body.Mode)), request.Body.Reason
	}
	record, err := s.Runs.Cancel(ctx, runKey(ctx, request.RunID), callOf(ctx).principal, mode, reason)
	if err != nil {
		return nil, err
	}
	return response(s.whole(ctx, runKey(ctx, request.RunID), record).write), nil
}

// SendRunSignal sends a signal to a run.
func (s *Server) SendRunSignal(ctx context.Context, request api.SendRunSignalRequestObject) (api.SendRunSignalResponseObject, error) {
	var payload api.SignalPayload
	if request.Body != nil {
		payload = *request.Body
	}
	signal, err := s.Runs.Signal(ctx, runKey(ctx, request.RunID), callOf(ctx).principal, request.Signal, payload)
	return jsonResponse(signal), err
}

func runKey(ctx context.Context, runID api.RunID) notify.Key { return keyOf(ctx, runID) }
