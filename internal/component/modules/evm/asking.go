package evm

import (
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// asking describes a module that asks a node once or a few times and changes
// nothing. The schemas are members of objects: what they require, and what they
// have.
type asking struct {
	module, title, description string
	about                      string // the input
	required, input, example   string
	gives                      string // the output
	requiredOut, output        string
}

func (a asking) descriptor() component.Descriptor {
	members := jsonRPCURL
	if a.input != "" {
		members += ", " + a.input
	}
	return component.Descriptor{
		Module: a.module, Title: a.title, Description: a.description, Category: category,
		Input: json.RawMessage(objectSchema + `"description": "` + a.about + `", "required": [` + a.required + `],
			"properties": {` + members + `},
			"examples": [{` + exampleURL + a.example + `}]}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(objectSchema + `"description": "` + a.gives + `", "required": [` + a.requiredOut + `],
			"properties": {` + a.output + `}}`),
		Price: credit.Credits(3), Timeout: 30 * time.Second,
		Effect: component.EffectRead, Repeat: component.RepeatPure, Modes: both,
	}
}
