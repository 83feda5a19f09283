package jsonschema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// TypeSet is a set of the types of JSON values. As in JSON Schema, a whole number such as 1.0 is
// an integer.
type TypeSet uint8

const (
	typeNull TypeSet = 1 << iota
	typeBoolean
	typeInteger
	typeFraction
	typeString
	typeArray
	typeObject

	typeNumber = typeInteger | typeFraction

	// AnyType is the set of all types.
	AnyType = typeNull | typeBoolean | typeNumber | typeString | typeArray | typeObject
)

var typesByName = map[string]TypeSet{
	"null": typeNull, "boolean": typeBoolean, "integer": typeInteger, "number": typeNumber,
	"string": typeString, "array": typeArray, "object": typeObject,
}

// String returns the types in the form for messages: "a string or an integer".
func (t TypeSet) String() string {
	var words []string
	for _, word := range []struct {
		types TypeSet
		text  string
	}{{typeBoolean, "a boolean"}, {typeFraction, "a number"}, {typeInteger, "an integer"}, {typeString, "a string"}, {typeArray, "an array"}, {typeObject, "an object"}, {typeNull, "null"}} {
		covered := word.types == typeInteger && t&typeFraction != 0
		if t&word.types != 0 && !covered {
			words = append(words, word.text)
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " or ")
}

// AllowsText reports whether the set has strings, or numbers, which can be written as strings.
func (t TypeSet) AllowsText() bool { return t&(typeString|typeNumber) != 0 }

// IsBoolean reports whether the set has only booleans.
func (t TypeSet) IsBoolean() bool { return t == typeBoolean }

// converts reports whether a value of one of the types can become a value of one of the others,
// unchanged or by a lossless conversion (decisions 8.4).
func (t TypeSet) converts(to TypeSet) bool {
	return t&to != 0 ||
		t&typeNumber != 0 && to&typeString != 0 ||
		t&typeString != 0 && to&typeInteger != 0
}

// TypeOf returns the type of a decoded value.
func TypeOf(value any) TypeSet {
	switch value := value.(type) {
	case nil:
		return typeNull
	case bool:
		return typeBoolean
	case json.Number:
		if _, whole := Decimal(value.String()); whole {
			return typeInteger
		}
		return typeFraction
	case string:
		return typeString
	case []any:
		return typeArray
	}
	return typeObject
}

// The bounds of one walk. Parts of a schema beyond the bounds are ignored.
const (
	maxSteps  = 10_000
	perByte   = 8 // further steps for each byte of a value
	maxLevels = 200
)

// walker reads schemas, which may refer to themselves, in a bounded number of steps.
type walker struct {
	left  int
	level int
}

// enter starts a step, which leave finishes. It returns false if no steps are left.
func (w *walker) enter() bool {
	w.left--
	w.level++
	return w.left >= 0 && w.level <= maxLevels
}

func (w *walker) leave() { w.level-- }

// TypeSet returns the types of the values that the schema allows.
func (s *Schema) TypeSet() TypeSet { return (&walker{left: maxSteps}).types(s) }

func (w *walker) types(s *Schema) TypeSet {
	defer w.leave()
	if !w.enter() {
		return AnyType
	}
	if s = s.Resolve(); s == nil {
		return AnyType
	}
	if s.Never {
		return 0
	}
	allowed := typesOf(s.Types)
	if allowed == 0 {
		allowed = AnyType
	}
	if s.Values() != nil {
		var union TypeSet
		for _, value := range s.values {
			union |= TypeOf(value)
		}
		allowed &= union
	}
	for _, branches := range [][]*Schema{s.AnyOf, s.OneOf} {
		var union TypeSet
		for _, branch := range branches {
			union |= w.types(branch)
		}
		if union != 0 {
			allowed &= union
		}
	}
	for _, branch := range s.AllOf {
		allowed &= w.types(branch)
	}
	return allowed
}

// typesOf returns the types of these names.
func typesOf(names []string) (types TypeSet) {
	for _, name := range names {
		types |= typesByName[name]
	}
	return types
}

// Mismatch returns the reason why no value of one schema, except null, fits into the other
// schema. It returns "" if a value may fit. In that case, the value itself is checked when it
// arrives.
func Mismatch(given, taken *Schema) string {
	return (&walker{left: maxSteps}).mismatch(given, taken)
}

func (w *walker) mismatch(given, taken *Schema) string {
	defer w.leave()
	if !w.enter() {
		return ""
	}
	given, taken = given.Resolve(), taken.Resolve()
	gives, takes := w.types(given), w.types(taken)
	if gives == 0 {
		return ""
	}
	if gives != typeNull && takes != typeNull {
		gives &^= typeNull // a connection on which only null fits is useless
	}
	if !gives.converts(takes) {
		return fmt.Sprintf("it is %s, but %s is expected", gives, takes)
	}
	if given.Values() != nil && !slices.ContainsFunc(given.values, func(value any) bool { return w.fits(value, taken) }) {
		return "none of its possible values is accepted"
	}
	switch gives {
	case typeArray:
		if reason := w.mismatch(given.Item(0), taken.Item(0)); reason != "" && takes&typeArray != 0 {
			return "as an item of the array, " + reason
		}
	case typeObject:
		return w.memberMismatch(given, taken)
	}
	return ""
}

// memberMismatch is mismatch for the members of two objects that are certain to be there.
func (w *walker) memberMismatch(given, taken *Schema) string {
	always := slices.Concat(given.RequiredNames(), taken.RequiredNames())
	for _, name := range taken.Names() {
		want, _ := taken.Property(name)
		have, there := given.Property(name)
		if !slices.Contains(always, name) {
			continue
		}
		closed := given != nil && given.AdditionalProperties != nil && given.AdditionalProperties.Never && given.PatternProperties == nil && !given.open()
		if !there && closed {
			return fmt.Sprintf("it has no field %s, which is required", fault.Quote(name, maxName))
		}
		if there {
			if reason := w.mismatch(have, want); reason != "" {
				return fmt.Sprintf("in the field %s, %s", fault.Quote(name, maxName), reason)
			}
		}
	}
	return ""
}

const maxName = 128 // characters of a name in a message

// fits reports whether a value can be taken.
func (w *walker) fits(value any, taken *Schema) bool {
	converted, _, mismatch := w.convert(clone(value), taken)
	if mismatch != nil {
		return false
	}
	return taken.Values() == nil || slices.ContainsFunc(taken.values, func(other any) bool { return equal(converted, other) })
}

// equal compares two JSON values, numbers by their value.
func equal(a, b any) bool {
	first, isNumber := a.(json.Number)
	second, too := b.(json.Number)
	if isNumber && too {
		one, _ := Decimal(first.String())
		other, _ := Decimal(second.String())
		return one != "" && one == other
	}
	return reflect.DeepEqual(a, b)
}

// clone copies the containers of a value.
func clone(value any) any {
	switch value := value.(type) {
	case []any:
		items := slices.Clone(value)
		for i := range items {
			items[i] = clone(items[i])
		}
		return items
	case map[string]any:
		members := make(map[string]any, len(value))
		for name, member := range value {
			members[name] = clone(member)
		}
		return members
	}
	return value
}
