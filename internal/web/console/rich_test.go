package console_test

import (
	"fmt"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/program/pagetest"
	"github.com/weft-automation/weft/internal/web/browsertest"
)

// settlement returns a workflow of 4 × parts + 4 components that splits and joins.
func settlement(parts int) object {
	var components, edges []object
	add := func(id, module, name string, config object, from ...string) {
		components = append(components, object{"id": id, "module": module, "name": name, "input": object{}, "config": config})
		for _, one := range from {
			edges = append(edges, object{"id": fmt.Sprint("e", len(edges)), "from": one, "to": id})
		}
	}
	add("start", "ON_API_CALLED", "Order received", object{})
	last := "start"
	for i := range parts {
		prepare, left, right, join := fmt.Sprint("prepare", i), fmt.Sprint("fee", i), fmt.Sprint("number", i), fmt.Sprint("join", i)
		add(prepare, "TRANSFORM", fmt.Sprint("Prepare part ", i+1), object{"expression": "{'part': 1}"}, last)
		add(left, "TRANSFORM", fmt.Sprint("Fee of part ", i+1), object{"expression": "2.5 * 4"}, prepare)
		add(right, "RANDOM_UUID", fmt.Sprint("Number of part ", i+1), object{}, prepare)
		add(join, "TRANSFORM", fmt.Sprint("Book part ", i+1), object{"expression": "{'booked': true}"}, left, right)
		last = join
	}
	add("check", "IF", "Is it complete?", object{"expression": "true"}, last)
	add("answer", "RESPOND", "Answer the caller", object{})
	add("alert", "FAIL", "Something is missing", object{"code": "INCOMPLETE", "message": "A part is missing."})
	edges = append(edges, object{"id": "then", "from": "check", "to": "answer", "port": "then"}, object{"id": "else", "from": "check", "to": "alert", "port": "else"})
	return object{"name": fmt.Sprint("settlement of ", 4*parts+4), "description": "", "components": components, "sequenceEdges": edges, "dataConnections": []object{}}
}

// payouts returns a workflow with a loop in which each 97th item fails.
func payouts(items int) object {
	accounts := make([]int, items)
	for i := range accounts {
		accounts[i] = i + 1
	}
	component := func(id, module, name string, config object) object {
		return object{"id": id, "module": module, "name": name, "input": object{}, "config": config}
	}
	edge := func(from, to, port string) object {
		return object{"id": from + to, "from": from, "to": to, "port": port}
	}
	data := func(from, output, to, input string) object {
		return object{"id": from + output + to, "from": object{"componentId": from, "output": output}, "to": object{"componentId": to, "input": input}}
	}
	return object{
		"name": fmt.Sprint("payouts to ", items), "description": "",
		"components": []object{
			component("start", "ON_API_CALLED", "Every night", object{}), component("list", "JSON_CONSTANT", "Which accounts", object{"value": accounts}),
			component("each", "FOR_EACH", "For each account", object{"concurrency": 16, "onItemFailure": "continue"}),
			component("check", "IF", "Is it suspicious?", object{"expression": "item % 97 == 0"}),
			component("reject", "FAIL", "Reject it", object{"code": "SUSPICIOUS", "message": "The account is suspicious."}),
			component("book", "TRANSFORM", "Book it", object{"expression": "item * 2"}), component("answer", "RESPOND", "Report", object{}),
		},
		"sequenceEdges": []object{
			edge("start", "list", "next"), edge("list", "each", "next"), edge("each", "check", "each"), edge("check", "reject", "then"), edge("check", "book", "else"), edge("each", "answer", "done"),
		},
		"dataConnections": []object{
			data("list", "value", "each", "items"), data("each", "item", "check", "item"), data("each", "item", "book", "item"), data("each", "failedItems", "answer", "failed"),
		},
	}
}

// testdata/rich.mjs opens pages with a lot on them, prints their weight and how long they take, and
// saves pictures of them if WEFT_PICTURES is set.
func TestPagesCarryRichRuns(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	final := func(workflow object) (path string) {
		path = p.Run(p.API("", workflow).ID, object{"order": "4711"})
		p.Wait(path, `data-final`)
		return path
	}
	wide, long := final(settlement(14)), final(settlement(waittest.Size(30, 124)))
	loop := final(payouts(waittest.Size(1_000, 10_000)))
	waiting := p.Run(p.Create("approval", trigger, approval, respond), object{"amount": "1000", "currency": "EUR"})
	good, bad := p.Create("nightly report", trigger, respond), p.Create("charge the card", trigger, failing)
	for i := range waittest.Size(100, 2_000) {
		if i%9 == 0 {
			p.Run(bad, nil)
		}
		p.Run(good, nil)
	}
	t.Log(browsertest.Run(t, "testdata/rich.mjs", "BASE_URL="+p.URL, "EMAIL="+pagetest.Email, "PASSWORD="+pagetest.Password,
		"RUNS="+p.Base+"/runs", "WIDE="+wide, "LONG="+long, "LOOP="+loop, "WAITING="+waiting, "FAILED="+p.Run(bad, nil)))
}
