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

// Encode returns the cursor for a position.
func Encode(place []byte) *string { return new(base64.RawURLEncoding.EncodeToString(place)) }

// Decode returns the position of a cursor, which must have size bytes. It returns INVALID_INPUT
// for an invalid cursor.
func Decode(text string, size int) ([]byte, error) {
	place, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(place) != size {
		return nil, invalid()
	}
	return place, nil
}

// DecodeName is like Decode, for a position that is the name of a module.
func DecodeName(text string) (string, error) {
	place, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !moduleName.Match(place) {
		return "", invalid()
	}
	return string(place), nil
}

var moduleName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

func invalid() error {
	return fault.Invalid("/query/cursor", "The cursor is not valid for this list. Use the nextCursor of its last page, or leave it out.")
}

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
