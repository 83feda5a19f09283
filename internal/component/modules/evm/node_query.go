package evm

import (
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// nodeQuery describes a module that sends a few read-only requests to a node. required and
// requiredOut list the required properties; input and output are the properties.
type nodeQuery struct {
	module, title, description string
	about                      string // description of the input
	required, input, example   string
	returns                    string // description of the output
	requiredOut, output        string
}

func (q nodeQuery) descriptor() component.Descriptor {
	properties := jsonRPCURL + ", " + nodeHeaders
	if q.input != "" {
		properties += ", " + q.input
	}
	return component.Descriptor{
		Module: q.module, Title: q.title, Description: q.description, Category: category,
		Input: component.Object(`"description": "` + q.about + `", "required": [` + q.required + `],
			"properties": {` + properties + `},
			"examples": [{` + exampleURL + q.example + `}]`),
		Config: component.Object(component.NoFields),
		Output: component.Object(`"description": "` + q.returns + `", "required": [` + q.requiredOut + `],
			"properties": {` + q.output + `}`),
		Price: credit.Credits(3), Timeout: 30 * time.Second,
		Effect: component.EffectRead, Repeat: component.RepeatPure, Modes: component.Anywhere(),
	}
}
