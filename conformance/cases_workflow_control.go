package conformance

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
)

// set returns a component with a config.
func set(id, module string, config object) object { return having(use(id, module), "config", config) }

// workflowControl saves valid and invalid workflows with control flow: ports, bodies of loops,
// and configs that a schema alone cannot validate.
func workflowControl(t *probe.Trial) {
	start := set("start", "ON_API_CALLED", object{"inputSchema": object{"type": "object", "properties": object{"amounts": object{"type": "array", "items": object{"type": "number"}}}}})
	each, late := use("each", "FOR_EACH"), having(use("late", "RESPOND"), "input", object{"done": true})
	check := set("check", "IF", object{"expression": `amount > 10 and country in ["DE", "AT"]`})
	which := set("which", "SWITCH", object{"cases": []object{{"name": "large", "expression": "amount > 1000"}, {"name": "odd", "expression": "amount % 2 == 1"}}})
	wait := set("wait", "WAIT_FOR_SIGNAL", object{"name": "approved", "timeoutMs": 86400000})
	parts := []object{
		start, each, check, which, wait, set("pause", "DELAY", object{"durationMs": 1000}), set("until", "WAIT_UNTIL", object{"timestamp": "2030-01-01T00:00:00Z"}),
		set("double", "TRANSFORM", object{"expression": "amount * 2"}), use("stop", "FAIL"), late,
	}
	ways := []string{
		"start next each", "each each check", "check then which", "check else stop", "which large wait", "which odd double", "which default pause",
		"wait timeout stop", "wait next until", "check error stop", "each done late",
	}
	amounts := []string{"each.item check.amount", "each.item which.amount", "each.index double.amount"}
	create(t, sketch(parts, ways, slices.Concat([]string{"start.amounts each.items", "double.result late.doubled"}, amounts)...))

	wrongWorkflow(t, "ports", sketch(parts, slices.Concat(ways, []string{"check next stop", "which none stop", "pause timeout stop", "double each stop"}), amounts...),
		"/sequenceEdges/11/port", "/sequenceEdges/12/port", "/sequenceEdges/13/port", "/sequenceEdges/14/port", "/components/1/input/items")
	wrongWorkflow(t, "out of a body", sketch(parts, slices.Concat(ways, []string{"double next late"}), append(amounts, "start.amounts each.items")...), "/sequenceEdges/11")
	for config, pointer := range map[*object]string{
		{"expression": "amount >"}:   "/expression",
		{"expression": "nothing(1)"}: "/expression",
		{"expression": ""}:           "/expression",
		{}:                           "/expression",
	} {
		for _, module := range []string{"IF", "TRANSFORM"} {
			wrongWorkflow(t, module, sketch([]object{set("a", module, *config)}, nil), "/components/0/config"+pointer)
		}
	}
	p := t.Problem(t.Post(workflows, sketch([]object{set("a", "IF", object{"expression": "(1 +\n 2"})}, nil)), http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Check(strings.Contains(p.Detail, "line 2, column 3"), "the detail does not name the place: %s", p.Detail)
	wrongWorkflow(t, "cases", sketch([]object{set("a", "SWITCH", object{"cases": []object{
		{"name": "default", "expression": "true"}, {"name": "b", "expression": "1 +"}, {"name": "b", "expression": "true"},
	}})}, nil), "/components/0/config/cases/0/name", "/components/0/config/cases/1/expression", "/components/0/config/cases/2/name")
	for module, config := range map[string]object{
		"ON_SCHEDULE": {"cron": "61 * * * *"}, "DELAY": {"durationMs": 2592000001}, "WAIT_UNTIL": {"timestamp": "tomorrow"},
		"FOR_EACH": {"concurrency": 101}, "STRING_CONSTANT": {"value": 1}, "RUN_WORKFLOW": {"workflowId": "x"}, "FAIL": {"code": "lower case"},
		"ON_API_CALLED": {"inputSchema": object{"type": "array"}},
	} {
		p := t.Problem(t.Post(workflows, sketch([]object{set("a", module, config)}, nil)), http.StatusUnprocessableEntity, "INVALID_INPUT")
		for field := range config {
			t.Check(slices.ContainsFunc(probe.Pointers(p), func(at string) bool { return strings.HasPrefix(at, "/components/0/config/"+field) }),
				"%s: the faults are at %q", module, probe.Pointers(p))
		}
	}
}
