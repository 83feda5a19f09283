package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var runGraphCases = []Case{
	{Part: "D8.3, D8.3.parallel, D8.3.data", Name: "runs/200 branches run in parallel, and join", Run: graphParallel, Needs: near},
	{Part: "D8.2, D8.3, D8.7.untaken, C.IF", Name: "runs/200 branches that are not taken are dead", Run: graphDead},
	{Part: "D8.2, D8.6.handled, C.SWITCH", Name: "runs/200 every port leads on", Run: graphPorts},
	{Part: "D8.4, D8.4.lossless", Name: "runs/200 values by name and path, converted without loss", Run: graphData},
	{Part: "D8.4.mismatch", Name: "runs/200 a value that does not fit names both ends", Run: graphMismatch},
	{Part: "D8.6, C.FAIL", Name: "runs/200 a failure lets siblings finish and starts nothing", Run: graphFailure, Needs: near},
	{Part: "D8.16", Name: "runs/200 expressions, and what they may cost", Run: graphExpressions},
	{Part: "D8.17, D8.17.missing", Name: "runs/200 references keep types, become text, and fail without a value", Run: graphReferences},
	{Part: "D8.17.address", Name: "runs/200 references in an address change neither its origin nor its segments", Run: graphAddresses},
	{Part: "D8.17.checked", Name: "workflows/422 references that cannot work", Run: graphReferencesChecked},
	{Part: "D8.5, D8.5.order, D8.5.concurrency, C.FOR_EACH", Name: "runs/200 FOR_EACH several at once, values in order", Run: loopOrder, Needs: near},
	{Part: "D8.5.failure", Name: "runs/200 FOR_EACH with items that fail", Run: loopFailure},
	{Part: "D8.5.nested, D8.5.index, D8.5.empty, C.FOR_EACH", Name: "runs/200 FOR_EACH nested, with index, and without items", Run: loopNested},
	{Part: "D8.5.items", Name: "runs/200 FOR_EACH of too many items, and of none that is an array", Run: loopBounds},
	{Part: "D8.7.size", Name: "runs/200 outputs beyond 64 MiB", Run: graphLarge, Needs: near, Soak: true},
}

// gates is an upstream that holds each request, identified by the query parameter `n`, until a case
// opens the gate with that name.
type gates struct {
	t   *probe.Trial
	url string

	mu    sync.Mutex
	doors map[string]chan struct{}
	order []string // in which the upstreams were called
}

func newGates(t *probe.Trial) *gates {
	g := &gates{t: t, doors: map[string]chan struct{}{}}
	g.url = t.Upstream(func(w http.ResponseWriter, r *http.Request) {
		n := r.URL.Query().Get("n")
		select {
		case <-g.door(n, true):
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, "%q", n)
	})
	return g
}

func (g *gates) door(n string, asked bool) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.doors[n] == nil {
		g.doors[n] = make(chan struct{})
	}
	if asked {
		g.order = append(g.order, n)
	}
	return g.doors[n]
}

func (g *gates) open(n string) { close(g.door(n, false)) }

func (g *gates) asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(slices.Values(g.order))
}

// waitFor waits until exactly these requests have arrived.
func (g *gates) waitFor(want ...string) {
	g.t.Until("the upstream is asked for "+strings.Join(want, ", "), 20*time.Second, func() bool { return len(g.asked()) >= len(want) })
	g.t.Equal("what the upstream is asked for", g.asked(), want)
}

// at returns a component that calls a gate.
func (g *gates) at(id string) object { return doing(id, g.url+"?n="+id) }

func graphParallel(t *probe.Trial) {
	g := newGates(t)
	id := draw(t, []object{g.at("a"), g.at("b"), g.at("c"), use("join", "RANDOM_UUID"), use("takes", "HASH"), use("answer", "RESPOND")},
		[]string{"start next a", "start next b", "start next c", "a next join", "b next join", "start next takes", "takes next answer"},
		"c.body takes.data", "takes.digest answer.digest")
	run := begin(t, id, nil)
	g.waitFor("a", "b", "c") // nothing waits for anything else
	g.open("a")
	one := eventually(t, run, "where one branch is through", func(run api.WorkflowRun) bool {
		return stageOf(t, run, "a").Status == "COMPLETED"
	})
	t.Check(len(stagesOf(one, "join")) == 0 && len(stagesOf(one, "takes")) == 0, "began too early: %s", became(one))
	g.open("c")
	eventually(t, run, "where the data is there", func(run api.WorkflowRun) bool { return !isNull(run.Output) })
	t.Equal("before the join", len(stagesOf(record(t, run), "join")), 0)
	g.open("b")
	end := finished(t, run, "COMPLETED")
	t.Equal("became", became(end), "a COMPLETED, answer COMPLETED, b COMPLETED, c COMPLETED, join COMPLETED, start COMPLETED, takes COMPLETED")
	for before, after := range map[string]string{"a": "join", "b": "join", "c": "takes"} {
		t.Check(notBefore(*stageOf(t, end, after).StartedAt, *stageOf(t, end, before).FinishedAt), "%s began before %s had finished", after, before)
	}
}

