package gate

import (
	"math"
	"net/http"

	"github.com/weft-automation/weft/internal/fault"
)

// statuses is the one table from code to status (decisions 3).
var statuses = map[fault.Code]int{
	fault.InvalidInput:         http.StatusBadRequest,
	fault.Unauthorized:         http.StatusUnauthorized,
	fault.InsufficientCredits:  http.StatusPaymentRequired,
	fault.Forbidden:            http.StatusForbidden,
	fault.NotFound:             http.StatusNotFound,
	fault.MethodNotAllowed:     http.StatusMethodNotAllowed,
	fault.NotAcceptable:        http.StatusNotAcceptable,
	fault.PayloadTooLarge:      http.StatusRequestEntityTooLarge,
	fault.URITooLong:           http.StatusRequestURITooLong,
	fault.UnsupportedMediaType: http.StatusUnsupportedMediaType,
	fault.NoCallback:           http.StatusConflict,
	fault.ExecutionNotFinished: http.StatusConflict,
	fault.IdempotencyMismatch:  http.StatusConflict,
	fault.IdempotencyInFlight:  http.StatusConflict,
	fault.Conflict:             http.StatusConflict,
	fault.PreconditionFailed:   http.StatusPreconditionFailed,
	fault.RateLimited:          http.StatusTooManyRequests,
	fault.Internal:             http.StatusInternalServerError,
	fault.Unavailable:          http.StatusServiceUnavailable,
}

// Status is the status of the answer to a failure.
func Status(failure *fault.Error) int {
	switch status, ok := statuses[failure.Code]; {
	case !ok:
		return http.StatusInternalServerError
	case failure.Unprocessable:
		return http.StatusUnprocessableEntity
	case failure.Reason == ReasonHeaders:
		return http.StatusRequestHeaderFieldsTooLarge
	default:
		return status
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
