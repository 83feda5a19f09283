// Package cursor encodes the position in a list after which the next page starts, as an opaque
// string (decisions 1.5).
//
// It rejects strings that are not cursors.
package cursor

import (
	"encoding/base64"
	"fmt"
	"regexp"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// sizes has the number of bytes of a position in each list, by the operation that returns the
// list. The position in the list of components is a name.
var sizes = map[string]int{
	"listApiKeys": 16, "listAuditEvents": 16, "listCallbackAttempts": 4, "listComponentExecutions": 16, "listComponents": ModuleName,
	"listEnvironmentVariables": 16, "listHooks": 16, "listInvitations": 16, "listLedger": 16, "listMembers": 24, "listRunEvents": 8,
	"listRunStages": 16, "listSchedules": 16, "listWorkflowRuns": 16, "listWorkflows": 16, "listWorkspaceEnvironmentVariables": 16,
	"listWorkspaces": 16,
}

// Check returns INVALID_INPUT if text is not a cursor of the list that the operation returns.
func Check(operation, text string) error {
	_, err := Decode(text, sizes[operation])
	return err
}

// ModuleName is the size of positions that are names of modules.
const ModuleName = -1

// Encode returns the cursor for a position.
func Encode(place []byte) *string { return new(base64.RawURLEncoding.EncodeToString(place)) }

// Decode returns the position of a cursor, which must have size bytes. It returns INVALID_INPUT
// for an invalid cursor.
func Decode(text string, size int) ([]byte, error) {
	place, err := base64.RawURLEncoding.DecodeString(text)
	valid := len(place) == size
	if size == ModuleName {
		valid = moduleName.Match(place)
	}
	if err != nil || !valid {
		return nil, fault.Invalid("/query/cursor", "The cursor is not valid for this list. Use the nextCursor of its last page, or leave it out.")
	}
	return place, nil
}

var moduleName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// Before returns the upper bound for the IDs of a page with the newest first: the ID in the
// cursor, or the greatest ID for the first page.
func Before(text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.Max, nil
	}
	place, err := Decode(text, len(uuid.Max))
	if err != nil {
		return uuid.Nil, err
	}
	return uuid.UUID(place), nil
}

// Page returns at most limit items of a list, newest first, after the cursor of the previous page. It
// also reports whether there are more, and the cursor of the next page. readFunc returns at most
// maxRows rows whose IDs are below before, and itemFunc the ID and the item of a row. Page returns
// INVALID_INPUT for an invalid cursor.
func Page[Row, Item any](what string, limit int, after string, readFunc func(before uuid.UUID, maxRows int32) ([]Row, error), itemFunc func(Row) (uuid.UUID, Item, error)) (items []Item, more bool, next *string, err error) {
	items = []Item{}
	before, err := Before(after)
	if err != nil {
		return items, false, nil, err
	}
	rows, err := readFunc(before, int32(limit)+1)
	if err != nil {
		return items, false, nil, fmt.Errorf("list %s: %w", what, err)
	}
	for i, row := range rows {
		if i == limit {
			return items, true, Encode(before[:]), nil
		}
		var item Item
		if before, item, err = itemFunc(row); err != nil {
			return items, false, nil, err
		}
		items = append(items, item)
	}
	return items, false, nil, nil
}