func graphDead(t *probe.Trial) {
	id := draw(t, []object{
		set("if", "IF", object{"expression": "n > 10"}), set("yes", "TRANSFORM", object{"expression": "'yes'"}), set("no", "TRANSFORM", object{"expression": "'no'"}),
		use("behind", "RANDOM_UUID"), set("join", "TRANSFORM", object{"expression": "y ?? x ?? 'none'"}), use("answer", "RESPOND"),
	}, []string{"start next if", "if then yes", "if else no", "no next behind", "yes next join", "no next join", "behind next join", "join next answer"},
		"start.n if.n", "yes.result join.y", "no.result join.x", "join.result answer.was")
	for n, want := range map[int]string{
		11: "answer COMPLETED, if COMPLETED, join COMPLETED, start COMPLETED, yes COMPLETED",
		10: "answer COMPLETED, behind COMPLETED, if COMPLETED, join COMPLETED, no COMPLETED, start COMPLETED",
	} {
		t.Equal(fmt.Sprint("of ", n), became(ran(t, id, "COMPLETED", object{"n": n})), want)
	}
	// A join without a taken branch is dead too, and so is everything after it.
	id = draw(t, []object{
		set("if", "IF", object{"expression": "false"}), set("other", "IF", object{"expression": "false"}), use("a", "RANDOM_UUID"), use("b", "RANDOM_UUID"),
		use("join", "RANDOM_UUID"), use("after", "RANDOM_UUID"),
	}, []string{"start next if", "start next other", "if then a", "other then b", "a next join", "b next join", "join next after"})
	run := ran(t, id, "COMPLETED", nil)
	t.Equal("became", became(run), "if COMPLETED, other COMPLETED, start COMPLETED")
	t.Check(run.TotalUsage == 0, "totalUsage %s", run.TotalUsage)
}

func graphPorts(t *probe.Trial) {
	value := func(id string) object { return set(id, "TRANSFORM", object{"expression": "true"}) }
	id := draw(t, []object{
		set("switch", "SWITCH", object{"cases": []object{{"name": "big", "expression": "n > 100"}, {"name": "even", "expression": "n % 2 == 0"}}}),
		value("big"), value("even"), value("odd"),
	}, []string{"start next switch", "switch big big", "switch even even", "switch default odd"}, "start.n switch.n")
	for n, want := range map[int]string{102: "big", 4: "even", 5: "odd"} {
		run := ran(t, id, "COMPLETED", object{"n": n})
		t.Equal(fmt.Sprint("of ", n), became(run), strings.Join(slices.Sorted(slices.Values([]string{want + " COMPLETED", "start COMPLETED", "switch COMPLETED"})), ", "))
		t.Equal("output", string(stageOf(t, run, "switch").Output), fmt.Sprintf(`{"case":%q}`, map[string]string{"big": "big", "even": "even", "odd": "default"}[want]))
	}
	id = draw(t, []object{
		set("wait", "WAIT_FOR_SIGNAL", object{"name": "never", "timeoutMs": 50}), value("came"), value("late"),
		set("delay", "DELAY", object{"durationMs": 60}), value("delayed"), set("until", "WAIT_UNTIL", object{"timestamp": "2020-01-01T00:00:00Z"}), value("past"),
		set("fail", "FAIL", object{}), value("handled"), value("unhandled"), having(set("bad", "FAIL", object{}), "onFailure", "continue"), value("goes"),
	}, []string{
		"start next wait", "wait next came", "wait timeout late", "start next delay", "delay next delayed", "start next until", "until next past",
		"start next fail", "fail error handled", "fail next unhandled", "start next bad", "bad next goes",
	})
	run := ran(t, id, "COMPLETED", nil)
	t.Equal("became", became(run), "bad FAILED, delay COMPLETED, delayed COMPLETED, fail FAILED, goes COMPLETED, handled COMPLETED, late COMPLETED, "+
		"past COMPLETED, start COMPLETED, until COMPLETED, wait COMPLETED")
	t.Equal("failedStageCount", run.FailedStageCount, int32(2))
	delay := stageOf(t, run, "delay")
	t.Check(delay.FinishedAt.Std().Sub(delay.StartedAt.Std()) >= 59*time.Millisecond, "a delay of 60 ms from %s to %s", delay.StartedAt, delay.FinishedAt)
	// The duration may come from an input.
	id = draw(t, []object{use("delay", "DELAY")}, []string{"start next delay"}, "start.ms delay.durationMs")
	began := time.Now()
	ran(t, id, "COMPLETED", object{"ms": 300})
	t.Check(time.Since(began) >= 300*time.Millisecond, "300 ms took %v", time.Since(began))
	run = ran(t, id, "FAILED", object{"ms": 0})
	t.Equal("error.code", runError(t, run.Error).Code, "INVALID_INPUT")
}

