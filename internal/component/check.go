package component

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	maxQuoted  = 48 // characters of a caller's value in a message
	maxListing = 20 // allowed values named in a message
)

// Check says whether a call of the module may be accepted.
//
// An unknown module is INVALID_INPUT at /module. An input or config that
// breaks the module's schema is INVALID_INPUT, Unprocessable, with all faults
// at once, each with its JSON pointer below /input or /config, what was
// expected and what came. No message holds the value of a secret field, wherever else
// that stands, nor one of these secrets.
func (r *Registry) Check(module string, input, config json.RawMessage, secrets ...string) error {
	entry, ok := r.entries[module]
	if !ok {
		return fault.Invalid("/module", "%s", r.Unknown(module))
	}
	hiddenFunc := sync.OnceValue(func() *Redactor { return entry.Redactor(input, config, secrets...) })
	details, err := entry.input.hiding(hiddenFunc).check("/input", input)
	if err != nil {
		return err
	}
	more, err := entry.config.hiding(hiddenFunc).check("/config", config)
	if err != nil {
		return err
	}
	return fault.Unprocessable(append(details, more...))
}

// CheckMode says whether a module can be executed in a mode: INVALID_INPUT at
// /module, with what can be done instead, where it cannot. Of a module that is not
// there Check says so.
func (r *Registry) CheckMode(module string, mode Mode) error {
	entry, ok := r.entries[module]
	switch {
	case !ok || slices.Contains(entry.Modes, mode):
		return nil
	case mode == ModeComponent:
		return fault.Invalid("/module", "%s works only inside a workflow (its mode is WORKFLOW): write one that has it into a file, and weft workflows run FILE tries it; or save it by POST /v1/sdk/workflows", module)
	}
	return fault.Invalid("/module", "%s works only on its own, not inside a workflow: POST /v1/sdk/components executes it", module)
}

// hiding is the shape whose messages show nothing of what this redactor removes. It is
// made where there is a fault to tell.
func (s shape) hiding(whatFunc func() *Redactor) shape {
	s.hiddenFunc = whatFunc
	return s
}

// hidden is what no message shows; nil: nothing.
func (s shape) hidden() *Redactor {
	if s.hiddenFunc == nil {
		return nil
	}
	return s.hiddenFunc()
}

func (s shape) check(pointer string, data json.RawMessage) ([]fault.Detail, error) {
	if err := strictjson.Check(data); err != nil {
		return nil, rebase(pointer, err)
	}
	value, err := decode(data)
	if err != nil {
		return nil, fault.Invalid(pointer, "is not valid JSON")
	}
	schema, err := s.compiledFunc()
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", pointer, err)
	}
	if err = schema.Validate(value); err == nil {
		return nil, nil
	}
	invalid, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return nil, fmt.Errorf("validate %s: %w", pointer, err)
	}
	var details []fault.Detail
	s.explain(pointer, value, invalid, &details)
	slices.SortFunc(details, func(a, b fault.Detail) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(details), nil
}

// notHere is added to what is wrong with a text that names a variable, and was not to be
// given its value.
const notHere = "; environment variables stand only for what a workflow has written in a component, not in a single call or in values that connections bring"

// explain turns the leaves of the validator's tree into faults, and stops after one more than
// an error holds: each costs work, and there may be as many as there are values.
func (s shape) explain(pointer string, root any, invalid *jsonschema.ValidationError, out *[]fault.Detail) {
	if len(*out) > fault.MaxDetails {
		return
	}
	add := func(tokens []string, byName bool, message string) {
		if len(*out) > fault.MaxDetails {
			return
		}
		if s.excusedFunc != nil && s.excusedFunc(root, tokens, byName) {
			return
		}
		if text, ok := inside(root, tokens).(string); ok && !byName && envref.In(text) {
			message += notHere
		}
		path := pointer
		for _, token := range tokens {
			path += "/" + escapeToken(s.hidden().Text(token))
		}
		*out = append(*out, fault.Detail{Code: string(fault.InvalidInput), Message: message, Pointer: cutPointer(path)})
	}
	at := invalid.InstanceLocation
	switch k := invalid.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		add(at, false, "has none of the allowed forms")
		return
	case *kind.Required:
		for _, name := range k.Missing {
			add(slices.Concat(at, []string{name}), true, "is required"+s.describe(slices.Concat(at, []string{name})))
		}
		return
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			add(slices.Concat(at, []string{name}), true, "is required together with "+quote(k.Prop))
		}
		return
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add(slices.Concat(at, []string{name}), true, "is not a known field")
		}
		return
	case *kind.PropertyNames:
		return // told with its place by the vocabulary names
	case refusedName:
		add(slices.Concat(at, []string{k.Property}), true, "has a name that is not allowed"+k.rule)
		return
	}
	if len(invalid.Causes) > 0 {
		for _, cause := range invalid.Causes {
			s.explain(pointer, root, cause, out)
		}
		return
	}
	secret := isSecret(s.secrets, at) || s.hidden().In(inside(root, at))
	add(at, s.never(invalid.ErrorKind, inside(root, at)), expected(invalid.ErrorKind, func(got any) string { return came(got, secret) }))
}

// describe says what a missing member should be, from the schema's own words.
func (s shape) describe(tokens []string) string {
	schema, err := s.compiledFunc()
	if err != nil {
		return ""
	}
	looks := maxLooks
	if words := wanted(schema, tokens, &looks); words != "" {
		return ": expected " + words
	}
	return ""
}

// maxLooks bounds the parts of a schema that are looked at for one missing member: they may
// refer to each other in many ways.
const maxLooks = 1_000

