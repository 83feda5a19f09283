package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// response writes the response of an operation. It replaces the generated types, because they
// escape HTML characters in JSON.
type response func(w http.ResponseWriter) error

// jsonResponse returns a 200 response with value as JSON.
func jsonResponse(value any) response {
	return func(w http.ResponseWriter) error {
		body, err := strictjson.Encode(value)
		if err != nil {
			return err
		}
		return textResponse("application/json", append(body, '\n'))(w)
	}
}

// textResponse returns a 200 response with a body of the media type.
func textResponse(media string, text []byte) response {
	return func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", media)
		_, err := w.Write(text)
		return err
	}
}

// with sets a header.
func (r response) with(name, value string) response {
	return func(w http.ResponseWriter) error {
		w.Header().Set(name, value)
		return r(w)
	}
}

// replayed sets Idempotent-Replayed if the request repeats an earlier one with the same
// Idempotency-Key.
func (r response) replayed(was bool) response {
	if !was {
		return r
	}
	return r.with("Idempotent-Replayed", "true")
}

// unless sets the ETag. It replaces the response with 304 if If-None-Match names the tag.
func (r response) unless(tag string, ifNoneMatch *api.IfNoneMatch) response {
	if protocol.Matches(value(ifNoneMatch), tag) {
		r = func(w http.ResponseWriter) error {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return r.with("ETag", tag)
}

// tagOf returns the ETag of a body.
func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// The methods that make it a response of each operation.
func (r response) VisitListSystemComponentsResponse(w http.ResponseWriter) error     { return r(w) }
func (r response) VisitExecuteComponentResponse(w http.ResponseWriter) error         { return r(w) }
func (r response) VisitGetComponentExecutionResponse(w http.ResponseWriter) error    { return r(w) }
func (r response) VisitCancelComponentExecutionResponse(w http.ResponseWriter) error { return r(w) }
func (r response) VisitReplayComponentCallbackResponse(w http.ResponseWriter) error  { return r(w) }
func (r response) VisitReplayRunCallbackResponse(w http.ResponseWriter) error        { return r(w) }
func (r response) VisitListComponentExecutionsResponse(w http.ResponseWriter) error  { return r(w) }
func (r response) VisitListLedgerResponse(w http.ResponseWriter) error               { return r(w) }
func (r response) VisitCreateHookResponse(w http.ResponseWriter) error               { return r(w) }
func (r response) VisitListHooksResponse(w http.ResponseWriter) error                { return r(w) }
func (r response) VisitGetHookResponse(w http.ResponseWriter) error                  { return r(w) }
func (r response) VisitReplaceHookResponse(w http.ResponseWriter) error              { return r(w) }
func (r response) VisitDeleteHookResponse(w http.ResponseWriter) error               { return r(w) }
func (r response) VisitChallengeHookResponse(w http.ResponseWriter) error            { return r(w) }
func (r response) VisitReceiveHookResponse(w http.ResponseWriter) error              { return r(w) }
func (r response) VisitAcceptInvitationResponse(w http.ResponseWriter) error         { return r(w) }
func (r response) VisitTriggerWorkflowResponse(w http.ResponseWriter) error          { return r(w) }
func (r response) VisitGetWorkflowRunResponse(w http.ResponseWriter) error           { return r(w) }
func (r response) VisitCancelWorkflowRunResponse(w http.ResponseWriter) error        { return r(w) }
func (r response) VisitStreamWorkflowRunResponse(w http.ResponseWriter) error        { return r(w) }
func (r response) VisitStreamWorkspaceResponse(w http.ResponseWriter) error          { return r(w) }
func (r response) VisitQuoteWorkflowResponse(w http.ResponseWriter) error            { return r(w) }
func (r response) VisitListWorkflowRunsResponse(w http.ResponseWriter) error         { return r(w) }
func (r response) VisitListRunStagesResponse(w http.ResponseWriter) error            { return r(w) }
func (r response) VisitListRunEventsResponse(w http.ResponseWriter) error            { return r(w) }
func (r response) VisitSendRunSignalResponse(w http.ResponseWriter) error            { return r(w) }
func (r response) VisitCreateScheduleResponse(w http.ResponseWriter) error           { return r(w) }
func (r response) VisitListSchedulesResponse(w http.ResponseWriter) error            { return r(w) }
func (r response) VisitGetScheduleResponse(w http.ResponseWriter) error              { return r(w) }
func (r response) VisitReplaceScheduleResponse(w http.ResponseWriter) error          { return r(w) }
func (r response) VisitDeleteScheduleResponse(w http.ResponseWriter) error           { return r(w) }
func (r response) VisitCreateSessionResponse(w http.ResponseWriter) error            { return r(w) }
func (r response) VisitDeleteCurrentSessionResponse(w http.ResponseWriter) error     { return r(w) }
func (r response) VisitGetOpenapiJSONResponse(w http.ResponseWriter) error           { return r(w) }
func (r response) VisitGetOpenapiYamlResponse(w http.ResponseWriter) error           { return r(w) }
func (r response) VisitGetOpenapi30JSONResponse(w http.ResponseWriter) error         { return r(w) }
func (r response) VisitStreamComponentExecutionResponse(w http.ResponseWriter) error { return r(w) }
func (r response) VisitCreateWorkflowResponse(w http.ResponseWriter) error           { return r(w) }
func (r response) VisitValidateWorkflowResponse(w http.ResponseWriter) error         { return r(w) }
func (r response) VisitReplaceWorkflowResponse(w http.ResponseWriter) error          { return r(w) }
func (r response) VisitArchiveWorkflowResponse(w http.ResponseWriter) error          { return r(w) }
func (r response) VisitGetWorkflowResponse(w http.ResponseWriter) error              { return r(w) }
func (r response) VisitExportWorkflowResponse(w http.ResponseWriter) error           { return r(w) }
func (r response) VisitUpdateWorkflowComponentResponse(w http.ResponseWriter) error  { return r(w) }
