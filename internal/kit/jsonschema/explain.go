package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strconv"
	"strings"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/weft-automation/weft/internal/kit/fault"
)

const (
	maxValue   = 48 // characters of a value in a message
	maxReason  = 200
	maxListing = 20 // allowed values named in a message
)

// Violation is one violation of a schema by a value.
type Violation struct {
	At       []string // the names and indexes that lead to the value
	Message  string
	Presence bool    // the fault is the presence or absence of the value at At, not the value
	Allowed  TypeSet // the allowed types if the value has another type, otherwise 0
}

// Violations checks a value and yields its violations of the schema. An invalid value has at
// least one violation. The consumer may stop at any time, and should stop after
// fault.MaxDetails+1 violations.
//
// Messages contain the offending value, formatted by format. If format is nil, messages only say
// what is allowed.
func Violations(schema *Compiled, value any, format func(at []string, value any) string) iter.Seq[Violation] {
	return func(yield func(Violation) bool) {
		err := schema.Validate(value)
		if err == nil {
			return
		}
		explained := false
		e := explanation{schema: schema, show: format, yield: func(v Violation) bool {
			explained = true
			return yield(v)
		}}
		if invalid, ok := errors.AsType[*santhosh.ValidationError](err); ok {
			e.explain(invalid)
		}
		if !explained {
			yield(Violation{Message: "does not match the schema"})
		}
	}
}

type explanation struct {
	schema *Compiled
	show   func(at []string, value any) string
	yield  func(Violation) bool
}

// explain yields the leaves of the validator's error tree. It returns false if the consumer
// stopped.
func (e explanation) explain(invalid *santhosh.ValidationError) bool {
	at := invalid.InstanceLocation
	each := func(names []string, messageFunc func(place []string) string) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			place := append(slices.Clone(at), name)
			return !e.yield(Violation{At: place, Presence: true, Message: messageFunc(place)})
		})
	}
	switch k := invalid.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		if only := onlyAlternative(invalid.Causes); only != nil {
			return e.explain(only)
		}
		return e.yield(Violation{At: at, Message: "has none of the allowed forms"})
	case *kind.Required:
		return each(k.Missing, func(place []string) string { return "is required" + e.expected(place) })
	case *kind.DependentRequired:
		return each(k.Missing, func([]string) string { return "is required together with " + fault.Quote(k.Prop, maxValue) })
	case *kind.AdditionalProperties:
		return each(k.Properties, func([]string) string { return "is not a known field" })
	case *kind.PropertyNames:
		return true // the location is wrong; the vocabulary for field names reports this error
	case invalidName:
		return each([]string{k.Property}, func([]string) string { return "has a name that is not allowed" + k.rule })
	}
	if len(invalid.Causes) == 0 {
		return e.yield(e.leaf(at, invalid.ErrorKind))
	}
	return !slices.ContainsFunc(invalid.Causes, func(cause *santhosh.ValidationError) bool { return !e.explain(cause) })
}

// onlyAlternative returns the reason why a value does not match the only alternative of its type, or the
// only one that isn't null. It returns nil if there are several such alternatives.
func onlyAlternative(causes []*santhosh.ValidationError) *santhosh.ValidationError {
	for _, excluded := range []func(wanted []string) bool{
		func([]string) bool { return true },
		func(wanted []string) bool { return slices.Equal(wanted, []string{"null"}) },
	} {
		others := slices.DeleteFunc(slices.Clone(causes), func(cause *santhosh.ValidationError) bool {
			at := len(cause.InstanceLocation)
			for len(cause.Causes) == 1 { // of a reference
				cause = cause.Causes[0]
			}
			wanted, ok := cause.ErrorKind.(*kind.Type)
			return ok && len(cause.InstanceLocation) == at && excluded(wanted.Want)
		})
		if len(others) == 1 {
			return others[0]
		}
	}
	return nil
}

func (e explanation) leaf(at []string, k santhosh.ErrorKind) Violation {
	v := Violation{At: at}
	if wrong, ok := k.(*kind.Type); ok {
		v.Allowed = typesOf(wrong.Want)
	}
	must, got := e.words(at, k)
	_, isFormat := k.(*kind.Format)
	switch {
	case got == "" || e.show == nil:
		v.Message = must
	case isFormat: // the hint of a format may contain a comma
		v.Message = must + "; got " + got
	default:
		v.Message = must + ", got " + got
	}
	return v
}

