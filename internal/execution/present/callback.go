package present

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// CallbackRow is what a record shows of a callback. Before the first attempt, it has only the URL, Signed
// and HeaderNames.
type CallbackRow struct {
	URL           string
	Signed        bool
	HeaderNames   []string
	AttemptCount  int32
	LastAttemptAt *time.Time
	DeliveredAt   *time.Time
	LastError     json.RawMessage
}

// Callback returns the callback object of a record (contract 2.2).
func Callback(row CallbackRow) api.ComponentExecutionCallback {
	c := api.ComponentExecutionCallback{
		URL: &row.URL, Signed: row.Signed, HeaderNames: row.HeaderNames, AttemptCount: row.AttemptCount,
		LastAttemptAt: timestamp.OfPointer(row.LastAttemptAt), DeliveredAt: timestamp.OfPointer(row.DeliveredAt), LastError: row.LastError,
	}
	if c.HeaderNames == nil {
		c.HeaderNames = []string{}
	}
	if row.Signed {
		c.SignatureAlgorithm = new(api.SignatureAlgorithmHmacSha256V1)
	}
	return c
}

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

// CallbackFailure is why an attempt failed.
type CallbackFailure struct {
	Class  string // a class of egress, or "secrets"; "" if the attempt succeeded
	Reason string // a reason of egress, or ""
	Words  string // what the reason means, with the receiver as the subject
	Sent   string // how far the request got, as in egress
	Status int    // of the response, or 0 if there was no response
}

// CallbackError encodes the error of an attempt. It returns nil if the attempt succeeded.
func CallbackError(f CallbackFailure) (json.RawMessage, error) {
	if f.Class == "" {
		return nil, nil
	}
	e := api.CallbackError{Class: f.Class, Message: failures[f.Class], Sent: new(f.Sent)}
	if e.Message == "" {
		e.Message = fmt.Sprintf("The receiver answered %d.", f.Status)
	}
	if f.Reason != "" {
		e.Reason, e.Message = new(f.Reason), "The receiver "+f.Words+"."
	}
	if f.Status != 0 {
		e.HTTPStatus = new(int32(f.Status))
	}
	encoded, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode callback error: %w", err)
	}
	return encoded, nil
}
