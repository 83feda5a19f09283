// Package fault defines the error type for failures that callers of the API can act on.
//
// A package returns a *fault.Error only if the API's caller should act on the failure. Any other
// error is a plain wrapped error, which the server renders as INTERNAL_ERROR without detail. The
// package doesn't depend on HTTP: the table from code to status is in internal/web/protocol.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code is a stable, machine-readable name of a failure (decisions 3). The list is the same as the
// enum ErrorCode of openapi.yaml, which a test verifies.
type Code string

// The codes of error responses.
const (
	InvalidInput         Code = "INVALID_INPUT"
	Unauthorized         Code = "UNAUTHORIZED"
	InsufficientCredits  Code = "INSUFFICIENT_CREDITS"
	Forbidden            Code = "FORBIDDEN"
	NotFound             Code = "NOT_FOUND"
	MethodNotAllowed     Code = "METHOD_NOT_ALLOWED"
	NotAcceptable        Code = "NOT_ACCEPTABLE"
	PayloadTooLarge      Code = "PAYLOAD_TOO_LARGE"
	URITooLong           Code = "URI_TOO_LONG"
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	NoCallback           Code = "NO_CALLBACK"
	ExecutionNotFinished Code = "EXECUTION_NOT_FINISHED"
	IdempotencyMismatch  Code = "IDEMPOTENCY_MISMATCH"
	IdempotencyInFlight  Code = "IDEMPOTENCY_IN_FLIGHT"
	Conflict             Code = "CONFLICT"
	PreconditionFailed   Code = "PRECONDITION_FAILED"
	RateLimited          Code = "RATE_LIMITED"
	RunFailed            Code = "RUN_FAILED"
	Internal             Code = "INTERNAL_ERROR"
	Unavailable          Code = "UNAVAILABLE"
)

// Codes returns all codes in the order of decisions 3.
func Codes() []Code {
	return []Code{
		InvalidInput, Unauthorized, InsufficientCredits, Forbidden, NotFound, MethodNotAllowed,
		NotAcceptable, PayloadTooLarge, URITooLong, UnsupportedMediaType, NoCallback,
		ExecutionNotFinished, IdempotencyMismatch, IdempotencyInFlight, Conflict,
		PreconditionFailed, RateLimited, RunFailed, Internal, Unavailable,
	}
}

// ReasonOutcomeUnknown is the reason of an UNAVAILABLE for a write that may have been committed. Such
// an error is not retryable, because a repeat without an Idempotency-Key could write twice.
const ReasonOutcomeUnknown = "outcome_unknown"

// OutcomeUnknown returns the error of a write that may have been committed. extra has the ID of what
// it may have created, for the response; it may be nil.
func OutcomeUnknown(err error, extra map[string]any) *Error {
	return &Error{
		Code: Unavailable, Reason: ReasonOutcomeUnknown, Extra: extra, Err: err,
		Message: "The database connection broke during the commit, so it is unknown whether the request took effect. " +
			"Check before you send it again, or repeat it with the same Idempotency-Key if it had one.",
	}
}

// Detail is one of several faults: the JSON pointer (RFC 6901) of a value, and the reason why the
// value is invalid. It never contains the value.
type Detail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Pointer string `json:"pointer"`
}

// Error is a failure that a caller can act on.
type Error struct {
	Code    Code
	Message string // for the caller: the cause, and how to fix it
	Reason  string // a finer machine-readable cause, lower_snake; may be empty

	// Unprocessable marks an INVALID_INPUT error about a value that violates a module's own
	// schema rather than the schema of the request (422 instead of 400, decisions 3).
	Unprocessable bool

	RetryAfter time.Duration     // how long to wait before the same call can succeed; 0 means unknown
	Details    []Detail          // all faults that were found
	Extra      map[string]any    // further fields of the response
	Header     map[string]string // further headers of the response
	Err        error             // the cause, only for the log
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// New returns an error with a message for the caller.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns an INVALID_INPUT error about one value of the request, given by its JSON pointer.
func Invalid(pointer, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	return &Error{
		Code:    InvalidInput,
		Message: message,
		Details: []Detail{{Code: string(InvalidInput), Message: message, Pointer: pointer}},
	}
}

// InvalidAt is Invalid for a message without a subject: "must be ...". The message of the error
// starts with the pointer, for clients that don't show the details.
func InvalidAt(pointer, format string, args ...any) *Error {
	failure := Invalid(pointer, format, args...)
	failure.Message = pointer + ": " + failure.Message
	return failure
}

// MaxDetails is the maximum number of faults in an error. Code that collects faults may stop after
// MaxDetails+1 faults. In that case the message says that there are more faults, but not how many.
const MaxDetails = 100

// Unprocessable returns an INVALID_INPUT error (422) with all faults of a value, or nil if the list
// is empty.
func Unprocessable(details []Detail) error {
	all := Malformed(details)
	if all == nil {
		return nil
	}
	all.Unprocessable = true
	return all
}

// Malformed is Unprocessable for faults in the form of a request (400).
func Malformed(details []Detail) *Error {
	if len(details) == 0 {
		return nil
	}
	message := AndMore(strings.TrimPrefix(details[0].Pointer+": ", ": ")+details[0].Message, len(details))
	return &Error{Code: InvalidInput, Message: message, Details: details[:min(len(details), MaxDetails)]}
}

// Beyond appends to the faults those of more that are not at or below the pointer of one of them. Such
// faults are consequences: a value that is missing is also unknown.
func Beyond(faults, more []Detail) []Detail {
	all := slices.Clip(faults)
	for _, one := range more {
		if !slices.ContainsFunc(faults, func(known Detail) bool {
			return one.Pointer == known.Pointer || strings.HasPrefix(one.Pointer, known.Pointer+"/")
		}) {
			all = append(all, one)
		}
	}
	return all
}

// AndMore appends the number of further faults to the message of the first one.
func AndMore(message string, faults int) string {
	switch {
	case faults > MaxDetails:
		return fmt.Sprintf("%s (and more: errors has the first %d)", message, MaxDetails)
	case faults > 1:
		return fmt.Sprintf("%s (and %d more, see errors)", message, faults-1)
	}
	return message
}

// CodeOf returns the code of the *Error in the chain of err, or INTERNAL_ERROR if the chain has
// no *Error.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// Count formats a number with its unit: 1 character, 2 characters.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
