package catalog

import (
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
)

// FirstSentence is that of a description, for a list.
func FirstSentence(text string) string {
	if end := strings.Index(text, ". "); end >= 0 {
		return text[:end+1]
	}
	return text
}

// EffectInWords says what a component does to the world outside.
func EffectInWords(effect api.ComponentEffect) string {
	switch effect {
	case api.ComponentEffectNone:
		return "none: it touches nothing outside"
	case api.ComponentEffectRead:
		return "read: it reads the outside"
	case api.ComponentEffectWrite:
		return "write: it may change the outside"
	}
	return string(effect)
}

// RepeatInWords says what becomes of a call that a crash cut off.
func RepeatInWords(rule api.ComponentRepeat) string {
	switch rule {
	case api.ComponentRepeatPure:
		return "pure: it runs again"
	case api.ComponentRepeatIdempotent:
		return "idempotent: it runs again, which has no further effect"
	case api.ComponentRepeatUnsafe:
		return "unsafe: it is not run again, unless the call makes that safe"
	}
	return string(rule)
}

// PriceInWords is what a completed execution costs.
func PriceInWords(c api.Component) string {
	switch price := c.Price.String(); price {
	case "0":
		return "free"
	case "1":
		return "1 credit"
	default:
		return price + " credits"
	}
}

// TimeoutInWords is how long an attempt may take.
func TimeoutInWords(c api.Component) string {
	const day = 24 * time.Hour
	timeout := time.Duration(c.TimeoutMs) * time.Millisecond
	if timeout >= 2*day && timeout%day == 0 {
		return strconv.Itoa(int(timeout/day)) + " days"
	}
	text := timeout.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// ModesInWords says how it can be executed.
func ModesInWords(c api.Component) string {
	all := make([]string, len(c.ExecutionModes))
	for i, mode := range c.ExecutionModes {
		switch mode {
		case api.ExecutionModeCOMPONENT:
			all[i] = "on its own"
		case api.ExecutionModeWORKFLOW:
			all[i] = "inside a workflow"
		default:
			all[i] = string(mode)
		}
	}
	return strings.Join(all, ", ")
}