func graphData(t *probe.Trial) {
	id := draw(t, []object{
		use("whole", "HASH"), use("deep", "HASH"), use("dotted", "HASH"), use("count", "RANDOM_HEX"), use("answer", "RESPOND"),
	}, []string{"start next whole", "start next deep", "start next dotted", "start next count", "whole next answer", "deep next answer", "dotted next answer", "count next answer"},
		"start.big whole.data", "start.order.total deep.data", "start.a.b dotted.data", "start.bytes count.bytes",
		"whole.digest answer.whole", "deep.digest answer.deep", "dotted.digest answer.dotted", "count.hex answer.hex", "start.order answer.nested.order", "start.gone answer.gone")
	run := ran(t, id, "COMPLETED", object{
		"big": json.RawMessage("1180591620717411303424"), "order": object{"total": 12.5}, "a.b": "by its name", "a": object{"b": "by a path"}, "bytes": "3",
	})
	var got struct {
		Whole, Deep, Dotted, Hex string
		Nested                   struct{ Order object }
		Gone                     *object
	}
	t.NoError("output", json.Unmarshal(run.Output, &got))
	t.Equal("an integer as a string", got.Whole, sha256Of("1180591620717411303424"))
	t.Equal("a number as a string", got.Deep, sha256Of("12.5"))
	t.Equal("an output by its name", got.Dotted, sha256Of("by its name"))
	t.Equal("a string as an integer", len(got.Hex), 2+2*3)
	same(t, "an object by a path", got.Nested.Order, object{"total": 12.5})
	t.Check(got.Gone == nil && !strings.Contains(string(run.Output), `"gone"`), "what was not there came: %s", run.Output)
}

func graphMismatch(t *probe.Trial) {
	id := draw(t, []object{use("takes", "HASH"), use("after", "RANDOM_UUID")}, []string{"start next takes", "takes next after"}, "start.deep.value takes.data")
	for _, value := range []any{true, []int{1}, object{"a": 1}, nil} {
		run := ran(t, id, "FAILED", object{"deep": object{"value": value}})
		fault, stage := runError(t, run.Error), executionError(t, stageOf(t, run, "takes").Error)
		t.Equal("error.code", fault.Code+" "+stage.Code, "INVALID_INPUT INVALID_INPUT")
		t.Check(strings.Contains(fault.Message, "start.deep.value") && strings.Contains(fault.Message, "takes.data"), "the ends are not named: %s", fault.Message)
		t.Equal("became", became(run), "start COMPLETED, takes FAILED")
	}
	id = draw(t, []object{use("takes", "RANDOM_HEX")}, []string{"start next takes"}, "start.n takes.bytes")
	for _, lossy := range []any{1.5, "1.5", "x", ""} {
		t.Equal("error.code", runError(t, ran(t, id, "FAILED", object{"n": lossy}).Error).Code, "INVALID_INPUT")
	}
	// A missing required value fails with the same message.
	id = draw(t, []object{use("takes", "HASH")}, []string{"start next takes"}, "start.gone takes.data")
	fault := runError(t, ran(t, id, "FAILED", nil).Error)
	t.Check(fault.Code == "INVALID_INPUT" && strings.Contains(fault.Message, "start.gone") && strings.Contains(fault.Message, "takes.data"), "%+v", fault)
}

