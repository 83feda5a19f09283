// Package present converts database rows to the records of the API, so that the form of a record
// is defined in one package.
//
// The package does not query the database and does not depend on HTTP. Invariant: every field of
// the contract is present. A missing value is null, and an empty list is [].
package present

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// Execution returns the record of an execution (contract 2.1).
func Execution(row db.ExecutionGetRow) api.ComponentExecution {
	e := api.ComponentExecution{
		ID:           row.ID,
		Module:       row.Module,
		Status:       row.Status,
		Completed:    row.Status.Completed(),
		Output:       row.Output,
		Error:        row.Error,
		TotalUsage:   row.Usage,
		Callback:     executionCallback(row),
		AttemptCount: new(int32(row.Attempt)),
		CreatedAt:    timestamp.Of(row.CreatedAt),
		UpdatedAt:    timestamp.Of(row.UpdatedAt),
	}
	if row.Attempt > 0 && !row.Continuing { // otherwise an attempt waits, and has started
		e.NextAttemptAt = timestamp.OfPointer(row.NotBefore)
	}
	return e
}

// executionCallback returns the callback object (contract 2.2). If the execution has no callback,
// the object is present and its fields are empty.
func executionCallback(row db.ExecutionGetRow) api.ComponentExecutionCallback {
	if row.CallbackURL == nil {
		return api.ComponentExecutionCallback{HeaderNames: []string{}}
	}
	c := CallbackRow{
		URL: *row.CallbackURL, Signed: row.CallbackSigned != nil && *row.CallbackSigned, HeaderNames: row.CallbackHeaderNames,
		LastAttemptAt: row.CallbackLastAttemptAt, DeliveredAt: row.CallbackDeliveredAt, LastError: row.CallbackLastError,
	}
	if row.CallbackAttemptCount != nil {
		c.AttemptCount = *row.CallbackAttemptCount
	}
	return Callback(c)
}

// ExecutionEvent returns an event of an execution's stream (decisions 4.5).
func ExecutionEvent(row db.ExecutionGetRow) api.ComponentExecutionEvent {
	return api.ComponentExecutionEvent{
		ID: row.ID, Module: row.Module, Status: row.Status, Output: row.Output, Error: row.Error,
		TotalUsage: row.Usage, Timestamp: timestamp.Of(row.UpdatedAt),
	}
}

// ExecutionError encodes the `error` field of a failed execution (decisions 3). It removes the
// character U+0000 from the code and message, and drops details that contain it: PostgreSQL
// stores such JSON but cannot read its fields.
func ExecutionError(why api.ExecutionError) (json.RawMessage, error) {
	if bytes.Contains(why.Details, []byte(`\u0000`)) && strictjson.Check(why.Details) != nil {
		why.Details = nil
	}
	why.Code, why.Message = strings.ReplaceAll(why.Code, "\x00", ""), strings.ReplaceAll(why.Message, "\x00", "")
	encoded, err := strictjson.Encode(why)
	if err != nil {
		return nil, fmt.Errorf("encode execution error: %w", err)
	}
	return encoded, nil
}
