package calendar

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// layouts maps strftime conversions to layouts of package time.
var layouts = map[string]string{
	"Y": "2006", "y": "06", "m": "01", "B": "January", "b": "Jan", "d": "02", "e": "_2", "j": "002", "A": "Monday", "a": "Mon", "F": "2006-01-02",
	"H": "15", "I": "03", "p": "PM", "M": "04", "S": "05", "T": "15:04:05", "R": "15:04", "z": "-0700", ":z": "-07:00", "Z": "MST",
}

// Format formats a time with strftime conversions. The error for an unknown conversion has its
// position.
func Format(format string, at time.Time) (string, error) {
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
			return "", fmt.Errorf("unknown conversion after the percent sign at position %d", place)
		}
		rest = after[len(name):]
	}
	return out.String(), nil
}

// conversion formats a conversion that has no layout in package time. It returns false for unknown
// conversions.
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
