package evm

import (
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/credit"
)

const schemaHead = `"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"`

// Schemas of the scalars, in the form of our outputs. A pattern of digits alone
// makes a string the bigint of typed clients.
const (
	decimalOut         = `"type": "string", "pattern": "^(0|[1-9][0-9]*)$"`
	nullableDecimalOut = `"type": ["string", "null"], "pattern": "^(0|[1-9][0-9]*)$"`
	hashOut            = `"type": "string", "pattern": "^0x[0-9a-f]{64}$"`
	nullableHashOut    = `"type": ["string", "null"], "pattern": "^0x[0-9a-f]{64}$"`
	addressOut         = `"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"`
	nullableAddressOut = `"type": ["string", "null"], "pattern": "^0x[0-9a-fA-F]{40}$"`
	bytesOut           = `"type": "string", "pattern": "^0x([0-9a-f]{2})*$"`
	nullableBytesOut   = `"type": ["string", "null"], "pattern": "^0x([0-9a-f]{2})*$"`
)

// Schemas of inputs that several modules have. A decimal has its bounds in its
// format, and the pattern for typed clients.
const (
	uint256In = `"type": "string", "pattern": "^(0|[1-9][0-9]*)$", "maxLength": 78, "format": "evm-uint256"`
	uint64In  = `"type": "string", "pattern": "^(0|[1-9][0-9]*)$", "maxLength": 20, "format": "evm-uint64"`
	blockIn   = `"type": ["string", "integer"], "format": "evm-block", "minimum": 0, "maximum": 9007199254740991, "maxLength": 80`

	calldataIn = `"type": "string", "format": "hex-bytes", "maxLength": 262146`
	exampleURL = `"jsonRpcUrl": "https://rpc.example.com/v1/mainnet"`
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
		Input: json.RawMessage(`{` + schemaHead + `, "description": "` + a.about + `", "required": [` + a.required + `],
			"properties": {` + members + `},
			"examples": [{` + exampleURL + a.example + `}]}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(`{` + schemaHead + `, "description": "` + a.gives + `", "required": [` + a.requiredOut + `],
			"properties": {` + a.output + `}}`),
		Price: credit.Credits(3), Timeout: 30 * time.Second,
		Effect: component.EffectRead, Repeat: component.RepeatPure, Modes: both,
	}
}
