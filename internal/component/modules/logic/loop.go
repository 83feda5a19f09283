package logic

import "github.com/weft-automation/weft/internal/component"

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
