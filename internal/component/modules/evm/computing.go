package evm

import (
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// computing describes a module that asks no node: its output is a function of
// its input. The schemas are the members of objects: what they require, and
// what they have.
type computing struct {
	module, title, description string
	input, config, output      string // no config: one without fields
}

func (c computing) descriptor() component.Descriptor {
	config := emptySchema
	if c.config != "" {
		config = objectSchema + c.config + `}`
	}
	return component.Descriptor{
		Module: c.module, Title: c.title, Description: c.description, Category: category,
		Input: json.RawMessage(objectSchema + c.input + `}`), Config: json.RawMessage(config), Output: json.RawMessage(objectSchema + c.output + `}`),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
}
