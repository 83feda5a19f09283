// Package cursor encodes the position in a list after which the next page starts, as an opaque
// string (decisions 1.5).
//
// It rejects strings that are not cursors, and bound cursors of another list or owner.
package cursor

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// Encode returns the cursor for a position.
func Encode(place []byte) *string { return new(base64.RawURLEncoding.EncodeToString(place)) }

// Decode returns the position of a cursor, which must have size bytes. It returns INVALID_INPUT
// for an invalid cursor. It doesn't check the scope of a bound cursor.
func Decode(text string, size int) ([]byte, error) {
	_, place, err := split(text)
	if err != nil || len(place) != size {
		return nil, invalid()
	}
	return place, nil
}

// SendBound reports whether the API sends bound cursors. All releases from this one on accept them,
// but the release before this one rejects them. Set SendBound to true in the next release, so that
// both releases can serve the same list during an upgrade.
const SendBound = false

// Scope identifies the list, its filters and its owner, which a bound cursor belongs to.
type Scope []byte

const scopeSize = 8

// bound is the first byte of a bound cursor, before its scope and its position. No position starts
// with it: IDs start with their time, numbers are positive, and names are ASCII.
const bound = 0xFF

// NewScope returns the scope of a list of the owner: a workspace, or a person for the list of their
// workspaces. list names the list and its filters.
func NewScope(list string, ownerID uuid.UUID) Scope {
	sum := sha256.Sum256(append(ownerID[:], list...))
	return sum[:scopeSize]
}

// Bind returns the cursor, which Encode returned, for this scope only.
func (s Scope) Bind(text string) *string {
	place, _ := base64.RawURLEncoding.DecodeString(text)
	return Encode(slices.Concat([]byte{bound}, s, place))
}

// Check returns INVALID_INPUT if a cursor is bound to another scope. A cursor that isn't bound is
// valid in every scope, because the API still sends such cursors.
func (s Scope) Check(text string) error {
	scope, _, err := split(text)
	if err != nil || scope != nil && !bytes.Equal(scope, s) {
		return invalid()
	}
	return nil
}

// CheckBound is like Check, but returns INVALID_INPUT for a cursor that isn't bound as well.
func (s Scope) CheckBound(text string) error {
	if scope, _, err := split(text); err != nil || !bytes.Equal(scope, s) {
		return invalid()
	}
	return nil
}

// split returns the scope and the position of a cursor. The scope is nil if the cursor isn't bound.
func split(text string) (scope Scope, place []byte, err error) {
	place, err = base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, nil, invalid()
	}
	if len(place) > scopeSize && place[0] == bound {
		return place[1 : 1+scopeSize], place[1+scopeSize:], nil
	}
	return nil, place, nil
}

// DecodeName is like Decode, for a position that is the name of a module.
func DecodeName(text string) (string, error) {
	_, place, err := split(text)
	if err != nil || !moduleName.Match(place) {
		return "", invalid()
	}
	return string(place), nil
}

var moduleName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

func invalid() error {
	return fault.Invalid("/query/cursor", "The cursor is not valid for this list and these filters. Use the nextCursor of its last page, or leave it out.")
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
