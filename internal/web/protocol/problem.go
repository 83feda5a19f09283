package protocol

import (
	"math"
	"net/http"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// problems maps each error code to its status, title and whether a retry can succeed (decisions
// 3).
var problems = map[fault.Code]struct {
	status    int
	title     string
	retryable bool // the same request can succeed later
}{
	fault.InvalidInput:         {http.StatusBadRequest, "Invalid input", false},
	fault.Unauthorized:         {http.StatusUnauthorized, "Unauthorized", false},
	fault.InsufficientCredits:  {http.StatusPaymentRequired, "Insufficient credits", false},
	fault.Forbidden:            {http.StatusForbidden, "Forbidden", false},
	fault.NotFound:             {http.StatusNotFound, "Not found", false},
	fault.MethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed", false},
	fault.NotAcceptable:        {http.StatusNotAcceptable, "Not acceptable", false},
	fault.PayloadTooLarge:      {http.StatusRequestEntityTooLarge, "Payload too large", false},
	fault.URITooLong:           {http.StatusRequestURITooLong, "URI too long", false},
	fault.UnsupportedMediaType: {http.StatusUnsupportedMediaType, "Unsupported media type", false},
	fault.NoCallback:           {http.StatusConflict, "No callback", false},
	fault.ExecutionNotFinished: {http.StatusConflict, "Execution not finished", true},
	fault.IdempotencyMismatch:  {http.StatusConflict, "Idempotency key used with another body", false},
	fault.IdempotencyInFlight:  {http.StatusConflict, "Idempotency key in flight", true},
	fault.Conflict:             {http.StatusConflict, "Conflict", false},
	fault.PreconditionFailed:   {http.StatusPreconditionFailed, "Precondition failed", false},
	fault.RateLimited:          {http.StatusTooManyRequests, "Too many requests", true},
	fault.RunFailed:            {http.StatusInternalServerError, "Run failed", false},
	fault.Internal:             {http.StatusInternalServerError, "Internal error", true},
	fault.Unavailable:          {http.StatusServiceUnavailable, "Unavailable", true},
}

// Known reports whether code is the code of an error response.
func Known(code fault.Code) bool {
	_, known := problems[code]
	return known
}

// Describe returns the title of an error code, and whether the same request can succeed later.
func Describe(code fault.Code) (title string, retryable bool) {
	return problems[code].title, problems[code].retryable
}

// Retryable reports whether the same request can succeed later and is safe to repeat.
func Retryable(failure *fault.Error) bool {
	return problems[failure.Code].retryable && failure.Reason != fault.ReasonOutcomeUnknown
}

// Docs returns the path of the documentation of a failure's reason, or of its code if it has no
// reason.
func Docs(failure *fault.Error) string {
	if failure.Reason != "" {
		return "/docs/errors#reason." + failure.Reason
	}
	return "/docs/errors#" + string(failure.Code)
}

// Status returns the HTTP status of a failure.
func Status(failure *fault.Error) int {
	switch problem, ok := problems[failure.Code]; {
	case !ok:
		return http.StatusInternalServerError
	case failure.Unprocessable:
		return http.StatusUnprocessableEntity
	case failure.Reason == ReasonHeaders:
		return http.StatusRequestHeaderFieldsTooLarge
	default:
		return problem.status
	}
}

// RetryAfter returns the seconds to wait before a retry, rounded up. It returns 0 if waiting
// doesn't help or the time is unknown. keyed says whether the request has an Idempotency-Key, which
// makes it safe to repeat a request whose outcome is unknown.
func RetryAfter(failure *fault.Error, keyed bool) int {
	if failure.Reason == fault.ReasonOutcomeUnknown && !keyed {
		return 0
	}
	wait := int(math.Ceil(failure.RetryAfter.Seconds()))
	if failure.Code == fault.RateLimited || failure.Code == fault.Unavailable {
		wait = max(wait, 1)
	}
	return wait
}
