package protocol

import (
	"math"
	"net/http"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// answers is the one table from code to status and what stands beside it (decisions 3).
var answers = map[fault.Code]struct {
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
	fault.Internal:             {http.StatusInternalServerError, "Internal error", true},
	fault.Unavailable:          {http.StatusServiceUnavailable, "Unavailable", true},
}

// Known says whether a code is one of error answers.
func Known(code fault.Code) bool {
	_, known := answers[code]
	return known
}

// Words is what the answer to a failure with this code says beside its status: the title,
// and whether the same request can succeed later.
func Words(code fault.Code) (title string, retryable bool) {
	return answers[code].title, answers[code].retryable
}

// Status is the status of the answer to a failure.
func Status(failure *fault.Error) int {
	switch answer, ok := answers[failure.Code]; {
	case !ok:
		return http.StatusInternalServerError
	case failure.Unprocessable:
		return http.StatusUnprocessableEntity
	case failure.Reason == ReasonHeaders:
		return http.StatusRequestHeaderFieldsTooLarge
	default:
		return answer.status
	}
}

// RetryAfter is the whole seconds to wait, never too few; 0 where waiting does not
// help or nobody knows.
func RetryAfter(failure *fault.Error) int {
	wait := int(math.Ceil(failure.RetryAfter.Seconds()))
	if failure.Code == fault.RateLimited || failure.Code == fault.Unavailable {
		wait = max(wait, 1)
	}
	return wait
}
