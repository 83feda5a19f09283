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

// Codes of a failed execution (decisions 3). A module may add its own.
const (
	CodeInvalidInput   = "INVALID_INPUT"
	CodeTimeout        = "TIMEOUT"
	CodeCanceled       = "CANCELED"
	CodeUpstream       = "UPSTREAM_ERROR"
	CodeAddressBlocked = "ADDRESS_BLOCKED" // the egress guard refused the target
	CodeOutputTooLarge = "OUTPUT_TOO_LARGE"
	CodeInternal       = "INTERNAL_ERROR"
)

// OutcomeUnknown is the outcome of a call that was cut off and may have taken effect.
const OutcomeUnknown = "unknown"

// MaxMessage is how many bytes the message of an error has at most, and each text in its
// details.
const MaxMessage = 1 << 10

// maxDetails is how many bytes the details of an error have; larger ones are left out.
const maxDetails = 16 << 10

// Error is why a call failed: the execution's `error`. Message and Details are
// for the caller; Err is for the log only.
type Error struct {
	Code      string
	Message   string
	Retryable bool            // another attempt may succeed
	Outcome   string          // OutcomeUnknown, or empty
	Details   json.RawMessage // a JSON object, or nil
	Err       error

	// RetryAfter is how long the upstream asks to wait before the next attempt; 0: it does not.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// Permanent makes an error that another attempt would meet again.
func Permanent(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Temporary makes an error that another attempt may not meet.
func Temporary(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: true}
}

// CutOff is the error for an attempt that was cut off: its outcome is unknown, unless calls
// with this repeat rule change nothing outside.
func (e *Error) CutOff(rule Repeat) *Error {
	if rule == RepeatPure {
		return e
	}
	cut := *e
	cut.Outcome = OutcomeUnknown
	return &cut
}

// With adds details, any value that marshals to a JSON object.
func (e *Error) With(details any) *Error {
	if data, err := json.Marshal(details); err == nil {
		e.Details = data
	}
	return e
}

// Cut makes text of an untrusted source fit to be shown and stored: valid
// UTF-8 without control characters, at most limit bytes.
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

// wholeRunes is the beginning of a text, at most limit bytes, that ends where a character does.
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

// failure turns whatever a module returned into the *Error that the caller
// sees, with the secrets of the call removed from every text.
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

// redactedError prints without secrets and still answers errors.Is; it does
// not unwrap, because the cause prints them.
type redactedError struct {
	text  string
	cause error
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return errors.Is(e.cause, target) }
