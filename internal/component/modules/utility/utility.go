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
