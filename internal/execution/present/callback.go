package present

import (
	"encoding/json"
	"fmt"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// CallbackAttempt returns one entry of a callback's log of attempts (decisions 5.8).
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

// failures maps each error class to a sentence that describes it.
var failures = map[string]string{
	"dns":             "The receiver's name could not be resolved.",
	"refused":         "The receiver refused the connection.",
	"reset":           "The receiver reset the connection.",
	"unreachable":     "The receiver's network could not be reached.",
	"timeout":         "The receiver did not answer in time.",
	"tls":             "No secure connection to the receiver could be established. Check its certificate.",
	"redirect":        "The receiver answered with a redirect. Redirects are not followed.",
	"blocked_address": "The callback URL resolves to an address that is not allowed.",
	"too_large":       "The receiver's answer was too large.",
	"connection":      "The connection to the receiver failed.",
	"secrets":         "The stored secrets cannot be decrypted. Nothing was sent.",
}

// CallbackError encodes the error of an attempt. class is a class of egress or "secrets".
// httpStatus is the response status, or 0 if there was no response. CallbackError returns nil if
// class is "", because the attempt succeeded.
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
