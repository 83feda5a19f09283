package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/web/diagram"
)

// words are the template functions that format values.
var words = template.FuncMap{
	"date":   func(t timestamp.Time) string { return t.Std().UTC().Format("2 Jan 2006") },
	"clock":  func(t timestamp.Time) string { return clock(t.Std()) },
	"moment": clock,
	"past":   past,
	"number": number,
	"action": actionText,
	"about":  subject,

	"ago": ago, "duration": duration, "plural": plural, "short": shortened, "state": stateWord, "lower": strings.ToLower, "item": itemText, "json": readable,
	"plus": func(a, b int) int { return a + b },
	"node": func() [2]int { return [2]int{diagram.NodeWidth, diagram.NodeHeight} },
}

func clock(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

func past(t time.Time) bool { return t.Before(time.Now()) }

// number formats a number, or a pointer to one, with commas between the thousands.
func number(of any) string {
	text := fmt.Sprint(reflect.Indirect(reflect.ValueOf(of)).Interface())
	whole, fraction, dotted := strings.Cut(text, ".")
	digits, negative := strings.CutPrefix(whole, "-")
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	if negative {
		digits = "-" + digits
	}
	if dotted {
		digits += "." + fraction
	}
	return digits
}

// sentence returns a message as a sentence, because messages about fields are fragments.
func sentence(message string) string {
	first, size := utf8.DecodeRuneInString(message)
	message = string(unicode.ToUpper(first)) + message[size:]
	if !strings.HasSuffix(message, ".") {
		message += "."
	}
	return message
}

// actionText returns the action of an audit event as a phrase.
func actionText(action string) string {
	text := strings.NewReplacer(".", " ", "_", " ").Replace(action)
	if rest, ok := strings.CutPrefix(text, "api key"); ok {
		return "API key" + rest
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// subject returns the name of an audit event's subject, or else its ID or reference.
func subject(event api.AuditEvent) string {
	var named struct{ Label, Email, Name, Reference string }
	_ = json.Unmarshal(event.Details, &named) // other details contain no name
	for _, name := range []string{named.Label, named.Email, named.Name} {
		if name != "" {
			return name
		}
	}
	if event.Subject != nil {
		return event.Subject.ID
	}
	return named.Reference
}