func graphFailure(t *probe.Trial) {
	g := newGates(t)
	id := draw(t, []object{
		g.at("slow"), use("after", "RANDOM_UUID"), set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000}),
		set("delay", "DELAY", object{"durationMs": 60_000}), g.at("fuse"), set("end", "FAIL", object{"code": "STOPPED", "message": "it is over"}), use("never", "RANDOM_UUID"),
	}, []string{"start next slow", "slow next after", "start next wait", "start next delay", "start next fuse", "fuse next end", "end next never"})
	run := begin(t, id, nil)
	g.waitFor("fuse", "slow")
	g.open("fuse")
	eventually(t, run, "failing", func(run api.WorkflowRun) bool {
		return run.FailedStageCount == 1 && stageOf(t, run, "delay").Status == "CANCELED"
	})
	under := record(t, run)
	t.Check(under.Status == "EXECUTING" && isNull(under.Error) && stageOf(t, under, "slow").Status == "RUNNING", "before the last stage: %s", t.JSON(under))
	g.open("slow")
	end := finished(t, run, "FAILED")
	t.Equal("became", became(end), "delay CANCELED, end FAILED, fuse COMPLETED, slow COMPLETED, start COMPLETED, wait CANCELED")
	fault := runError(t, end.Error)
	t.Check(fault.Code == "STOPPED" && string(*fault.ComponentID) == "end" && *fault.StageID == stageOf(t, end, "end").ID, "%s", end.Error)
	t.Equal("totalUsage", end.TotalUsage, stageOf(t, end, "slow").CreditUsage+stageOf(t, end, "fuse").CreditUsage) // what finished is charged
}

func graphExpressions(t *probe.Trial) {
	id := draw(t, []object{set("all", "TRANSFORM", object{"expression": "{total: sum(map(prices, # * rate)), big: filter(prices, # > 2), name: upper(name)}"}), use("answer", "RESPOND")},
		[]string{"start next all", "all next answer"}, "start.prices all.prices", "start.rate all.rate", "start.name all.name", "all.result answer.r")
	run := ran(t, id, "COMPLETED", object{"prices": []int{1, 2, 3}, "rate": 10, "name": "ada"})
	alike(t, "output", run.Output, json.RawMessage(`{"r":{"big":[3],"name":"ADA","total":60}}`))
	for expression, input := range map[string]object{
		"sum(map(1..100000, sum(map(1..100000, #))))": {}, "n / m": {"n": "x", "m": "y"}, "n > 1": {"n": nil},
	} {
		id := draw(t, []object{set("bad", "IF", object{"expression": expression})}, []string{"start next bad"}, "start.n bad.n", "start.m bad.m")
		fault := runError(t, ran(t, id, "FAILED", input).Error)
		t.Check(string(*fault.ComponentID) == "bad" && fault.Code != "INTERNAL_ERROR", "%s: %+v", expression, fault)
	}
}

// refers returns a RESPOND whose input has one string.
func refers(text string) object {
	return object{"id": "answer", "module": "RESPOND", "input": object{"v": text, "other": []any{"n is {{ start.n }}"}}}
}

func graphReferences(t *probe.Trial) {
	input := object{"n": 7, "name": "Ada", "list": []int{1, 2}, "braces": "{{ start.name }}", "nothing": nil}
	for text, want := range map[string]string{
		"{{ start.n }}": `7`, "{{start.list}}": `[1,2]`, "{{ start.list[1] }}": `2`, "{{ start.n * 2 }}": `14`, "{{ start.nothing }}": `null`,
		"Dear {{ start.name }}: {{start.n}} {{start.list}}": `"Dear Ada: 7 [1,2]"`, "{{ start.braces }}": `"{{ start.name }}"`, `{{ "{{" }}`: `"{{"`,
		"{{ start.lost ?? start.gone ?? 'none' }}": `"none"`, "{{ start.lost == nil }}": `true`, "{{ run.trigger }}": `"API"`,
	} {
		run := ran(t, draw(t, []object{refers(text)}, []string{"start next answer"}), "COMPLETED", input)
		alike(t, "output of "+text, run.Output, json.RawMessage(`{"other":["n is 7"],"v":`+want+`}`))
	}
	left := ran(t, draw(t, []object{refers("{{ start.lost? }}")}, []string{"start next answer"}), "COMPLETED", input)
	alike(t, "output without the field", left.Output, json.RawMessage(`{"other":["n is 7"]}`))
	run := ran(t, draw(t, []object{refers("{{ run.id }} at {{ now() }}")}, []string{"start next answer"}), "COMPLETED", input)
	t.Check(strings.Contains(string(run.Output), `"`+run.ID.String()+` at 2`), "run.id: %s", run.Output)
	for _, text := range []string{"{{ start.lost }}", "x {{ start.nothing }}", "{{ start.list[9] }}", "{{env.NEVER_SET}}", "{{ env.NEVER_SET }}"} {
		fault := runError(t, ran(t, draw(t, []object{refers(text)}, []string{"start next answer"}), "FAILED", input).Error)
		t.Check(fault.Code == "MISSING_VALUE" && strings.Contains(fault.Message, "/input/v"), "%s: %+v", text, fault)
	}
}

