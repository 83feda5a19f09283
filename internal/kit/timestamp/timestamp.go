// Package timestamp defines the wire format of times: RFC 3339 in UTC with "Z" and exactly three
// decimals (decisions 1.3).
//
// MarshalJSON always writes the same number of characters, so sorting the strings sorts the
// times.
package timestamp

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Layout is the wire format of a time, for time.Time.Format of a time in UTC.
const Layout = "2006-01-02T15:04:05.000Z"

// Time is a time in records, events and problem responses.
type Time time.Time

// Of converts t to a Time.
func Of(t time.Time) Time { return Time(t) }

// OfPointer converts *t to a Time. It returns nil for nil.
func OfPointer(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	return new(Time(*t))
}

// Std converts t to a time.Time.
func (t Time) Std() time.Time { return time.Time(t) }

// String returns t in the wire format. It truncates to milliseconds instead of rounding, so a
// time never moves into the future.
func (t Time) String() string { return time.Time(t).UTC().Format(Layout) }

// MarshalJSON encodes t as a JSON string. It returns an error for a year with more than four
// digits, which RFC 3339 can't represent.
func (t Time) MarshalJSON() ([]byte, error) {
	if year := time.Time(t).UTC().Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("year %d has no RFC 3339 form", year)
	}
	data := make([]byte, 0, len(Layout)+2)
	data = append(data, '"')
	data = time.Time(t).UTC().AppendFormat(data, Layout)
	return append(data, '"'), nil
}

// UnmarshalJSON decodes any RFC 3339 time.
func (t *Time) UnmarshalJSON(data []byte) error {
	parsed, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(data))
	if err != nil {
		return fmt.Errorf("read RFC 3339 time: %w", err)
	}
	*t = Time(parsed.UTC())
	return nil
}

// form matches RFC 3339 times. Package time also accepts others.
var form = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

var errForm = errors.New("must be a time in RFC 3339 form, such as 2026-11-21T10:15:30Z")

// Parse parses a time exactly as RFC 3339 defines it: T and Z may be in lower case. A leap
// second becomes the following second. The error doesn't quote the input.
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
