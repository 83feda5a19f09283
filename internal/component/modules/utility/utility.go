// Package utility implements the modules of the category UTILITY, which compute a function of their
// input or generate random values, without side effects.
//
// Each module has its own file and a line in the following table. A module in this package must not
// open a connection, read a clock that its output depends on, or keep state.
package utility

import "github.com/weft-automation/weft/internal/component"

const category = "UTILITY"

// Modules returns the modules of the category UTILITY.
func Modules() []component.Module {
	return []component.Module{
		randomUUID{},
		randomHex{},
		hash{},
		hmac{},
		encode{},
		decode{},
		jsonParse{},
		jsonStringify{},
		bigintCalculate{},
		convertUnits{},
		formatDate{},
		regexMatch{},
		generateAgeEncryption{},
		ageEncrypt{},
		ageDecrypt{},
	}
}

// both are the modes of a module that runs on its own and in workflows.
var both = []component.Mode{component.ModeComponent, component.ModeWorkflow}

// emptySchema is the schema of a config without fields.
const emptySchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","description":"No fields.","properties":{},"examples":[{}]}`
