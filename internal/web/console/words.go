package console

import (
	"bytes"
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

// text is a value for reading, which may be cut.
type text struct {
	Text string
	Cut  int // bytes of the whole value if it was cut
}

// maxShown is the number of bytes of a value that a page shows.
const maxShown = 16 << 10

// readable returns JSON in lines. A long value is cut.
func readable(value json.RawMessage) text {
	if len(value) == 0 {
		return text{Text: "null"}
	}
	var lines bytes.Buffer
	if json.Indent(&lines, value, "", "  ") != nil {
		lines.Reset()
		lines.Write(value)
	}
	if lines.Len() > maxShown {
		return text{Text: string(bytes.ToValidUTF8(lines.Bytes()[:maxShown], nil)), Cut: len(value)}
	}
	return text{Text: lines.String()}
}

// duration returns a duration in the two largest units that matter.
func duration(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// ago returns how long ago a time was, in one unit.
func ago(at timestamp.Time) string {
	switch d := time.Since(at.Std()); {
	case d < 10*time.Second:
		return "moments ago"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours())/24)
	}
}

// plural returns a number of things. count is an integer.
func plural(count any, thing string) string {
	if text := number(count); text != "1" {
		return text + " " + thing + "s"
	}
	return "1 " + thing
}

// counted merges equal words: `API_CALL ×3`.
func counted(words []string) (merged []string) {
	counts := map[string]int{}
	for _, one := range words {
		if counts[one]++; counts[one] == 1 {
			merged = append(merged, one)
		}
	}
	for i, one := range merged {
		if counts[one] > 1 {
			merged[i] = fmt.Sprintf("%s ×%d", one, counts[one])
		}
	}
	return merged
}

// word returns a value as text.
func word(value any) string { return fmt.Sprint(value) }

// shortened returns the beginning of text that is longer than a place.
func shortened(most int, text string) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}