func graphAddresses(t *probe.Trial) {
	paths := make(chan string, 1)
	url := t.Upstream(func(_ http.ResponseWriter, r *http.Request) { paths <- r.RequestURI })
	call := func(address string) object {
		return object{"id": "call", "module": "API_CALL", "input": object{}, "config": object{"apiUrl": address, "method": "GET"}}
	}
	id := draw(t, []object{call(url + "/users/{{ start.id }}/x?q={{ start.q }}")}, []string{"start next call"})
	for value, want := range map[string]string{"7": "/users/7/x?q=7", "a/b": "/users/a%2Fb/x?q=a%2Fb", "../up": "/users/..%2Fup/x?q=..%2Fup", "?x=1#": "/users/%3Fx=1%23/x?q=%3Fx%3D1%23", "@evil.example": "/users/@evil.example/x?q=%40evil.example"} {
		ran(t, id, "COMPLETED", object{"id": value, "q": value})
		t.Equal("request target", <-paths, want)
	}
	for _, value := range []any{"", ".", "..", []int{1}, object{}, []any{}} {
		fault := runError(t, ran(t, id, "FAILED", object{"id": value, "q": "x"}).Error)
		t.Equal("code", fault.Code, "INVALID_ADDRESS")
	}
	whole := call("{{ start.next }}")
	whole["config"].(object)["allowedOrigins"] = []string{url}
	id = draw(t, []object{whole}, []string{"start next call"})
	ran(t, id, "COMPLETED", object{"next": url + "/page?n=2"})
	t.Equal("request target", <-paths, "/page?n=2")
	fault := runError(t, ran(t, id, "FAILED", object{"next": "https://evil.example/"}).Error)
	t.Equal("code", fault.Code, "ORIGIN_NOT_ALLOWED")
}

func graphReferencesChecked(t *probe.Trial) {
	for text, code := range map[string]string{
		"{{ strat.n }}": "INVALID_REFERENCE", "{{ start.n": "INVALID_REFERENCE", "{{ run.nothing }}": "INVALID_REFERENCE", "{{ answer.v }}": "SELF_EDGE", "{{ start }}": "INVALID_REFERENCE", "x {{ start.n? }}": "INVALID_REFERENCE",
	} {
		answer := t.Post("/v1/sdk/workflows", sketch([]object{use("start", "ON_API_CALLED"), refers(text)}, []string{"start next answer"}))
		fault := t.Problem(answer, http.StatusUnprocessableEntity, "INVALID_INPUT")
		t.Check(len(fault.Errors) == 1 && fault.Errors[0].Code == code && fault.Errors[0].Pointer == "/components/1/input/v", "%s: %+v", text, fault.Errors)
	}
}

func graphLarge(t *probe.Trial) {
	large := t.JSON(strings.Repeat("x", 1<<20-1000))
	url := t.Upstream(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(large)
	})
	id := draw(t, []object{use("loop", "FOR_EACH"), doing("call", url)}, []string{"start next loop", "loop each call"}, "start.items loop.items")
	run := begin(t, id, object{"items": make([]int, 100)})
	ended := func() (run2 api.WorkflowRun) {
		t.Until("the run is final", 50*time.Second, func() bool {
			run2 = probe.Decode[api.WorkflowRun](t, t.Get(runPath(run)+"?stages=none"))
			return run2.Status.Terminal()
		})
		return run2
	}()
	t.Equal("error.code", string(ended.Status)+" "+runError(t, ended.Error).Code, "FAILED OUTPUT_TOO_LARGE")
}
