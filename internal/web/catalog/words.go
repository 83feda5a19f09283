package catalog

import (
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
)

// FirstSentence returns the first sentence of a description, for lists.
func FirstSentence(text string) string {
	if end := strings.Index(text, ". "); end >= 0 {
		return text[:end+1]
	}
	return text
}

// EffectInWords returns a phrase for the effect of a component on external systems.
func EffectInWords(effect api.ComponentEffect) string {
	switch effect {
	case api.ComponentEffectNone:
		return "none: it doesn't access external systems"
	case api.ComponentEffectRead:
		return "read: it reads from external systems"
	case api.ComponentEffectWrite:
		return "write: it may change external systems"
	}
	return string(effect)
}

// RepeatInWords returns a phrase for what happens to a call after a crash.
func RepeatInWords(rule api.ComponentRepeat) string {
	switch rule {
	case api.ComponentRepeatPure:
		return "pure: it runs again"
	case api.ComponentRepeatIdempotent:
		return "idempotent: it runs again, with no further effect"
	case api.ComponentRepeatUnsafe:
		return "unsafe: it doesn't run again, unless the call makes that safe"
	}
	return string(rule)
}

// PriceInWords returns the price of a completed execution.
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

// TimeoutInWords returns how long an attempt may take.
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

// ModesInWords returns a phrase for how a component can be executed.
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
