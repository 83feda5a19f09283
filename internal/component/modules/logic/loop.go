package logic

import (
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
)

var forEach = &module{
	flow: component.Flow{Loop: true, Lasts: true},
	Descriptor: lasting(inWorkflows(component.ForEach, "For each",
		"Runs the each branch for every item of an array, several items at a time, then continues at done. If a component after the loop uses an output of the branch, it receives an array with the values of all items, in order.",
		`"description": "The items.", "required": ["items"], "properties": {
			"items": {"type": "array", "items": {}, "maxItems": 10000, "title": "Items", "description": "The items. The maximum is 10,000.", "examples": [["a", "b"]]}
		}, "examples": [{"items": ["a", "b"]}]`,
		`"description": "The settings of the loop.", "properties": {
			"concurrency": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "title": "Concurrency", "description": "The maximum number of items in flight.", "examples": [10]},
			"perSecond": {"type": "number", "minimum": 0.01, "maximum": 1000, "title": "Per second", "description": "How many items start per second, evenly spaced, also after a restart: 0.5 starts one every two seconds. By default, only concurrency limits them. Loops of this component inside another loop share the pace. Retries within an item do not count.", "examples": [10]},
			"onItemFailure": {"type": "string", "enum": ["fail", "continue"], "default": "fail", "title": "On item failure", "description": "fail: no new items start, and the loop fails with ITEM_FAILED, which names the first failed item. continue: the other items continue, and the values of failed items are null.", "examples": ["continue"]}
		}, "examples": [{}, {"concurrency": 5, "onItemFailure": "continue"}, {"perSecond": 10}]`,
		`"description": "In the each branch: the item and its index. After the loop: the counts.", "properties": {
			"item": {"title": "Item", "description": "The item. Available in the each branch.", "examples": ["a"]},
			"index": {"type": "integer", "minimum": 0, "title": "Index", "description": "The index of the item, from 0. Available in the each branch.", "examples": [0]},
			"count": {"type": "integer", "minimum": 0, "title": "Count", "description": "The number of items. Available after the loop.", "examples": [2]},
			"failedItems": {"type": "integer", "minimum": 0, "title": "Failed items", "description": "The number of failed items. Available after the loop.", "examples": [0]}
		}`), maxDelay),
}

var repeat = &module{
	flow: component.Flow{Loop: true, Repeats: true, Lasts: true, Ports: []string{graph.PortExhausted}},
	Descriptor: lasting(inWorkflows(component.RepeatLoop, "Repeat",
		"Runs the each branch again and again, one iteration after the other, until a CONTINUE in it says that it is done: to follow a cursor, to poll a job, to empty a queue. If an iteration reaches no CONTINUE, the loop is done too. If a component after the loop uses an output of the branch, it receives an array with the values of all iterations, in order.",
		`"description": "What the first iteration starts with.", "properties": {
			"state": {"title": "State", "description": "The state of the first iteration, of any type. Defaults to null.", "examples": [{"cursor": null}]}
		}, "examples": [{}, {"state": {"cursor": null}}]`,
		`"description": "The limits of the loop. If they leave no further iteration, the port exhausted fires, or without an edge from it, the loop fails with LOOP_EXHAUSTED.", "required": ["maxIterations"], "properties": {
			"maxIterations": {"type": "integer", "minimum": 1, "maximum": 10000, "title": "Maximum iterations", "description": "The maximum number of iterations.", "examples": [500]},
			"delayMs": {"type": "integer", "minimum": 0, "maximum": 86400000, "default": 0, "title": "Delay", "description": "The pause between two iterations, in milliseconds.", "examples": [5000]},
			"maxDurationMs": {"type": "integer", "minimum": 1000, "maximum": 2592000000, "title": "Maximum duration", "description": "The time after which no further iteration starts, in milliseconds from the start of the loop. The running iteration may finish.", "examples": [3600000]}
		}, "examples": [{"maxIterations": 500}, {"maxIterations": 720, "delayMs": 5000, "maxDurationMs": 3600000}]`,
		`"description": "In the each branch: the state and the index of the iteration. After the loop: the last state and the number of iterations.", "properties": {
			"state": {"title": "State", "description": "In the each branch: the state with which the iteration started. After the loop: the last state.", "examples": [{"cursor": "b2"}]},
			"index": {"type": "integer", "minimum": 0, "title": "Index", "description": "The index of the iteration, from 0. Available in the each branch.", "examples": [0]},
			"count": {"type": "integer", "minimum": 1, "title": "Count", "description": "The number of iterations. Available after the loop.", "examples": [3]}
		}`), maxDelay),
}

var continueLoop = &module{
	flow: component.Flow{Continues: true, Ports: []string{}},
	Descriptor: inWorkflows(component.Continue, "Continue",
		"Ends an iteration of the REPEAT around it, and says what the next iteration starts with, or that the loop is done. An iteration ends when all its branches have ended, and may reach at most one CONTINUE.",
		`"description": "What follows the iteration.", "properties": {
			"state": {"title": "State", "description": "The state with which the next iteration starts, of any type. Defaults to the state of this iteration.", "examples": [{"cursor": "b2"}]},
			"done": {"type": "boolean", "default": false, "title": "Done", "description": "Whether the loop is done. If so, the state is the output of the loop.", "examples": [false]}
		}, "examples": [{"state": {"cursor": "b2"}, "done": false}, {"done": true}]`,
		component.NoFields,
		`"description": "The state and whether the loop is done.", "properties": {
			"state": {"title": "State", "description": "The state with which the next iteration starts.", "examples": [{"cursor": "b2"}]},
			"done": {"type": "boolean", "title": "Done", "description": "Whether the loop is done.", "examples": [false]}
		}`),
}