// words describes the required value and, if show allows it, the actual value.
func (e explanation) words(at []string, k santhosh.ErrorKind) (must, got string) {
	value := func(value any) string {
		if e.show == nil {
			return ""
		}
		return e.show(at, value)
	}
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + typesOf(k.Want).String(), typesByName[k.Got].String()
	case *kind.Enum:
		return "must be one of " + listing(k.Want), value(k.Got)
	case *kind.Const:
		return "must be " + listing([]any{k.Want}), value(k.Got)
	case *kind.Format:
		return "must be a valid " + k.Want + formatHint(k.Want, k.Err), value(k.Got)
	case *kind.Pattern:
		if rule, ok := patternRules[k.Want]; ok {
			return rule, value(k.Got)
		}
		return "must match " + k.Want, value(k.Got)
	case *kind.MinLength:
		return "must have at least " + fault.Count(k.Want, "character"), strconv.Itoa(k.Got)
	case *kind.MaxLength:
		return "must have at most " + fault.Count(k.Want, "character"), strconv.Itoa(k.Got)
	case *kind.MinItems:
		return "must have at least " + fault.Count(k.Want, "item"), strconv.Itoa(k.Got)
	case *kind.MaxItems:
		return "must have at most " + fault.Count(k.Want, "item"), strconv.Itoa(k.Got)
	case *kind.MinProperties:
		return "must have at least " + fault.Count(k.Want, "member"), strconv.Itoa(k.Got)
	case *kind.MaxProperties:
		return "must have at most " + fault.Count(k.Want, "member"), strconv.Itoa(k.Got)
	case *kind.Minimum:
		return "must be at least " + number(k.Want), value(k.Got)
	case *kind.Maximum:
		return "must be at most " + number(k.Want), value(k.Got)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want), value(k.Got)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want), value(k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("must have no equal items, got them at %d and %d", k.Duplicates[0], k.Duplicates[1]), ""
	case *kind.FalseSchema:
		return "is not allowed here", ""
	}
	return "breaks the rule " + strings.Join(k.KeywordPath(), "."), ""
}

// patternRules are the messages for patterns that are hard to read.
var patternRules = map[string]string{
	`^[^\x00-\x1F\x7F-\x9F]*[^\s\x00-\x1F\x7F-\x9F][^\x00-\x1F\x7F-\x9F]*$`: "must not be blank or have control characters",
	`^[a-z][a-z0-9-]{0,62}$`: "must start with a letter from a to z and contain only such letters, digits and hyphens, at most 63 characters",
	`^([a-z][a-z0-9-]{0,62}|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})$`: "must be the key or the ID of a workflow, such as ship-order",
}

// formatExamples are values of the formats of JSON Schema.
var formatExamples = map[string]string{
	"uri": "https://api.example.org/v1", "date-time": "2026-01-31T12:00:00Z", "date": "2026-01-31", "time": "12:00:00Z",
	"email": "ada@example.org", "hostname": "api.example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uuid": "0198c2a4-7d1e-7c33-9b1a-2f6f0e5d4c3b", "duration": "P1DT12H", "json-pointer": "/a/0",
}

// formatHint describes why a string does not have the format, or gives an example of the format.
func formatHint(name string, err error) string {
	if reason, ok := errors.AsType[formatError](err); ok {
		return ": " + fault.CutRunes(reason.Error(), maxReason)
	}
	if example := formatExamples[name]; example != "" {
		return ", such as " + example
	}
	return ""
}

// Show returns the text for a value in a message: a truncated scalar, or the type of an array or
// object.
func Show(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return fault.Quote(value, maxValue)
	case *big.Rat:
		return number(value)
	case json.Number:
		return fault.CutRunes(value.String(), maxValue)
	case bool:
		return strconv.FormatBool(value)
	}
	return TypeOf(value).String()
}

func number(value *big.Rat) string {
	if value.IsInt() && value.Num().BitLen() <= 160 {
		return value.Num().String()
	}
	approx, _ := value.Float64()
	return strconv.FormatFloat(approx, 'g', -1, 64)
}

func listing(values []any) string {
	var words []string
	for _, value := range values[:min(len(values), maxListing)] {
		word, _ := json.Marshal(value)
		words = append(words, string(word))
	}
	return strings.Join(words, ", ")
}

// maxExpected bounds how many parts of a schema are read for one missing field. The parts may
// refer to each other in many ways.
const maxExpected = 1_000

// expected returns a description of a missing value, or "" if the schema doesn't describe it.
func (e explanation) expected(at []string) string {
	left := maxExpected
	if words := expected(e.schema, at, &left); words != "" {
		return ": expected " + words
	}
	return ""
}

// expected returns the allowed values or types at a path below a schema, or "" if the schema
// doesn't specify any.
func expected(schema *Compiled, at []string, left *int) string {
	if *left--; schema == nil || *left < 0 {
		return ""
	}
	switch {
	case len(at) > 0:
		if words := expected(child(schema, at[0]), at[1:], left); words != "" {
			return words
		}
	case schema.Enum != nil && len(schema.Enum.Values) <= maxListing:
		return "one of " + listing(schema.Enum.Values)
	case schema.Types != nil && !schema.Types.IsEmpty():
		return typesOf(schema.Types.ToStrings()).String()
	}
	for _, same := range append([]*Compiled{schema.Ref, schema.Then, schema.Else}, schema.AllOf...) {
		if words := expected(same, at, left); words != "" {
			return words
		}
	}
	return ""
}

// child returns the schema that another schema itself contains for a property or an item.
func child(schema *Compiled, name string) *Compiled {
	if property, ok := schema.Properties[name]; ok {
		return property
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && schema.Properties == nil {
		if i < len(schema.PrefixItems) {
			return schema.PrefixItems[i]
		}
		if schema.Items2020 != nil {
			return schema.Items2020
		}
	}
	other, _ := schema.AdditionalProperties.(*Compiled)
	return other
}
