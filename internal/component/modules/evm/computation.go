package evm

import (
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// computation describes a module that doesn't query a node: its output depends only on its input.
// Each schema string is the part of an object schema after "type".
type computation struct {
	module, title, description string
	input, config, output      string // an empty config means a config without fields
}

func (c computation) descriptor() component.Descriptor {
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
