package contract

import (
	"encoding/json"
	"math/big"
	"slices"

	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// fits reports whether the Go type that is generated for a schema can hold a value. A value that
// doesn't fit always violates the schema.
func fits(schema *jsonschema.Compiled, raw json.RawMessage) bool {
	if string(raw) == "null" && nullable(schema) {
		return true
	}
	schema, _ = present(schema)
	names := types(schema)
	if len(names) == 0 {
		return true
	}
	switch c := raw[0]; {
	case c == '{':
		return slices.Contains(names, "object")
	case c == '[':
		return slices.Contains(names, "array")
	case c == '"':
		return slices.Contains(names, "string")
	case c == 't' || c == 'f':
		return slices.Contains(names, "boolean")
	case c == 'n':
		return slices.Contains(names, "null")
	}
	return slices.Contains(names, "number") || slices.Contains(names, "integer") && isWhole(schema, string(raw))
}

// isWhole reports whether a number is an integer between the bounds of a schema.
func isWhole(schema *jsonschema.Compiled, number string) bool {
	text, whole := jsonschema.Decimal(number)
	value, ok := new(big.Rat).SetString(text)
	return whole && ok && (schema.Minimum == nil || value.Cmp(schema.Minimum) >= 0) && (schema.Maximum == nil || value.Cmp(schema.Maximum) <= 0)
}
