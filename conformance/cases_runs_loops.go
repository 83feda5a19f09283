package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// loopOrder lets the items finish from the last to the first.
func loopOrder(t *probe.Trial) {
	g := newGates(t)
	loop := set("loop", "FOR_EACH", object{"concurrency": 3})
	id := draw(t, []object{loop, doing("call", g.url), use("answer", "RESPOND")}, []string{"start next loop", "loop each call", "loop done answer"},
		"start.items loop.items", "loop.item call.query", "call.body answer.all", "loop.count answer.count", "loop.failedItems answer.failed")
	var items []object
	for i := range 7 {
		items = append(items, object{"n": fmt.Sprint(i)})
	}
	run := begin(t, id, object{"items": items})
	g.waitFor("0", "1", "2")
	wait(t, 100*time.Millisecond)
	g.waitFor("0", "1", "2") // no more than three at once
	g.open("2")
	g.waitFor("0", "1", "2", "3") // and always three
	t.Equal("live stages", record(t, run).PendingStageCount, int32(4))
	for _, n := range []string{"3", "1", "4", "5", "6", "0"} {
		t.Until("item "+n+" has started", 20*time.Second, func() bool { return slices.Contains(g.asked(), n) })
		g.open(n)
	}
	end := finished(t, run, "COMPLETED")
	alike(t, "output", end.Output, json.RawMessage(`{"all":["0","1","2","3","4","5","6"],"count":7,"failed":0}`))
	t.Equal("the output of the loop", string(stageOf(t, end, "loop").Output), `{"count":7,"failedItems":0}`)
	t.Equal("stages of the body", len(stagesOf(end, "call")), 7)
	// The default concurrency is ten.
	g = newGates(t)
	for i := len(items); i < 12; i++ {
		items = append(items, object{"n": fmt.Sprint(i)})
	}
	id = draw(t, []object{use("loop", "FOR_EACH"), doing("call", g.url)}, []string{"start next loop", "loop each call"}, "start.items loop.items", "loop.item call.query")
	run = begin(t, id, object{"items": items})
	g.waitFor("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	wait(t, 100*time.Millisecond)
	g.waitFor("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	cancel(t, run, object{"mode": "immediate"})
	finished(t, run, "CANCELED")
}

func loopFailure(t *probe.Trial) {
	workflow := func(mode string) string {
		return draw(t, []object{
			set("loop", "FOR_EACH", object{"onItemFailure": mode, "concurrency": 1}), set("if", "IF", object{"expression": "n == 2"}), set("bad", "FAIL", object{"code": "NOT_TWO"}),
			set("value", "TRANSFORM", object{"expression": "n * 10"}), use("answer", "RESPOND"),
		}, []string{"start next loop", "loop each if", "if then bad", "if else value", "loop done answer"},
			"start.items loop.items", "loop.item if.n", "loop.item value.n", "value.result answer.all", "loop.failedItems answer.failed")
	}
	input := object{"items": []int{1, 2, 3}}
	run := ran(t, workflow("continue"), "COMPLETED", input)
	alike(t, "output", run.Output, json.RawMessage(`{"all":[10,null,30],"failed":1}`))
	t.Equal("failedStageCount", run.FailedStageCount, int32(1))
	run = ran(t, workflow("fail"), "FAILED", input)
	t.Equal("became", became(run), "bad FAILED, if COMPLETED, if COMPLETED, loop FAILED, start COMPLETED, value COMPLETED") // the third never began
	t.Equal("the error names the loop", string(*runError(t, run.Error).ComponentID), "loop")
	t.Equal("the code of the error", runError(t, run.Error).Code, "ITEM_FAILED")
	said := runError(t, run.Error).Message
	t.Check(strings.Contains(said, "index 1 ") && strings.Contains(said, "component bad: NOT_TWO: "), "the error does not name the item: %s", said)
	t.Check(isNull(run.Output), "output %s", run.Output)
	// The failure of a loop is handled like any other.
	id := draw(t, []object{use("loop", "FOR_EACH"), use("bad", "FAIL"), use("handled", "RANDOM_UUID")}, []string{"start next loop", "loop each bad", "loop error handled"}, "start.items loop.items")
	run = ran(t, id, "COMPLETED", object{"items": []int{1}})
	t.Equal("became", became(run), "bad FAILED, handled COMPLETED, loop FAILED, start COMPLETED")
}

func loopNested(t *probe.Trial) {
	id := draw(t, []object{
		use("outer", "FOR_EACH"), use("inner", "FOR_EACH"), set("cell", "TRANSFORM", object{"expression": "string(x) + ':' + string(i) + ',' + string(j)"}),
		set("row", "TRANSFORM", object{"expression": "join(cells, ' ')"}), use("answer", "RESPOND"),
	}, []string{"start next outer", "outer each inner", "inner each cell", "inner done row", "outer done answer"},
		"start.rows outer.items", "outer.item inner.items", "inner.item cell.x", "outer.index cell.i", "inner.index cell.j",
		"cell.result row.cells", "row.result answer.rows", "cell.result answer.cells", "inner.count answer.counts")
	run := ran(t, id, "COMPLETED", object{"rows": []any{[]int{7, 8}, []int{}, []int{9}}})
	alike(t, "output", run.Output, json.RawMessage(`{"cells":[["7:0,0","8:0,1"],[],["9:2,0"]],"counts":[2,0,1],"rows":["7:0,0 8:0,1","","9:2,0"]}`))
	var iterations []string
	for _, stage := range stagesOf(run, "cell") {
		iterations = append(iterations, fmt.Sprint(stage.Iteration))
	}
	slices.Sort(iterations)
	t.Equal("iterations", iterations, []string{"[0 0]", "[0 1]", "[2 0]"})
	t.Equal("rows", len(stagesOf(run, "row")), 3)
	run = ran(t, id, "COMPLETED", object{"rows": []any{}})
	alike(t, "output without items", run.Output, json.RawMessage(`{"cells":[],"counts":[],"rows":[]}`))
	t.Equal("became", became(run), "answer COMPLETED, outer COMPLETED, start COMPLETED")
}

func loopBounds(t *probe.Trial) {
	id := draw(t, []object{use("loop", "FOR_EACH"), use("body", "FOR_EACH"), set("same", "TRANSFORM", object{"expression": "1"})},
		[]string{"start next loop", "loop each body", "body each same"}, "start.items loop.items", "start.items body.items")
	for _, items := range []any{make([]int, 10_001), "abc", object{}, nil} {
		run := ran(t, id, "FAILED", object{"items": items})
		fault := runError(t, run.Error)
		t.Check((fault.Code == "INVALID_INPUT" || fault.Code == "LIMIT_EXCEEDED") && string(*fault.ComponentID) == "loop", "%+v", fault)
	}
}
