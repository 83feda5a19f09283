package graph_test

import (
	"encoding/json"
	"testing"

	"github.com/weft-automation/weft/internal/component/graph"
)

// A retry policy stands alone, on a component that can be tried again, and permits at most 5,000 attempts.
func TestRetryPoliciesOfComponentsAreChecked(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		module, policy string
		attempts       int
		want           string
	}{
		"the defaults":             {"WORK", `{}`, 0, ""},
		"with attempts":            {"WORK", `{}`, 1, `/components/0/retry INVALID_SETTING component "a": retry cannot be combined with attempts`},
		"on a LOGIC module":        {"LOGIC", `{}`, 0, `/components/0/retry INVALID_SETTING component "a": LOGIC runs in a single attempt: omit retry`},
		"more than 5,000 attempts": {"WORK", `{"backoffFactor":1}`, 0, `/components/0/retry INVALID_SETTING component "a": permits more than 5000 attempts: set longer delays, a shorter maxElapsedMs, or maxAttempts`},
		"a delay above its maximum": {
			"WORK", `{"maxDelayMs":86400001}`, 0, `/components/0/retry/maxDelayMs INVALID_SETTING component "a": must be 1000 to 86400000`,
		},
	} {
		d := graph.Definition{Components: []graph.Component{{ID: "a", Module: c.module, Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`), Attempts: c.attempts, Retry: json.RawMessage(c.policy)}}}
		_, problems := graph.Compile(d, library{"WORK": modules["WORK"], "LOGIC": {Inline: true, Input: open, Output: open}})
		same(t, what, told(problems), c.want)
	}
}
