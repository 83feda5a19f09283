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

// The default policy applies to components that say nothing about attempts and can be tried again.
func TestTheDefaultPolicyAppliesToComponentsWithoutOne(t *testing.T) {
	t.Parallel()
	d := graph.Definition{Retry: json.RawMessage(`{"maxAttempts":7}`)}
	for id, c := range map[string]graph.Component{
		"without": {Module: "WORK"}, "own": {Module: "WORK", Retry: json.RawMessage(`{}`)}, "once": {Module: "WORK", Attempts: 1}, "logic": {Module: "LOGIC"},
	} {
		c.ID, c.Input, c.Config = id, json.RawMessage(`{}`), json.RawMessage(`{}`)
		d.Components = append(d.Components, c)
	}
	known := library{"WORK": modules["WORK"], "LOGIC": {Inline: true, Input: open, Output: open}}
	plan, problems := graph.Compile(d, known)
	same(t, "problems", told(problems), "")
	for id, want := range map[string]string{"without": `{"maxAttempts":7}`, "own": `{}`, "once": "", "logic": ""} {
		c, _ := plan.Component(id)
		same(t, id, string(c.Retry), want)
	}
	d.Retry = json.RawMessage(`{"maxDelayMs":1}`)
	_, problems = graph.Compile(d, known)
	same(t, "an invalid policy", told(problems), "/retry/maxDelayMs INVALID_SETTING the default retry policy: must be 1000 to 86400000")
	d.Retry = json.RawMessage(`{"backoffFactor":1}`)
	_, problems = graph.Compile(d, known)
	same(t, "too many attempts", told(problems), "/retry INVALID_SETTING the default retry policy: permits more than 5000 attempts: set longer delays, a shorter maxElapsedMs, or maxAttempts")
}
