package signature

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Template is the text that a signature covers, such as {timestamp}.{body}.
type Template struct {
	parts             []string // literals and names in turn, from a literal
	timed, identified bool     // whether it has {timestamp} and {id}
}

// Body is the template of signatures that cover the body alone.
var Body = Template{parts: []string{"", "body", ""}}

// Timed reports whether the text contains the timestamp of a delivery.
func (t Template) Timed() bool { return t.timed }

// Identified reports whether the text contains the ID of a delivery.
func (t Template) Identified() bool { return t.identified }

// ParseTemplate parses a template. The names are body, which is required, timestamp and id, each at
// most once.
//
// Two different deliveries must not have the same text. So a literal separates two names, a digit
// doesn't touch {timestamp}, and render rejects an ID that contains a literal next to it.
func ParseTemplate(text string) (t Template, err error) {
	seen := map[string]bool{}
	for {
		literal, rest, found := strings.Cut(text, "{")
		if strings.Contains(literal, "}") {
			return t, errors.New("has a closing brace without an opening one")
		}
		if len(t.parts) > 0 && found && literal == "" {
			return t, errors.New("needs other text between two names")
		}
		t.parts = append(t.parts, literal)
		if !found {
			break
		}
		name, rest, closed := strings.Cut(rest, "}")
		switch {
		case !closed:
			return t, errors.New("has an opening brace without a closing one")
		case name != "body" && name != "timestamp" && name != "id":
			return t, fmt.Errorf("has the unknown name %q: use {timestamp}, {id} and {body}", name)
		case seen[name]:
			return t, fmt.Errorf("must have {%s} only once", name)
		}
		seen[name], text = true, rest
		t.parts = append(t.parts, name)
	}
	t.timed, t.identified = seen["timestamp"], seen["id"]
	if !seen["body"] {
		return t, errors.New("must have {body}: without it, a signature does not cover the delivery")
	}
	for i := 1; i < len(t.parts); i += 2 {
		before, after := t.parts[i-1], t.parts[i+1]
		if t.parts[i] == "timestamp" && (before != "" && digit(before[len(before)-1]) || after != "" && digit(after[0])) {
			return t, errors.New("must not have a digit next to {timestamp}")
		}
	}
	return t, nil
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// render returns the text of a delivery.
func (t Template) render(at, id string, body []byte) ([]byte, error) {
	text := []byte(t.parts[0])
	for i := 1; i < len(t.parts); i += 2 {
		before, after := t.parts[i-1], t.parts[i+1]
		switch t.parts[i] {
		case "body":
			text = append(text, body...)
		case "timestamp":
			text = append(text, at...)
		default:
			if i > 1 && strings.Contains(id, before) || i+2 < len(t.parts) && strings.Contains(id, after) {
				return nil, errors.New("the ID contains the text that separates it")
			}
			text = append(text, id...)
		}
		text = append(text, after...)
	}
	return text, nil
}

// ParseTime parses the timestamp of a delivery: a number of seconds, a number of milliseconds with 13
// digits, or a time of RFC 3339.
func ParseTime(text string) (time.Time, error) {
	if within(text, func(c byte) bool { return digit(c) }) && len(text) <= 13 {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || text[0] == '0' {
			return time.Time{}, errTimestamp
		}
		if len(text) == 13 {
			return time.UnixMilli(number), nil
		}
		return time.Unix(number, 0), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, errTimestamp
	}
	return at, nil
}

var errTimestamp = errors.New("the timestamp is neither a number of seconds or milliseconds nor a time of RFC 3339")
