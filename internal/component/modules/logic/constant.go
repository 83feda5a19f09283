package logic

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/reference"
)

var (
	stringConstant  = constant(component.StringConstant, "String", "string", `"0x7c3aed0f1a2b3c4d5e6f708192a3b4c5d6e7f809"`)
	numberConstant  = constant(component.NumberConstant, "Number", "number", `42`)
	booleanConstant = constant(component.BooleanConstant, "Boolean", "boolean", `true`)
	jsonConstant    = constant(component.JSONConstant, "JSON", "", `{"name": "ada", "limits": [1, 2]}`)
)

// constant returns a module that outputs the value in its config. kind is the type of the value, or
// "" for any type.
func constant(name, title, kind, example string) *module {
	typed, what := `"type": "`+kind+`", `, "a "+kind
	if kind == "" {
		typed, what = "", "any value"
	}
	return &module{
		flow: component.Flow{Gives: givesValue},
		Descriptor: inWorkflows(name, title+" constant",
			"Returns "+what+" that is stored in the workflow.",
			component.NoFields,
			fmt.Sprintf(`"description": "The value.", "required": ["value"], "properties": {"value": {%s"title": "Value", "description": "The value to return.", "examples": [%s]}}, "examples": [{"value": %[2]s}]`, typed, example),
			fmt.Sprintf(`"description": "The value.", "required": ["value"], "properties": {"value": {%s"title": "Value", "description": "The value from the config.", "examples": [%s]}}`, typed, example)),
		evaluate: func(_, config json.RawMessage, _ Scope) (Outcome, error) {
			c, err := members(config)
			if err != nil {
				return Outcome{}, err
			}
			value, ok := c["value"]
			if !ok || kind != "" && !isOf(value, kind) {
				return Outcome{}, component.Permanent(component.CodeInvalidInput, "value must be %s", what)
			}
			return result(graph.PortNext, map[string]any{"value": value})
		},
	}
}

var wholeNumber = regexp.MustCompile(`^-?\d+(\.0+)?$`)

// isOf reports whether a value has a JSON Schema type.
func isOf(value any, kind string) bool {
	switch value := value.(type) {
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	case json.Number:
		return kind == "number" || kind == "integer" && wholeNumber.MatchString(value.String())
	}
	return false
}

// maxItems is the maximum number of inputs of ARRAY_BUILDER.
const maxItems = 1000

var arrayBuilder = &module{
	Descriptor: inWorkflows(component.ArrayBuilder, "Array builder",
		"Builds an array from its inputs, which are named 0, 1, 2 and so on. Inputs without a value, for example from a branch that wasn't taken, are left out.",
		`"description": "The items, by index.", "properties": {}, "patternProperties": {"^(0|[1-9][0-9]{0,2})$": {}}, "additionalProperties": false, "examples": [{"0": "first", "1": "second"}]`,
		`"description": "The type of the items.", "properties": {
			"itemType": {"type": "string", "enum": ["any", "string", "number", "integer", "boolean", "object", "array"], "default": "any", "title": "Item type", "description": "The type that every item must have.", "examples": ["string"]}
		}, "examples": [{}, {"itemType": "string"}]`,
		`"description": "The array.", "required": ["array"], "properties": {
			"array": {"type": "array", "items": {}, "title": "Array", "description": "The items, in the order of their indexes.", "examples": [["first", "second"]]}
		}`),
	evaluate: func(input, config json.RawMessage, _ Scope) (Outcome, error) {
		c, err := component.Decode[struct{ ItemType string }](config)
		if err != nil {
			return Outcome{}, err
		}
		given, err := members(input)
		if err != nil {
			return Outcome{}, err
		}
		return build(given, c.ItemType)
	},
	whole: checkItems,
}

// checkItems reports literal items that don't have the type itemType. It skips items that
// connections overwrite, and strings with environment variables if the expanded value could have
// the type.
func checkItems(input, config json.RawMessage, bound []string) (all []fault.Detail) {
	c, err := component.Decode[struct{ ItemType string }](config)
	given, unread := members(input)
	if err != nil || unread != nil || c.ItemType == "" || c.ItemType == "any" || reference.In(c.ItemType) {
		return nil
	}
	connected := map[string]bool{} // inputs that receive a value from a connection
	for _, path := range bound {
		for i, c := range path {
			if c == '.' {
				connected[path[:i]] = true
			}
		}
		connected[path] = true
	}
	for _, place := range slices.Sorted(maps.Keys(given)) {
		if len(all) > fault.MaxDetails {
			break
		}
		text, isText := given[place].(string)
		later := isText && reference.In(text) && slices.Contains([]string{"string", "number", "integer"}, c.ItemType) || connected[place]
		if !later && !isOf(given[place], c.ItemType) {
			all = append(all, fault.Detail{Code: string(fault.InvalidInput), Pointer: "/input/" + place, Message: "must be of the type " + c.ItemType + ", as set by itemType"})
		}
	}
	return all
}

func build(given map[string]any, kind string) (Outcome, error) {
	var places []int
	for name := range given {
		place, err := strconv.Atoi(name)
		if err != nil || place < 0 || place >= maxItems || strconv.Itoa(place) != name {
			return Outcome{}, component.Permanent(component.CodeInvalidInput, "the inputs must be named with indexes from 0 to %d", maxItems-1)
		}
		places = append(places, place)
	}
	slices.Sort(places)
	items := make([]any, 0, len(places))
	for _, place := range places {
		item := given[strconv.Itoa(place)]
		if kind != "" && kind != "any" && !isOf(item, kind) {
			return Outcome{}, component.Permanent(component.CodeInvalidInput, "item %d must be of the type %s", place, kind)
		}
		items = append(items, item)
	}
	return result(graph.PortNext, map[string]any{"array": items})
}
