// Package timestamp owns the form of times on the wire: RFC 3339 in UTC with
// "Z" and exactly three decimals (decisions 1.3).
//
// It reads no clock and knows nothing of records. The one invariant: what
// MarshalJSON writes has always the same length, so texts order as times do.
package timestamp

import (
	"fmt"
	"time"
)

// Layout is the form of a time on the wire, for time.Time.Format of a time in
// UTC.
const Layout = "2006-01-02T15:04:05.000Z"

// Time is a time as it stands in records, events and problem answers.
type Time time.Time

// Of is t for the wire.
func Of(t time.Time) Time { return Time(t) }

// OfPointer is *t for the wire, or nil.
func OfPointer(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	return new(Time(*t))
}

// Std is t as the standard library's type.
func (t Time) Std() time.Time { return time.Time(t) }

// String is t in the form of the wire. What is finer than a millisecond is cut
// off, never rounded, so a time is not moved into the future.
func (t Time) String() string { return time.Time(t).UTC().Format(Layout) }

// MarshalJSON writes t as a JSON string. A year beyond four digits is an error
// because RFC 3339 has no form for it.
func (t Time) MarshalJSON() ([]byte, error) {
	if year := time.Time(t).UTC().Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("year %d has no RFC 3339 form", year)
	}
	data := make([]byte, 0, len(Layout)+2)
	data = append(data, '"')
	data = time.Time(t).UTC().AppendFormat(data, Layout)
	return append(data, '"'), nil
}

// UnmarshalJSON reads any RFC 3339 time.
func (t *Time) UnmarshalJSON(data []byte) error {
	parsed, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(data))
	if err != nil {
		return fmt.Errorf("read RFC 3339 time: %w", err)
	}
	*t = Time(parsed.UTC())
	return nil
}
