package conformance

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
)

var repeatCases = []Case{
	{Part: "D8.19, D8.19.state", Name: "runs/200 REPEAT follows a cursor", Run: repeatCursor, Needs: near},
	{Part: "D8.19", Name: "runs/200 REPEAT ends without a CONTINUE", Run: repeatLeft},
	{Part: "D8.19.bounds", Name: "runs/200 REPEAT ends at its limits", Run: repeatBounds},
	{Part: "D8.19.failure", Name: "runs/200 REPEAT with an iteration that fails", Run: repeatFailure},
	{Part: "D8.19.checked", Name: "runs/400, 422 REPEAT and CONTINUE that cannot work", Run: repeatWrong},
}

// repeats returns a REPEAT with its CONTINUE. The state of the loop is what the arguments say.
func repeats(config, first, next object) []object {
	return []object{having(set("loop", "REPEAT", config), "input", first), having(use("next", "CONTINUE"), "input", next)}
}

// repeatCursor reads pages until one of them has no next page.
func repeatCursor(t *probe.Trial) {
	url := t.Upstream(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		next := map[string]string{"": `"b"`, "b": `"c"`, "c": `null`}[r.URL.Query().Get("cursor")]
		_, _ = w.Write([]byte(`{"items":["` + r.URL.Query().Get("cursor") + `!"],"next":` + next + `}`))
	})
	page := having(doing("page", url), "input", object{"query": object{"cursor": "{{ loop.state.cursor? }}"}})
	answer := having(use("answer", "RESPOND"), "input", object{"all": "{{ flatten(page.body.items) }}", "count": "{{ loop.count }}", "state": "{{ loop.state }}"})
	id := draw(t, append(repeats(object{"maxIterations": 50}, object{"state": object{"cursor": nil}},
		object{"state": object{"cursor": "{{ page.body.next? }}"}, "done": "{{ page.body.next == nil }}"}), page, answer),
		[]string{"start next loop", "loop each page", "page next next", "loop done answer"})
	end := ran(t, id, "COMPLETED", nil)
	alike(t, "output", end.Output, json.RawMessage(`{"all":["!","b!","c!"],"count":3,"state":{}}`))
	alike(t, "the output of the loop", stageOf(t, end, "loop").Output, json.RawMessage(`{"count":3,"state":{}}`))
	for i, stage := range stagesOf(end, "page") {
		t.Equal("iteration", stage.Iteration, []int32{int32(i)})
	}
}

// repeatLeft has a branch that leads past the CONTINUE.
func repeatLeft(t *probe.Trial) {
	id := draw(t, append(repeats(object{"maxIterations": 50}, object{"state": 1}, object{"state": "{{ loop.state + 1 }}"}),
		set("if", "IF", object{"expression": "loop.index < 2"})),
		[]string{"start next loop", "loop each if", "if then next"})
	end := ran(t, id, "COMPLETED", nil)
	alike(t, "the output of the loop", stageOf(t, end, "loop").Output, json.RawMessage(`{"count":3,"state":3}`))
}

func repeatBounds(t *probe.Trial) {
	for what, config := range map[string]object{"iterations": {"maxIterations": 2}, "time": {"maxIterations": 2, "delayMs": 60000, "maxDurationMs": 1000}} {
		count := map[string]string{"iterations": "2", "time": "1"}[what]
		parts := repeats(config, object{}, object{"state": "{{ loop.index }}"})
		end := ran(t, draw(t, parts, []string{"start next loop", "loop each next"}), "FAILED", nil)
		t.Equal(what, runError(t, end.Error).Code, "LOOP_EXHAUSTED")
		end = ran(t, draw(t, append(parts, use("late", "RANDOM_UUID")), []string{"start next loop", "loop each next", "loop exhausted late"}), "COMPLETED", nil)
		alike(t, what, stageOf(t, end, "loop").Output, json.RawMessage(`{"count":`+count+`,"state":`+map[string]string{"iterations": "1", "time": "0"}[what]+`}`))
		t.Equal(what+": stages of the port exhausted", len(stagesOf(end, "late")), 1)
	}
}

func repeatFailure(t *probe.Trial) {
	parts := append(repeats(object{"maxIterations": 9}, object{}, object{}), set("if", "IF", object{"expression": "loop.index == 1"}), set("bad", "FAIL", object{"code": "NOT_ONE"}), use("also", "CONTINUE"))
	end := ran(t, draw(t, parts[:4], []string{"start next loop", "loop each if", "if then bad", "if else next"}), "FAILED", nil)
	why := runError(t, end.Error)
	t.Equal("the code of the error", why.Code, "ITEM_FAILED")
	t.Check(strings.Contains(why.Message, "index 1 ") && strings.Contains(why.Message, "component bad: NOT_ONE: "), "the error does not name the iteration: %s", why.Message)
	end = ran(t, draw(t, []object{parts[0], parts[1], parts[4]}, []string{"start next loop", "loop each next", "loop each also"}), "FAILED", nil)
	why = runError(t, end.Error)
	t.Check(why.Code == "ITEM_FAILED" && strings.Contains(why.Message, "next") && strings.Contains(why.Message, "also"), "two CONTINUE failed with %s: %s", why.Code, why.Message)
}

func repeatWrong(t *probe.Trial) {
	loop, next := repeats(object{"maxIterations": 9}, object{}, object{})[0], use("next", "CONTINUE")
	start := use("start", "ON_API_CALLED")
	wrongWorkflow(t, "without a CONTINUE", sketch([]object{start, loop}, []string{"start next loop"}), "/components/1")
	wrongWorkflow(t, "a CONTINUE outside of a loop", sketch([]object{start, next}, []string{"start next next"}), "/components/1")
	each := having(use("each", "FOR_EACH"), "input", object{"items": []int{1}})
	wrongWorkflow(t, "a CONTINUE in a FOR_EACH of the body", sketch([]object{start, loop, each, next}, []string{"start next loop", "loop each each", "each each next"}), "/components/1", "/components/3")
	wrongWorkflow(t, "an edge from a CONTINUE", sketch([]object{start, loop, next, use("after", "RANDOM_UUID")}, []string{"start next loop", "loop each next", "next next after"}), "/sequenceEdges/2")
	for name, config := range map[string]object{"maxIterations": {}, "delayMs": {"maxIterations": 9, "delayMs": -1}} {
		unbounded := having(use("loop", "REPEAT"), "config", config)
		p := t.Problem(t.Post(workflows, sketch([]object{start, unbounded, next}, []string{"start next loop", "loop each next"})), http.StatusUnprocessableEntity, "INVALID_INPUT")
		t.Equal(name, probe.Pointers(p), []string{"/components/1/config/" + name})
	}
}
