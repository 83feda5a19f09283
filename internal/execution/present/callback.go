package present

import (
	"encoding/json"
	"fmt"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// CallbackAttempt is one entry of a callback's log of attempts (decisions 5.8).
func CallbackAttempt(row db.CallbackAttempt) api.CallbackAttempt {
	a := api.CallbackAttempt{
		Attempt: row.Attempt, StartedAt: timestamp.Of(row.StartedAt), DurationMs: row.DurationMs,
		Error: row.Error, Delivered: row.Delivered,
	}
	if row.HTTPStatus != nil {
		a.HTTPStatus = new(int32(*row.HTTPStatus))
	}
	return a
}

// failures says for people what each class of failure means.
var failures = map[string]string{
	"dns":             "The receiver's name could not be resolved.",
	"refused":         "The receiver refused the connection.",
	"reset":           "The receiver broke off the connection.",
	"unreachable":     "The receiver's network could not be reached.",
	"timeout":         "The receiver did not answer in time.",
	"tls":             "No secure connection to the receiver could be made: check its certificate.",
	"redirect":        "The receiver answered with a redirect, which is not followed.",
	"blocked_address": "The callback URL leads to an address that is not allowed.",
	"too_large":       "The receiver's answer was too large.",
	"connection":      "The exchange with the receiver failed.",
	"secrets":         "The stored secrets cannot be opened: nothing was sent.",
}

// CallbackError encodes the error of an attempt by its class (of
// egress.Classes, or "secrets") and the status answered, 0 for none. A delivery
// ("") has none: nil.
func CallbackError(class string, httpStatus int) (json.RawMessage, error) {
	if class == "" {
		return nil, nil
	}
	e := api.CallbackError{Class: class, Message: failures[class]}
	if e.Message == "" {
		e.Message = fmt.Sprintf("The receiver answered %d.", httpStatus)
	}
	if httpStatus != 0 {
		e.HTTPStatus = new(int32(httpStatus))
	}
	encoded, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode callback error: %w", err)
	}
	return encoded, nil
}
