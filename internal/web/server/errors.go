package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/web/protocol"
)

const (
	internalMessage    = "Something went wrong on our side. If you contact support, include the request ID."
	unavailableMessage = "The service is temporarily unavailable. Retry after the time in Retry-After."
)

// fail writes the problem document for a failed request. Nothing else writes error responses. The
// text of an error that isn't a *fault.Error is never sent. If the response has already started,
// fail aborts the connection, so that the client notices that it is incomplete.
func (f *front) fail(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	call := callOf(ctx)
	answer, _ := w.(*answer)
	if answer != nil && answer.started {
		answer.broken, call.failed = true, "CUT_OFF"
		f.log.DebugContext(ctx, "response cut off", "error", err)
		return
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		call.failed = "CLIENT_GONE"
		f.log.DebugContext(ctx, "client disconnected", "error", err)
		return
	}
	failure := public(err)
	call.failed = failure.Code
	f.record(withTarget(r, call.operation), failure, err)
	status, body := render(failure, call.id)
	header := w.Header()
	for name, value := range failure.Header {
		header.Set(name, value)
	}
	if wait := protocol.RetryAfter(failure, call.idempotencyKey != ""); wait > 0 {
		header.Set("Retry-After", strconv.Itoa(wait))
		if failure.Code == fault.RateLimited {
			f.refund(header, call, wait)
		}
	}
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	for _, name := range []string{"Preference-Applied", "Weft-Ignored", "ETag", "Content-Encoding", "Content-Disposition", "Content-Range"} {
		header.Del(name) // set for the response that isn't sent
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if answer != nil { // drop the recorded status and the error of a rejected write
		answer.status, answer.refusal, answer.final = 0, nil, true
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client has disconnected
}

// record logs errors of the service and counts errors of the caller. It writes denied requests to
// the audit log.
func (f *front) record(ctx context.Context, failure *fault.Error, err error) {
	switch failure.Code {
	case fault.Internal:
		f.log.ErrorContext(ctx, "request failed", "error", err)
	case fault.Unavailable:
		if failure == errAddressMemory || failure == errWorkspaceMemory {
			f.metrics.Refused("memory")
			return
		}
		f.log.WarnContext(ctx, "service unavailable for a request", "error", err)
	case fault.Unauthorized:
		f.metrics.AuthFailed(failure.Reason)
	case fault.Forbidden:
		f.denied(ctx, failure)
	case fault.RateLimited:
		f.metrics.Refused(failure.Reason)
	}
}

// withTarget returns the context of r with the audit target: the last ID in the path, unless that
// is the ID of the workspace.
func withTarget(r *http.Request, operation *contract.Operation) context.Context {
	if operation == nil {
		return r.Context()
	}
	name, _, _ := strings.Cut(operation.Path[strings.LastIndex(operation.Path, "{")+1:], "}")
	if id, err := uuid.Parse(r.PathValue(name)); err == nil && name != "workspaceId" {
		return audit.Target(r.Context(), id)
	}
	return r.Context()
}

// denied writes a FORBIDDEN to the audit log if the caller's workspace is known.
func (f *front) denied(ctx context.Context, failure *fault.Error) {
	call := callOf(ctx)
	if id := call.workspaceID(); id != uuid.Nil && f.book != nil {
		f.book.Deny(ctx, id, call.actor(), call.operation.ID, failure.Reason)
	}
}

// public returns the error to send to the caller: err itself if it is a *fault.Error, otherwise a
// generic UNAVAILABLE or INTERNAL, or an UNAVAILABLE that says that the outcome is unknown.
func public(err error) *fault.Error {
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		return failure
	}
	if _, ok := errors.AsType[*postgres.DoubtError](err); ok {
		return fault.OutcomeUnknown(err, nil)
	}
	if postgres.Unavailable(err) {
		return fault.New(fault.Unavailable, "%s", unavailableMessage)
	}
	return fault.New(fault.Internal, "%s", internalMessage)
}

// render returns the status and the problem document (RFC 9457) of a failure.
func render(failure *fault.Error, requestID string) (status int, body []byte) {
	if !protocol.Known(failure.Code) {
		failure = fault.New(fault.Internal, "%s", internalMessage)
	}
	title, _ := protocol.Describe(failure.Code)
	status = protocol.Status(failure)
	problem := api.Problem{
		Type: "urn:weft:problem:" + string(failure.Code), Title: title, Status: int32(status),
		Detail: failure.Message, Instance: "urn:weft:request:" + requestID,
		Code: failure.Code, Error: failure.Code, Message: failure.Message,
		RequestID: requestID, Retryable: protocol.Retryable(failure), Docs: protocol.Docs(failure),
	}
	if failure.Reason != "" {
		problem.Reason = &failure.Reason
	}
	for _, d := range failure.Details {
		problem.Errors = append(problem.Errors, api.ProblemDetail{Code: d.Code, Message: d.Message, Pointer: d.Pointer})
	}
	return status, append(encode(problem, failure.Extra), '\n')
}

// encode returns the problem as JSON, followed by the extra fields.
func encode(problem api.Problem, extra map[string]any) []byte {
	body := marshal(problem)
	if len(extra) == 0 {
		return body
	}
	extra = maps.Clone(extra)
	for name, value := range extra {
		if at, ok := value.(time.Time); ok {
			extra[name] = timestamp.Of(at)
		}
	}
	more := marshal(extra)
	return append(append(body[:len(body)-1], ','), more[1:]...)
}

// marshal returns value as JSON, or {} if it can't be encoded.
func marshal(value any) []byte {
	body, err := strictjson.Encode(value)
	if err != nil {
		return []byte("{}") // only a value in Extra can fail
	}
	return body
}

// refuseBinding responds to a request that the generated code could not bind. Earlier checks should
// reject every such request, so the error names no field.
func (f *front) refuseBinding(w http.ResponseWriter, r *http.Request, err error) {
	refusal := fault.New(fault.InvalidInput, "A value in the request has the wrong type. See the API reference for the expected types.")
	refusal.Err = err
	if form := fault.Malformed(callOf(r.Context()).faults); form != nil {
		f.fail(w, r, mismatchFirst(r.Context(), f.checkRepeat, callOf(r.Context()), form))
		return
	}
	f.fail(w, r, refusal)
}