// wanted is what a schema says of the value at a place below it: one of which values it is,
// or of which type. "" where it says neither.
func wanted(schema *jsonschema.Schema, tokens []string, looks *int) string {
	if *looks--; schema == nil || *looks < 0 {
		return ""
	}
	switch {
	case len(tokens) > 0:
		if words := wanted(below(schema, tokens[0]), tokens[1:], looks); words != "" {
			return words
		}
	case schema.Enum != nil && len(schema.Enum.Values) <= maxListing:
		return "one of " + listing(schema.Enum.Values)
	case schema.Types != nil && !schema.Types.IsEmpty():
		return types(schema.Types.ToStrings())
	}
	for _, same := range append([]*jsonschema.Schema{schema.Ref, schema.Then, schema.Else}, schema.AllOf...) {
		if words := wanted(same, tokens, looks); words != "" {
			return words
		}
	}
	return ""
}

// below is what a schema itself says of a member or an item.
func below(schema *jsonschema.Schema, token string) *jsonschema.Schema {
	if named, ok := schema.Properties[token]; ok {
		return named
	}
	if i, err := strconv.Atoi(token); err == nil && i >= 0 && schema.Properties == nil {
		if i < len(schema.PrefixItems) {
			return schema.PrefixItems[i]
		}
		if schema.Items2020 != nil {
			return schema.Items2020
		}
	}
	other, _ := schema.AdditionalProperties.(*jsonschema.Schema)
	return other
}

// expected words one fault: what was expected, what came.
func expected(k jsonschema.ErrorKind, came func(any) string) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, got %s", types(k.Want), types([]string{k.Got}))
	case *kind.Enum:
		return fmt.Sprintf("must be one of %s, got %s", listing(k.Want), came(k.Got))
	case *kind.Const:
		return fmt.Sprintf("must be %s, got %s", listing([]any{k.Want}), came(k.Got))
	case *kind.Format:
		return fmt.Sprintf("must be a valid %s%s; got %s", k.Want, formatCause(k.Want, k.Err), came(k.Got))
	case *kind.Pattern:
		return fmt.Sprintf("must match %s, got %s", k.Want, came(k.Got))
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %s, got %d", fault.Count(k.Want, "character"), k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s, got %d", fault.Count(k.Want, "character"), k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %s, got %d", fault.Count(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s, got %d", fault.Count(k.Want, "item"), k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %s, got %d", fault.Count(k.Want, "member"), k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %s, got %d", fault.Count(k.Want, "member"), k.Got)
	case *kind.Minimum:
		return fmt.Sprintf("must be at least %s, got %s", number(k.Want), came(k.Got))
	case *kind.Maximum:
		return fmt.Sprintf("must be at most %s, got %s", number(k.Want), came(k.Got))
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("must be more than %s, got %s", number(k.Want), came(k.Got))
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("must be less than %s, got %s", number(k.Want), came(k.Got))
	case *kind.UniqueItems:
		return fmt.Sprintf("must have no equal items, got them at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.FalseSchema:
		return "is not allowed here"
	}
	return "breaks the rule " + strings.Join(k.KeywordPath(), ".")
}

// formatFault is the reason that a module's own format gives, which never
// quotes the value; the reasons of the library's formats do.
type formatFault struct{ error }

// formatForms show what the formats of JSON Schema look like.
var formatForms = map[string]string{
	"uri": "https://api.example.org/v1", "date-time": "2026-01-31T12:00:00Z", "date": "2026-01-31", "time": "12:00:00Z",
	"email": "ada@example.org", "hostname": "api.example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uuid": "0198c2a4-7d1e-7c33-9b1a-2f6f0e5d4c3b", "duration": "P1DT12H", "json-pointer": "/a/0",
}

// formatCause says why a text has not the format, or what it looks like.
func formatCause(name string, err error) string {
	if own, ok := errors.AsType[formatFault](err); ok {
		return ": " + Cut(own.Error(), 200)
	}
	if form := formatForms[name]; form != "" {
		return ", such as " + form
	}
	return ""
}

func came(value any, secret bool) string {
	if _, text := value.(string); secret && text {
		return "a text that is not shown, because it is secret"
	}
	if secret {
		return "a value that is not shown, because it is secret"
	}
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return quote(value)
	case *big.Rat:
		return number(value)
	case json.Number:
		return cutRunes(value.String(), maxQuoted)
	case bool:
		return strconv.FormatBool(value)
	case []any:
		return "an array"
	}
	return "an object"
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

func types(names []string) string {
	var words []string
	nullable := slices.Contains(names, "null") && len(names) > 1
	for _, name := range names {
		switch name {
		case "null":
			if !nullable {
				words = append(words, "null")
			}
		case "array", "object", "integer":
			words = append(words, "an "+name)
		default:
			words = append(words, "a "+name)
		}
	}
	if nullable {
		words = append(words, "null")
	}
	return strings.Join(words, " or ")
}

// quote shows a caller's text in ASCII, so that look-alikes are seen, and cut.
func quote(text string) string {
	short := cutRunes(text, maxQuoted)
	word := strconv.QuoteToASCII(strings.ToValidUTF8(short, "\uFFFD"))
	if len(word) > 2*maxQuoted {
		word = word[:2*maxQuoted-1] + `"`
		short = ""
	}
	if len(short) < len(text) {
		return word + "..."
	}
	return word
}

func cutRunes(text string, limit int) string {
	count := 0
	for i := range text {
		if count == limit {
			return text[:i]
		}
		count++
	}
	return text
}

func cutPointer(path string) string {
	const limit = 256
	if len(path) <= limit {
		return path
	}
	end := limit
	for !utf8.RuneStart(path[end]) {
		end--
	}
	return path[:end]
}
