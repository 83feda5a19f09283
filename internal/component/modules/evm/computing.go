package evm

import (
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/credit"
)

// computing describes a module that asks no node: its output is a function of
// its input. The schemas are the members of objects: what they require, and
// what they have.
type computing struct {
	module, title, description string
	input, config, output      string // no config: one without fields
}

const objectSchema = `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", `

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

// Schemas of what several of these modules take and give.
const (
	privateKeyProperty = `"privateKey": {"type": "string", "format": "evm-private-key", "x-secret": true, "title": "Private key", "description": "The key that signs: 0x and 64 hexadecimal digits. It is kept secret; best is an environment variable that is marked as secret.", "examples": ["0x4646464646464646464646464646464646464646464646464646464646464646"]}`
	signerProperty     = `"signer": {` + addressOut + `, "title": "Signer", "description": "The address of the key that signed, in EIP-55 form.", "examples": ["0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"]}`
	signatureProperty  = `"signature": {"type": "string", "pattern": "^0x[0-9a-f]{130}$", "title": "Signature", "description": "The signature: r, s and v (27 or 28), 65 bytes.", "examples": ["0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c"]}`
)
