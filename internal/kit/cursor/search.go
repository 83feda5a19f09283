package cursor

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// Created limits a list to the items that were created in a period. The zero value is all time.
type Created struct {
	After  *time.Time // inclusive; nil: no limit
	Before *time.Time // exclusive; nil: no limit
}

// Check returns INVALID_INPUT if the period is empty.
func (c Created) Check() error {
	if c.After != nil && c.Before != nil && !c.After.Before(*c.Before) {
		return fault.InvalidAt("/query/createdAfter", "must be before createdBefore")
	}
	return nil
}

// Has reports whether the time is in the period.
func (c Created) Has(at time.Time) bool {
	return (c.After == nil || !at.Before(*c.After)) && (c.Before == nil || at.Before(*c.Before))
}

// maxLead is the maximum difference between the time of an ID, which the process creates, and the
// time of creation, which the database sets. It allows for a request that waits for the database and
// for the largest WEFT_CLOCK_TOLERANCE.
const maxLead = 5 * time.Minute

// IDs returns the bounds for the IDs of items that were created in the period and that have IDs below
// before. The bounds include some items that were created shortly before or after the period.
func (c Created) IDs(before uuid.UUID) (least, below uuid.UUID) {
	below = before
	if c.After != nil {
		least = LeastID(c.After.Add(-maxLead))
	}
	if c.Before != nil {
		if most := LeastID(c.Before.Add(maxLead)); bytes.Compare(most[:], below[:]) < 0 {
			below = most
		}
	}
	return least, below
}

// LeastID returns the smallest UUIDv7 of the specified time, which is 1970 for earlier times.
func LeastID(at time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], uint64(max(at.UnixMilli(), 0))<<16)
	return id
}

// Search reads maxSearched rows at a time. After maxSearch it returns the page even if the page is
// not full.
const (
	maxSearched = 5_000
	maxSearch   = 500 * time.Millisecond
)

// Search returns the IDs of at most limit items of a list that skips rows, newest first, after the
// cursor of the previous page. It also returns the ID after which the next page starts, or uuid.Nil if
// this page is the last. readFunc returns at most maxRows rows with IDs from least on and below before,
// newest first. matchFunc returns the ID of a row, and whether the list has it. The page may have fewer
// items, or none, if nearly all rows are skipped. Search returns INVALID_INPUT for an invalid cursor and
// for an empty period.
func Search[Row any](limit int, after string, created Created, readFunc func(least, before uuid.UUID, maxRows int32) ([]Row, error), matchFunc func(Row) (uuid.UUID, bool)) (ids []uuid.UUID, more uuid.UUID, err error) {
	before, err := Before(after)
	if err == nil {
		err = created.Check()
	}
	if err != nil {
		return nil, uuid.Nil, err
	}
	least, before := created.IDs(before)
	for most, started := limit+1, time.Now(); ; most = maxSearched {
		rows, err := readFunc(least, before, int32(most))
		if err != nil {
			return nil, uuid.Nil, err
		}
		for _, row := range rows {
			id, matches := matchFunc(row)
			before = id
			if !matches {
				continue
			}
			if len(ids) == limit {
				return ids, ids[limit-1], nil
			}
			ids = append(ids, id)
		}
		if len(rows) < most {
			return ids, uuid.Nil, nil
		}
		if time.Since(started) > maxSearch {
			return ids, before, nil
		}
	}
}
