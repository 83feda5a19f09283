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
	internalMessage    = "Something went wrong on our side; the request id helps to find out what."
	unavailableMessage = "The service cannot do this right now; try again after the time in Retry-After."
)

// fail writes the answer to a request that cannot be fulfilled. It is the only
// writer of answers other than 200. What is not a *fault.Error never shows. An
// answer that has begun is cut, so that nobody takes it for whole.
func (f *front) fail(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	call := callOf(ctx)
	answer, _ := w.(*answer)
	if answer != nil && answer.begun {
		answer.broken, call.failed = true, "CUT_OFF"
		f.log.DebugContext(ctx, "an answer was cut off", "error", err)
		return
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		call.failed = "CLIENT_GONE"
		f.log.DebugContext(ctx, "the client went away", "error", err)
		return
	}
	failure := public(err)
	call.failed = failure.Code
	f.note(about(r, call.operation), failure, err)
	status, body := render(failure, call.id)
	header := w.Header()
	for name, value := range failure.Header {
		header.Set(name, value)
	}
	if wait := protocol.RetryAfter(failure); wait > 0 {
		header.Set("Retry-After", strconv.Itoa(wait))
		if failure.Code == fault.RateLimited {
			f.giveBack(header, call, wait)
		}
	}
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	for _, name := range []string{"Preference-Applied", "Weft-Ignored", "ETag", "Content-Encoding", "Content-Disposition", "Content-Range"} {
		header.Del(name) // of the answer that is not sent
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if answer != nil { // a status that was noted is not sent, and the refusal of a write is answered here
		answer.status, answer.refusal, answer.final = 0, nil, true
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone if this fails
}

// note logs what is our own fault and counts what is the caller's.
func (f *front) note(ctx context.Context, failure *fault.Error, err error) {
	switch failure.Code {
	case fault.Internal:
		f.log.ErrorContext(ctx, "a request failed", "error", err)
	case fault.Unavailable:
		if failure == errAddressMemory || failure == errWorkspaceMemory {
			f.metrics.Refused("memory")
			return
		}
		f.log.WarnContext(ctx, "a request could not be served", "error", err)
	case fault.Unauthorized:
		f.metrics.AuthFailed(failure.Reason)
	case fault.Forbidden:
		f.denied(ctx, failure)
	case fault.RateLimited:
		f.metrics.Refused(failure.Reason)
	}
}

// about is the context of r with what its path names below the workspace.
func about(r *http.Request, operation *contract.Operation) context.Context {
	if operation == nil {
		return r.Context()
	}
	name, _, _ := strings.Cut(operation.Path[strings.LastIndex(operation.Path, "{")+1:], "}")
	if id, err := uuid.Parse(r.PathValue(name)); err == nil && name != "workspaceId" {
		return audit.Target(r.Context(), id)
	}
	return r.Context()
}

// denied notes a refusal of somebody who is known to belong to a workspace.
func (f *front) denied(ctx context.Context, failure *fault.Error) {
	call := callOf(ctx)
	if id := call.workspaceID(); id != uuid.Nil && f.book != nil {
		f.book.Deny(ctx, id, call.actor(), call.operation.ID, failure.Reason)
	}
}

// public is what the caller may know of err.
func public(err error) *fault.Error {
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		return failure
	}
	if postgres.Unavailable(err) {
		return fault.New(fault.Unavailable, "%s", unavailableMessage)
	}
	return fault.New(fault.Internal, "%s", internalMessage)
}

// render makes the problem document (RFC 9457) of a failure.
func render(failure *fault.Error, requestID string) (status int, body []byte) {
	if !protocol.Known(failure.Code) {
		failure = fault.New(fault.Internal, "%s", internalMessage)
	}
	title, retryable := protocol.Words(failure.Code)
	status = protocol.Status(failure)
	problem := api.Problem{
		Type: "urn:weft:problem:" + string(failure.Code), Title: title, Status: int32(status),
		Detail: failure.Message, Instance: "urn:weft:request:" + requestID,
		Code: failure.Code, Error: failure.Code, Message: failure.Message,
		RequestID: requestID, Retryable: retryable,
	}
	if failure.Reason != "" {
		problem.Reason = &failure.Reason
	}
	for _, d := range failure.Details {
		problem.Errors = append(problem.Errors, api.ProblemDetail{Code: d.Code, Message: d.Message, Pointer: d.Pointer})
	}
	return status, append(encode(problem, failure.Extra), '\n')
}

// encode writes the problem with the further members after its own.
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

// marshal is strictjson.Encode for what this package makes itself.
func marshal(value any) []byte {
	body, err := strictjson.Encode(value)
	if err != nil {
		return []byte("{}") // members of an Extra that are not JSON
	}
	return body
}

// refuseBinding answers for what the generated code could not bind. The checks
// before it leave nothing that it could refuse, so it names no place.
func (f *front) refuseBinding(w http.ResponseWriter, r *http.Request, err error) {
	refusal := fault.New(fault.InvalidInput, "A value of the request does not have the type that the contract gives it.")
	refusal.Err = err
	f.fail(w, r, refusal)
}
