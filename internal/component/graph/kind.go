package graph

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// kinds is a set of the types of JSON values. A whole number is an integer,
// however it is written, as in JSON Schema.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindInteger
	kindFraction
	kindString
	kindArray
	kindObject

	kindNumber = kindInteger | kindFraction
	anyKind    = kindNull | kindBoolean | kindNumber | kindString | kindArray | kindObject
)

// named are the kinds by the words of JSON Schema.
var named = map[string]kinds{
	"null": kindNull, "boolean": kindBoolean, "integer": kindInteger, "number": kindNumber,
	"string": kindString, "array": kindArray, "object": kindObject,
}

func (k kinds) String() string {
	var words []string
	for _, word := range []struct {
		kinds kinds
		text  string
	}{{kindString, "a string"}, {kindFraction, "a number"}, {kindInteger, "an integer"}, {kindBoolean, "a boolean"}, {kindArray, "an array"}, {kindObject, "an object"}, {kindNull, "null"}} {
		covered := word.kinds == kindInteger && k&kindFraction != 0
		if k&word.kinds != 0 && !covered {
			words = append(words, word.text)
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " or ")
}

// becomes reports whether a value of one of the kinds can be one of the others,
// perhaps by a lossless conversion (decisions 8.4).
func (k kinds) becomes(taken kinds) bool {
	return k&taken != 0 ||
		k&kindNumber != 0 && taken&kindString != 0 ||
		k&kindString != 0 && taken&kindInteger != 0
}

func kindOf(value any) kinds {
	switch value := value.(type) {
	case nil:
		return kindNull
	case bool:
		return kindBoolean
	case json.Number:
		if _, whole := plain(value.String()); whole {
			return kindInteger
		}
		return kindFraction
	case string:
		return kindString
	case []any:
		return kindArray
	}
	return kindObject
}

// The bounds of one reading: what a schema says beyond them is not read.
const (
	maxSteps  = 10_000
	perByte   = 8 // further steps for each byte of a value
	maxLevels = 200
)

// reader reads schemas, which may refer to themselves, in a bounded number of steps.
type reader struct {
	left  int
	level int
}

// enter begins a step, which leave ends. It is false where no step is left.
func (r *reader) enter() bool {
	r.left--
	r.level++
	return r.left >= 0 && r.level <= maxLevels
}

func (r *reader) leave() { r.level-- }

// kinds are the kinds of the values that a schema allows.
func (r *reader) kinds(s shape) kinds {
	defer r.leave()
	if !r.enter() {
		return anyKind
	}
	s = s.resolved()
	if s.node == false {
		return 0
	}
	allowed := declared(s.keyword("type"))
	if values := finite(s); values != nil {
		var union kinds
		for _, value := range values {
			union |= kindOf(value)
		}
		allowed &= union
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var union kinds
		for _, branch := range s.branches(keyword) {
			union |= r.kinds(branch)
		}
		if s.keyword(keyword) != nil && union != 0 {
			allowed &= union
		}
	}
	for _, branch := range s.branches("allOf") {
		allowed &= r.kinds(branch)
	}
	return allowed
}

// declared are the kinds of the keyword type.
func declared(keyword any) kinds {
	var union kinds
	switch keyword := keyword.(type) {
	case string:
		union = named[keyword]
	case []any:
		for _, word := range keyword {
			name, _ := word.(string)
			union |= named[name]
		}
	}
	if union == 0 {
		return anyKind
	}
	return union
}

// finite are the values of enum or const; nil where there is neither.
func finite(s shape) []any {
	node, _ := s.node.(map[string]any)
	if value, ok := node["const"]; ok {
		return []any{value}
	}
	values, _ := node["enum"].([]any)
	return values
}

// mismatch says why no value of one shape that is worth connecting fits into the
// other one. Where one could, it is empty, and the value itself is judged when it
// arrives.
func (r *reader) mismatch(given, taken shape) string {
	defer r.leave()
	if !r.enter() {
		return ""
	}
	given, taken = given.resolved(), taken.resolved()
	gives, takes := r.kinds(given), r.kinds(taken)
	if gives == 0 {
		return ""
	}
	if gives != kindNull && takes != kindNull {
		gives &^= kindNull // that null alone would fit helps nobody
	}
	if !gives.becomes(takes) {
		return fmt.Sprintf("it gives %s, and %s is taken", gives, takes)
	}
	if values := finite(given); values != nil && !slices.ContainsFunc(values, func(value any) bool { return r.fits(value, taken) }) {
		return "none of the values that it can give is one of those that are taken"
	}
	switch gives {
	case kindArray:
		if reason := r.mismatch(given.item(0), taken.item(0)); reason != "" && takes&kindArray != 0 {
			return "as an item of the array, " + reason
		}
	case kindObject:
		return r.members(given, taken)
	}
	return ""
}

// members is mismatch for the members of two objects that are certain to be there.
func (r *reader) members(given, taken shape) string {
	always := append(given.required(), taken.required()...)
	for _, name := range taken.names() {
		want, _ := taken.property(name)
		have, there := given.property(name)
		if !slices.Contains(always, name) {
			continue
		}
		closed := given.keyword("additionalProperties") == false && given.keyword("patternProperties") == nil && !given.combined()
		if !there && closed {
			return fmt.Sprintf("it has no member %s, which is required", quote(name))
		}
		if there {
			if reason := r.mismatch(have, want); reason != "" {
				return fmt.Sprintf("as the member %s, %s", quote(name), reason)
			}
		}
	}
	return ""
}

// fits reports whether one value can be taken.
func (r *reader) fits(value any, taken shape) bool {
	converted, _, fault := r.convert(clone(value), taken)
	if fault != nil {
		return false
	}
	values := finite(taken)
	return values == nil || slices.ContainsFunc(values, func(other any) bool { return equal(converted, other) })
}

// equal compares two values of JSON, numbers by their worth.
func equal(a, b any) bool {
	first, isNumber := a.(json.Number)
	second, too := b.(json.Number)
	if isNumber && too {
		one, _ := plain(first.String())
		other, _ := plain(second.String())
		return one != "" && one == other
	}
	return reflect.DeepEqual(a, b)
}
