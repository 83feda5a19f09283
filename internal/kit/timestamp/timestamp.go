// Package timestamp defines the wire format of times: RFC 3339 in UTC with "Z" and exactly three
// decimals (decisions 1.3).
//
// It reads no clock and knows no records. The one invariant: MarshalJSON always writes the same
// length, so the strings sort like the times.
package timestamp

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
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

// form is that of RFC 3339, which package time reads with more freedom.
var form = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

var errForm = errors.New("a time in RFC 3339 form is needed")

// Parse reads a time as RFC 3339 defines it and nothing else: T and Z may be in lower case, and
// a leap second is the moment after it. The error does not quote the text.
func Parse(text string) (time.Time, error) {
	text = strings.ToUpper(text)
	if !form.MatchString(text) {
		return time.Time{}, errForm
	}
	leap := text[17:19] == "60"
	if leap {
		text = text[:17] + "59" + text[19:]
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, errForm
	}
	if leap {
		if utc := at.UTC(); utc.Hour() != 23 || utc.Minute() != 59 {
			return time.Time{}, errForm
		}
		at = at.Add(time.Second)
	}
	return at, nil
}
