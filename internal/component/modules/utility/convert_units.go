package utility

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
)

const (
	maxDecimals = 255 // decimals is a uint8 in ERC-20
	maxAmount   = 1000
	maxShown    = 48 // characters of an amount in an error message
)

type convertUnits struct{}

func (convertUnits) Describe() component.Descriptor {
	return component.Computation{
		Module:      "CONVERT_UNITS",
		Title:       "Convert units",
		Description: "Converts an amount between units of a currency without loss of precision. A unit is wei (0 decimals), gwei (9), ether (18), or a number of decimals. For example, to convert 1.5 USDC to the 1500000 base units that a contract expects, convert from 6 to 0. Amounts are never rounded: an amount with a fraction of a base unit is rejected.",
		Category:    category,
		Input: `"description": "The amount and the units.", "required": ["value", "from", "to"], "properties": {
			"value": {"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]+)?$", "maxLength": 1000, "title": "Value", "description": "The amount in the unit given by from, as a decimal string without an exponent.", "examples": ["1.5"]},
			"from": {"type": ["string", "integer"], "pattern": "^(wei|gwei|ether|[0-9]{1,3})$", "minimum": 0, "maximum": 255, "title": "From", "description": "The unit of value: wei, gwei, ether, or a number of decimals from 0 (the base unit) to 255.", "examples": ["ether", 6]},
			"to": {"type": ["string", "integer"], "pattern": "^(wei|gwei|ether|[0-9]{1,3})$", "minimum": 0, "maximum": 255, "title": "To", "description": "The unit of the result: wei, gwei, ether, or a number of decimals from 0 (the base unit) to 255.", "examples": ["wei", 0]}
		}, "examples": [{"value": "1.5", "from": "ether", "to": "wei"}, {"value": "1500000", "from": 0, "to": 6}]`,
		Output: `"description": "The converted amount.", "required": ["result"], "properties": {
			"result": {"type": "string", "pattern": "^-?(0|[1-9][0-9]*)(\\.[0-9]*[1-9])?$", "title": "Result", "description": "The amount in the unit given by to, as a decimal string without trailing zeros. Whole amounts have no decimal point.", "examples": ["1500000000000000000"]}
		}`,
	}.Descriptor()
}

func (convertUnits) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Value    string
		From, To json.RawMessage
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	from, err := decimalsOf("from", input.From)
	if err != nil {
		return component.Result{}, err
	}
	to, err := decimalsOf("to", input.To)
	if err != nil {
		return component.Result{}, err
	}
	result, err := convertAmount(input.Value, from, to)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"result": result})
}

var namedUnits = map[string]int{"wei": 0, "gwei": 9, "ether": 18}

// decimalsOf parses a unit: a name, or a number of decimals as a JSON number or a string. It
// returns INVALID_INPUT for other values.
func decimalsOf(field string, raw json.RawMessage) (int, error) {
	decimals := component.Integer(-1)
	var text string
	isText := json.Unmarshal(raw, &text) == nil
	named, isName := namedUnits[text]
	switch {
	case isName:
		return named, nil
	case isText:
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			decimals = component.Integer(n)
		}
	default:
		if json.Unmarshal(raw, &decimals) != nil {
			decimals = -1
		}
	}
	if decimals < 0 || decimals > maxDecimals {
		return 0, component.Permanent(component.CodeInvalidInput, "%s must be wei, gwei, ether or a number of decimals between 0 and %d, got %s", field, maxDecimals, component.Cut(string(raw), maxShown))
	}
	return int(decimals), nil
}

// shown quotes an amount for an error message, in ASCII and truncated.
func shown(amount string) string {
	if len(amount) > maxShown {
		return strconv.QuoteToASCII(component.Cut(amount, maxShown)) + "..."
	}
	return strconv.QuoteToASCII(amount)
}

// convertAmount moves the decimal point of an amount from one unit to another. It returns
// INVALID_INPUT if the amount has more decimals than its unit; all other results are exact.
func convertAmount(amount string, from, to int) (string, error) {
	digits, negative := strings.CutPrefix(amount, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if whole == "" || point && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" || len(amount) > maxAmount {
		return "", component.Permanent(component.CodeInvalidInput, "value must be a decimal number without an exponent, of at most %d characters, got %s", maxAmount, shown(amount))
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > from {
		return "", component.Permanent(component.CodeInvalidInput, "value must have at most %s, the precision of the unit from; got %d in %s", fault.Count(from, "decimal"), len(fraction), shown(amount))
	}
	// Convert to base units, then pad with zeros so that there is a digit before the new decimal
	// point.
	base := whole + fraction + strings.Repeat("0", from-len(fraction))
	base = strings.Repeat("0", max(0, to+1-len(base))) + base
	whole, fraction = base[:len(base)-to], strings.TrimRight(base[len(base)-to:], "0")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	result := whole
	if fraction != "" {
		result += "." + fraction
	}
	if negative && result != "0" {
		result = "-" + result
	}
	return result, nil
}
