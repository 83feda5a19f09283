package run

import (
	"encoding/json"
	"time"
)

// DeadlineMs returns the deadlineMs of a schedule or a hook after a request. It keeps the earlier one if the
// request has none, and removes it for null.
func DeadlineMs(given json.RawMessage, kept *int64) (changed *int64) {
	if given == nil {
		return kept
	}
	var milliseconds *float64 // 1e3 is a whole number too
	if json.Unmarshal(given, &milliseconds) != nil || milliseconds == nil {
		return nil
	}
	return new(int64(*milliseconds))
}

// Deadline returns the TriggerParams.Deadline for a stored deadlineMs; nil: none.
func Deadline(milliseconds *int64) time.Duration {
	if milliseconds == nil {
		return 0
	}
	return time.Duration(*milliseconds) * time.Millisecond
}
