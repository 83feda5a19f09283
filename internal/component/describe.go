package component

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/kit/credit"
)

// Object returns the JSON Schema of an object with these keywords, such as `"properties": {}`.
func Object(keywords string) json.RawMessage {
	return json.RawMessage(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", ` + keywords + `}`)
}

// NoFields are the keywords of an object without fields.
const NoFields = `"description": "No fields.", "properties": {}, "examples": [{}]`

// Anywhere returns the modes of a module that runs on its own and in workflows.
func Anywhere() []Mode { return []Mode{ModeComponent, ModeWorkflow} }

// Computation describes a module that only computes its output from its input, or at random. Input,
// Config and Output are keywords of objects; "" means NoFields.
type Computation struct {
	Module, Title, Description, Category string
	Input, Config, Output                string
}

// Descriptor returns the description of the module.
func (c Computation) Descriptor() Descriptor {
	return Descriptor{
		Module: c.Module, Title: c.Title, Description: c.Description, Category: c.Category,
		Input: Object(cmp.Or(c.Input, NoFields)), Config: Object(cmp.Or(c.Config, NoFields)), Output: Object(cmp.Or(c.Output, NoFields)),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: EffectNone, Repeat: RepeatPure, Modes: Anywhere(),
	}
}
