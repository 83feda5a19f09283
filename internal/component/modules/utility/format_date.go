package utility

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // where the machine has no table of time zones

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

const defaultDateFormat = "%FT%T%:z"

type formatDate struct{}

func (formatDate) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "FORMAT_DATE",
		Title:       "Format date",
		Description: "Writes a point in time as people or other services want it, in any time zone. It takes RFC 3339 and Unix time, in seconds, as chains have it, or in milliseconds, and also gives both kinds of Unix time. Formats are made of the conversions of strftime (C, Python, Ruby); names of days and months are English.",
		Category:    category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "Which time, and how to write it.",
			"required": ["timestamp"],
			"properties": {
				"timestamp": {"type": ["string", "integer"], "format": "timestamp", "maxLength": 64, "minimum": -62167219200000, "maximum": 253402300799999, "title": "Timestamp", "description": "The time: RFC 3339 such as 2026-12-24T18:00:00Z, or Unix time as a number or a decimal string, in the given unit. A leap second (23:59:60 UTC) is taken for the second after it.", "examples": ["2026-12-24T18:00:00Z", 1798135200, "1798135200"]},
				"unit": {"type": "string", "title": "Unit", "description": "The unit of a Unix time; RFC 3339 has none.", "enum": ["seconds", "milliseconds"], "default": "seconds", "examples": ["seconds"]},
				"timeZone": {"type": "string", "format": "time-zone", "maxLength": 64, "title": "Time zone", "description": "The IANA name of the time zone to write the time in.", "default": "UTC", "examples": ["Europe/Berlin"]},
				"format": {"type": "string", "format": "date-format", "maxLength": 256, "title": "Format", "description": "Text with conversions in it. Date: %Y year (4 digits), %y (2 digits), %m month (01 to 12), %B (January), %b (Jan), %d day (01 to 31), %e (blank instead of the first zero), %j day of the year (001 to 366), %A (Monday), %a (Mon), %u day of the week (1 is Monday, 7 is Sunday), %w (0 is Sunday, 6 is Saturday), %G and %V year and week of ISO 8601, %F is %Y-%m-%d. Time: %H hour (00 to 23), %I (01 to 12), %p AM or PM, %M minute, %S second, %L milliseconds (3 digits), %T is %H:%M:%S, %R is %H:%M. Zone: %z is +0100, %:z is +01:00, %Z is the abbreviation. %s is the Unix time in seconds, %% a per cent sign. Everything else stays as it is.", "default": "%FT%T%:z", "examples": ["%d.%m.%Y %H:%M"]}
			},
			"examples": [{"timestamp": "2026-12-24T18:00:00Z", "timeZone": "Europe/Berlin", "format": "%A, %e %B %Y, %H:%M %Z"}, {"timestamp": 1798135200}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "The time in several forms.",
			"required": ["formatted", "unixSeconds", "unixMilliseconds"],
			"properties": {
				"formatted": {"type": "string", "title": "Formatted", "description": "The time in the time zone, written as format says.", "examples": ["24.12.2026 19:00"]},
				"unixSeconds": {"type": "integer", "title": "Unix seconds", "description": "Whole seconds since 1970-01-01T00:00:00Z, rounded down.", "examples": [1798135200]},
				"unixMilliseconds": {"type": "integer", "title": "Unix milliseconds", "description": "Whole milliseconds since 1970-01-01T00:00:00Z, rounded down.", "examples": [1798135200000]}
			}
		}`),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
}

// Formats are the string formats of the schema.
func (formatDate) Formats() map[string]func(string) error {
	return map[string]func(string) error{
		"timestamp":   func(text string) error { _, err := parseTimestamp(text, time.Millisecond); return err },
		"time-zone":   func(text string) error { _, err := zoneOf(text); return err },
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
		if zone, err = zoneOf(*input.TimeZone); err != nil {
			return component.Result{}, component.Permanent(component.CodeInvalidInput, "timeZone: %s", err)
		}
	}
	at = at.In(zone)
	switch {
	case fourDigits(at):
	case !fourDigits(at.UTC()):
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "timestamp: %s", errYear)
	default:
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "timeZone: in this time zone the time is in the year %d; a time in the years 0 to 9999 is needed", at.Year())
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

// fourDigits reports whether the year has four digits.
func fourDigits(at time.Time) bool { return at.Year() >= 0 && at.Year() <= 9999 }

var (
	errTimestamp = errors.New("a time in RFC 3339 form, such as 2026-12-24T18:00:00Z, or a Unix time in decimal digits is needed")
	errYear      = errors.New("a time in the years 0 to 9999 is needed; where it is Unix time, look whether unit says what it is counted in")
	errZone      = errors.New("the IANA name of a time zone is needed, such as Europe/Berlin")
)

// readTimestamp reads a JSON number or string.
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

// parseTimestamp reads RFC 3339, or Unix time in decimal digits. Errors do not
// quote the text.
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

// unixTime refuses what is far beyond the years that can be written, and would
// overflow.
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

// zoneOf finds a time zone by its IANA name.
func zoneOf(name string) (*time.Location, error) {
	if name == "" || name == "Local" { // UTC and the machine's own zone for package time, and no IANA names
		return nil, errZone
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, errZone
	}
	return zone, nil
}

// layouts are the conversions that package time knows, in its own terms.
var layouts = map[string]string{
	"Y": "2006", "y": "06", "m": "01", "B": "January", "b": "Jan", "d": "02", "e": "_2", "j": "002", "A": "Monday", "a": "Mon", "F": "2006-01-02",
	"H": "15", "I": "03", "p": "PM", "M": "04", "S": "05", "T": "15:04:05", "R": "15:04", "z": "-0700", ":z": "-07:00", "Z": "MST",
}

// formatTime writes a time by a format of strftime's conversions. Its error
// says where the format has another one.
func formatTime(format string, at time.Time) (string, error) {
	var out strings.Builder
	for rest := format; rest != ""; {
		text, after, found := strings.Cut(rest, "%")
		out.WriteString(text)
		if !found {
			break
		}
		name := after[:min(1, len(after))]
		if strings.HasPrefix(after, ":z") {
			name = ":z"
		}
		if layout, known := layouts[name]; known {
			out.WriteString(at.Format(layout))
		} else if written, known := conversion(name, at); known {
			out.WriteString(written)
		} else {
			place := len([]rune(format[:len(format)-len(after)]))
			return "", fmt.Errorf("a per cent sign must begin one of the conversions that the field's description lists; that at place %d does not (write %%%% for the sign itself)", place)
		}
		rest = after[len(name):]
	}
	return out.String(), nil
}

// conversion is one that package time has no layout for.
func conversion(name string, at time.Time) (string, bool) {
	year, week := at.ISOWeek()
	switch name {
	case "u":
		return strconv.Itoa((int(at.Weekday())+6)%7 + 1), true
	case "w":
		return strconv.Itoa(int(at.Weekday())), true
	case "G":
		return fmt.Sprintf("%04d", year), true
	case "V":
		return fmt.Sprintf("%02d", week), true
	case "L":
		return fmt.Sprintf("%03d", at.Nanosecond()/int(time.Millisecond)), true
	case "s":
		return strconv.FormatInt(at.Unix(), 10), true
	case "%":
		return "%", true
	}
	return "", false
}
