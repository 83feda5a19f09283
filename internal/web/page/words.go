package page

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

	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// Words are the template functions that format values.
var words = template.FuncMap{
	"date":   func(t timestamp.Time) string { return t.Std().UTC().Format("2 Jan 2006") },
	"clock":  func(t timestamp.Time) string { return clock(t.Std()) },
	"moment": clock,
	"past":   past,
	"number": Number,

	"ago": ago, "duration": duration, "plural": Plural, "short": shortened, "lower": strings.ToLower, "json": Readable,
	"plus": func(a, b int) int { return a + b },
}

func clock(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

func past(t time.Time) bool { return t.Before(time.Now()) }

// Number formats a number, or a pointer to one, with commas between the thousands.
func Number(of any) string {
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

// Text is a value for reading, which may be cut.
type Text struct {
	Text string
	Cut  int // bytes of the whole value if it was cut
}

// maxShown is the number of bytes of a value that a page shows.
const maxShown = 16 << 10

// Readable returns JSON in lines. A long value is cut.
func Readable(value json.RawMessage) Text {
	if len(value) == 0 {
		return Text{Text: "null"}
	}
	var lines bytes.Buffer
	if json.Indent(&lines, value, "", "  ") != nil {
		lines.Reset()
		lines.Write(value)
	}
	if lines.Len() > maxShown {
		return Text{Text: string(bytes.ToValidUTF8(lines.Bytes()[:maxShown], nil)), Cut: len(value)}
	}
	return Text{Text: lines.String()}
}

// duration returns a duration in the two largest units that matter.
func duration(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Millisecond:
		return "<1 ms"
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

// Plural returns a number of things. count is an integer.
func Plural(count any, thing string) string {
	if text := Number(count); text != "1" {
		return text + " " + thing + "s"
	}
	return "1 " + thing
}

// Counted merges equal words: `API_CALL ×3`.
func Counted(words []string) (merged []string) {
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

// Word returns a value as text.
func Word(value any) string { return fmt.Sprint(value) }

// shortened returns the beginning of text that is longer than a place.
func shortened(most int, text string) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}
