// Package cursor encodes the position in a list after which the next page starts, as an opaque
// string (decisions 1.5).
//
// It rejects strings that are not cursors.
package cursor

import (
	"encoding/base64"

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
		return nil, fault.Invalid("/query/cursor", "The cursor is not valid for this list. Use the nextCursor of its last page, or leave it out.")
	}
	return place, nil
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
