package logic

import "github.com/weft-automation/weft/internal/component"

var forEach = &module{
	flow: component.Flow{Loop: true, Lasts: true},
	Descriptor: lasting(inWorkflows("FOR_EACH", "For each",
		"Runs what follows by each once for every item of an array, several of them at a time, and goes on by done when all are over. An output of its body that is connected to what comes after it is the array of the values of all items, in their order.",
		`"description": "What to go through.", "required": ["items"], "properties": {
			"items": {"type": "array", "items": {}, "maxItems": 10000, "title": "Items", "description": "The items, 10,000 at most.", "examples": [["a", "b"]]}
		}, "examples": [{"items": ["a", "b"]}]`,
		`"description": "How to go through it.", "properties": {
			"concurrency": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "title": "Concurrency", "description": "How many items are under way at once, at most.", "examples": [10]},
			"onItemFailure": {"type": "string", "enum": ["fail", "continue"], "default": "fail", "title": "On the failure of an item", "description": "fail: nothing new begins, and it fails with ITEM_FAILED, which names the first item that failed. continue: the others go on, and the values of the failed item are null.", "examples": ["continue"]}
		}, "examples": [{}, {"concurrency": 5, "onItemFailure": "continue"}]`,
		`"description": "Inside the body the item and its index, after it the counts.", "properties": {
			"item": {"title": "Item", "description": "In the body: the item.", "examples": ["a"]},
			"index": {"type": "integer", "minimum": 0, "title": "Index", "description": "In the body: its index, from 0.", "examples": [0]},
			"count": {"type": "integer", "minimum": 0, "title": "Count", "description": "After it: how many items there were.", "examples": [2]},
			"failedItems": {"type": "integer", "minimum": 0, "title": "Failed items", "description": "After it: how many of them failed.", "examples": [0]}
		}`), maxDelay),
}
