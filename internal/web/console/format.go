package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weft-automation/weft/internal/kit/timestamp"
)

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
