// Package cursor encodes the position in a list after which the next page starts, as an opaque
// string (decisions 1.5).
//
// It knows no particular list. The one invariant: a string that no page returned is rejected,
// never guessed at.
package cursor

import (
	"encoding/base64"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// Encode is the cursor of a place.
func Encode(place []byte) *string { return new(base64.RawURLEncoding.EncodeToString(place)) }

// Decode is the place of a cursor, which has size bytes. INVALID_INPUT for a
// cursor that Encode did not make of such a place.
func Decode(text string, size int) ([]byte, error) {
	place, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(place) != size {
		return nil, fault.Invalid("/query/cursor", "The cursor is not one that a page of this list gave out.")
	}
	return place, nil
}

// Before is the id at which a page that runs from the newest down begins, itself
// left out: that of the cursor, or the greatest of all for the first page.
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
