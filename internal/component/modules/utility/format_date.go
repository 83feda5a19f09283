package utility

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/calendar"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

const defaultDateFormat = "%FT%T%:z"

type formatDate struct{}

func (formatDate) Describe() component.Descriptor {
	return component.Computation{
		Module:      "FORMAT_DATE",
		Title:       "Format date",
		Description: "Formats a timestamp in any time zone. Accepts RFC 3339 and Unix time in seconds or milliseconds, and also returns the time as Unix time. The format uses strftime conversions (as in C, Python and Ruby). Names of days and months are in English.",
		Category:    category,
		Input: `"description": "The timestamp and the format.", "required": ["timestamp"], "properties": {
			"timestamp": {"type": ["string", "integer"], "format": "timestamp", "maxLength": 64, "minimum": -62167219200000, "maximum": 253402300799999, "title": "Timestamp", "description": "The time: RFC 3339 such as 2026-12-24T18:00:00Z, or Unix time as a number or a decimal string, in the given unit. A leap second (23:59:60 UTC) counts as the second after it.", "examples": ["2026-12-24T18:00:00Z", 1798135200, "1798135200"]},
			"unit": {"type": "string", "title": "Unit", "description": "The unit of a Unix time. Ignored for RFC 3339.", "enum": ["seconds", "milliseconds"], "default": "seconds", "examples": ["seconds"]},
			"timeZone": {"type": "string", "format": "time-zone", "maxLength": 64, "title": "Time zone", "description": "The IANA name of the time zone of the result.", "default": "UTC", "examples": ["Europe/Berlin"]},
			"format": {"type": "string", "format": "date-format", "maxLength": 256, "title": "Format", "description": "A string with strftime conversions. Date: %Y year (4 digits), %y (2 digits), %m month (01 to 12), %B (January), %b (Jan), %d day (01 to 31), %e (padded with a space), %j day of the year (001 to 366), %A (Monday), %a (Mon), %u day of the week (1 is Monday, 7 is Sunday), %w (0 is Sunday, 6 is Saturday), %G and %V year and week of ISO 8601, %F is %Y-%m-%d. Time: %H hour (00 to 23), %I (01 to 12), %p AM or PM, %M minute, %S second, %L milliseconds (3 digits), %T is %H:%M:%S, %R is %H:%M. Zone: %z is +0100, %:z is +01:00, %Z is the abbreviation. %s is the Unix time in seconds, %% a percent sign. All other characters are copied.", "default": "%FT%T%:z", "examples": ["%d.%m.%Y %H:%M"]}
		}, "examples": [{"timestamp": "2026-12-24T18:00:00Z", "timeZone": "Europe/Berlin", "format": "%A, %e %B %Y, %H:%M %Z"}, {"timestamp": 1798135200}]`,
		Output: `"description": "The formatted time.", "required": ["formatted", "unixSeconds", "unixMilliseconds"], "properties": {
			"formatted": {"type": "string", "title": "Formatted", "description": "The time in the time zone, in the given format.", "examples": ["24.12.2026 19:00"]},
			"unixSeconds": {"type": "integer", "title": "Unix seconds", "description": "Whole seconds since 1970-01-01T00:00:00Z, rounded down.", "examples": [1798135200]},
			"unixMilliseconds": {"type": "integer", "title": "Unix milliseconds", "description": "Whole milliseconds since 1970-01-01T00:00:00Z, rounded down.", "examples": [1798135200000]}
		}`,
	}.Descriptor()
}

// Formats returns the string formats of the schema.
func (formatDate) Formats() map[string]func(string) error {
	return map[string]func(string) error{
		"timestamp":   func(text string) error { _, err := parseTimestamp(text, time.Millisecond); return err },
		"time-zone":   func(text string) error { _, err := calendar.Zone(text); return err },
		"date-format": func(text string) error { _, err := formatTime(text, time.Unix(0, 0)); return err },
	}
}

func (formatDate) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Timestamp        json.RawMessage
		Unit             string
		TimeZone, Format *string
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	unit := time.Second
	if input.Unit == "milliseconds" {
		unit = time.Millisecond
	}
	at, err := readTimestamp(input.Timestamp, unit)
	if err != nil {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "timestamp: %s", err)
	}
	zone := time.UTC
	if input.TimeZone != nil {
		if zone, err = calendar.Zone(*input.TimeZone); err != nil {
			return component.Result{}, component.Permanent(component.CodeInvalidInput, "timeZone: %s", err)
		}
	}
	at = at.In(zone)
	switch {
	case calendar.FourDigits(at):
	case !calendar.FourDigits(at.UTC()):
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "timestamp: %s", errYear)
	default:
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "timeZone: in this time zone the time is in the year %d; expected a time in the years 0 to 9999", at.Year())
	}
	format := defaultDateFormat
	if input.Format != nil {
		format = *input.Format
	}
	formatted, err := formatTime(format, at)
	if err != nil {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "format: %s", err)
	}
	return component.Encode(map[string]any{"formatted": formatted, "unixSeconds": at.Unix(), "unixMilliseconds": at.UnixMilli()})
}

var (
	errTimestamp = errors.New("expected a time in RFC 3339 format, such as 2026-12-24T18:00:00Z, or a Unix time in decimal digits")
	errYear      = errors.New("expected a time in the years 0 to 9999; for a Unix time, check the unit")
)

// readTimestamp parses a timestamp from a JSON number or string.
func readTimestamp(raw json.RawMessage, unit time.Duration) (time.Time, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return parseTimestamp(text, unit)
	}
	var count component.Integer
	if json.Unmarshal(raw, &count) != nil {
		return time.Time{}, errTimestamp
	}
	return unixTime(int64(count), unit)
}

// parseTimestamp parses RFC 3339 or Unix time in decimal digits. Errors don't quote the string.
func parseTimestamp(text string, unit time.Duration) (time.Time, error) {
	if digits := strings.TrimPrefix(text, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
		count, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return time.Time{}, errYear
		}
		return unixTime(count, unit)
	}
	at, err := timestamp.Parse(text)
	if err != nil {
		return time.Time{}, errTimestamp
	}
	return at, nil
}

// unixTime converts a Unix time. It returns an error for values so far outside the supported years
// that they could overflow.
func unixTime(count int64, unit time.Duration) (time.Time, error) {
	const farthest = 1 << 38 // seconds: some 8,700 years
	perSecond := int64(time.Second / unit)
	if seconds := count / perSecond; seconds > farthest || seconds < -farthest {
		return time.Time{}, errYear
	}
	if unit == time.Millisecond {
		return time.UnixMilli(count), nil
	}
	return time.Unix(count, 0), nil
}

// formatTime formats a time with strftime conversions.
func formatTime(format string, at time.Time) (string, error) {
	formatted, err := calendar.Format(format, at)
	if err != nil {
		return "", fmt.Errorf("%w. Use one of the conversions in the field's description, or %%%% for a percent sign", err)
	}
	return formatted, nil
}
