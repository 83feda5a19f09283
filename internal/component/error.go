package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// Codes of a failed execution (decisions 3). A module may add its own codes.
const (
	CodeInvalidInput   = "INVALID_INPUT"
	CodeTimeout        = "TIMEOUT"
	CodeCanceled       = "CANCELED"
	CodeDeadline       = "DEADLINE_EXCEEDED" // the deadlineMs of the execution or the run is over
	CodeUpstream       = "UPSTREAM_ERROR"
	CodeUnreadable     = "UPSTREAM_UNREADABLE"    // an answer started that can't be read, so an unsafe call isn't repeated
	CodeAddressBlocked = "ADDRESS_BLOCKED"        // the egress guard rejected the target
	CodeCredential     = "CREDENTIAL_UNAVAILABLE" // a variable that is an access token has none
	CodeOutputTooLarge = "OUTPUT_TOO_LARGE"
	CodeInternal       = "INTERNAL_ERROR"
)

// OutcomeUnknown is the outcome of an interrupted call that may have taken effect.
const OutcomeUnknown = "unknown"

// MaxMessage is the maximum size of an error message and of each string in error details, in bytes.
const MaxMessage = 1 << 10

// maxDetails is the maximum size of error details, in bytes. Larger details are dropped.
const maxDetails = 16 << 10

// Error is the error of a failed call, the execution's `error`. Message and Details are for the
// caller; Err is only logged.
type Error struct {
	Code      string
	Message   string
	Retryable bool            // another attempt may succeed
	Outcome   string          // OutcomeUnknown, or empty
	Details   json.RawMessage // a JSON object, or nil
	Err       error

	// RetryAfter is the minimum delay before the next attempt that the upstream requested, or 0.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// Permanent returns an error that isn't retryable.
func Permanent(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Temporary returns a retryable error.
func Temporary(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: true}
}

// CutOff returns the error for an attempt that may have taken effect. The outcome of the attempt is
// unknown unless the repeat rule is pure.
func (e *Error) CutOff(rule Repeat) *Error {
	if rule == RepeatPure {
		return e
	}
	cut := *e
	cut.Outcome = OutcomeUnknown
	return &cut
}

// Sent returns how far the request of a failed call got, as its details say: no, unknown or answered; ""
// if the details don't say it.
func (e *Error) Sent() string {
	var details struct{ Sent string }
	if json.Unmarshal(e.Details, &details) != nil {
		return ""
	}
	return details.Sent
}

// Status returns the status of an upstream's answer in the details, or 0.
func (e *Error) Status() int {
	var details struct{ Class, UpstreamCode json.RawMessage }
	var status int
	if json.Unmarshal(e.Details, &details) != nil || string(details.Class) != `"status"` || json.Unmarshal(details.UpstreamCode, &status) != nil {
		return 0
	}
	return status
}

// With sets the details to a value that encodes as a JSON object.
func (e *Error) With(details any) *Error {
	if data, err := json.Marshal(details); err == nil {
		e.Details = data
	}
	return e
}

// Cut sanitizes text from an untrusted source: valid UTF-8 without control characters, at most
// limit bytes.
func Cut(text string, limit int) string {
	text = text[:min(len(text), 4*limit)]
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	return wholeRunes(text, limit)
}

// wholeRunes truncates a string to at most limit bytes, at a character boundary.
func wholeRunes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// failure converts the error of a module to the *Error for the caller and redacts the secrets of
// the call.
func failure(ctx context.Context, err error, redact *Redactor) *Error {
	out := classify(ctx, err)
	out.Message = Cut(redact.Text(out.Message), MaxMessage)
	out.Details = redact.details(out.Details)
	if out.Err != nil {
		out.Err = &redactedError{text: redact.Text(out.Err.Error()), cause: out.Err}
	}
	return out
}

func classify(ctx context.Context, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return new(*e)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == fault.InvalidInput {
		return &Error{Code: CodeInvalidInput, Message: f.Message, Err: err}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeTimeout, Message: "the component did not finish in time", Retryable: true, Err: err}
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return &Error{Code: CodeCanceled, Message: "the component was stopped before it finished", Retryable: true, Err: err}
	}
	return &Error{Code: CodeInternal, Message: "the component failed unexpectedly", Retryable: true, Err: err}
}

// redactedError has a redacted message and supports errors.Is. It doesn't unwrap, because the
// message of the cause contains secrets.
type redactedError struct {
	text  string
	cause error
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return errors.Is(e.cause, target) }
