// Package envref finds and replaces references to environment variables in the strings of a
// workflow: `{{env.NAME}}`, anywhere in a string. It also reports malformed references.
//
// A replaced value is never scanned again, so a value that looks like a reference stays
// unchanged.
package envref

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	references "github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	prefix = "{{env."
	// syntax describes a reference in messages.
	syntax = "{{env.NAME}}, where NAME starts with a capital letter and has at most 64 characters of A to Z, 0 to 9 and _"
	// maxResolved is the limit in bytes for the values in one JSON document: a reference is
	// short, and may occur many times.
	maxResolved = 1 << 20
)

var reference = regexp.MustCompile(`\{\{env\.([A-Z][A-Z0-9_]{0,63})\}\}`)

// In reports whether a string contains a reference, so that the string's final value is known
// only at run time.
func In(text string) bool { return reference.MatchString(text) }

// All reports whether every reference in a string is one to an environment variable, in the form
// {{env.NAME}}.
func All(text string) bool { return !strings.Contains(reference.ReplaceAllString(text, ""), "{{") }

// Only returns the name of the variable if a string consists of one reference.
func Only(text string) (name string, ok bool) {
	text = strings.TrimSpace(text)
	match := reference.FindStringSubmatch(text)
	if match == nil || match[0] != text {
		return "", false
	}
	return match[1], true
}

// Replace replaces each reference in a string with the result of a function of the variable's name.
func Replace(text string, with func(name string) string) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		return with(strings.TrimSuffix(strings.TrimPrefix(match, prefix), "}}"))
	})
}

// opening matches what may precede the references of a string without a secret: the name of an
// authentication scheme (RFC 9110 part 11.1), or of a cookie.
var opening = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z-]{0,15} |[A-Za-z0-9_-]{1,40}=)$`)

// Alone reports whether a string consists of references without string literals, and therefore contains
// no secret. The name of an authentication scheme or of a cookie may precede the references.
func Alone(text string) bool {
	parts, err := references.Parse(text)
	if err != nil {
		return false
	}
	if !parts[0].IsCode && len(parts) > 1 && opening.MatchString(parts[0].Text) {
		parts = parts[1:]
	}
	return !slices.ContainsFunc(parts, func(part references.Part) bool { return !part.IsCode || strings.ContainsAny(part.Text, "\"'`") })
}

// inReference matches a variable in an expression.
var inReference = regexp.MustCompile(`\benv(?:\.|\[\s*["'])([A-Z][A-Z0-9_]{0,63})\b`)

// Names returns the variables that the strings of the JSON documents refer to, sorted.
func Names(data ...json.RawMessage) []string {
	found := map[string]bool{}
	for _, raw := range data {
		if !bytes.Contains(raw, []byte("{{")) && !bytes.Contains(raw, []byte(`\u`)) { // braces may be escaped
			continue
		}
		value, err := decode(raw)
		if err != nil {
			continue // invalid JSON has no references
		}
		each(value, "", func(_, text string) {
			for _, name := range namesIn(text) {
				found[name] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// namesIn returns the variables that a string refers to.
func namesIn(text string) (names []string) {
	if parts, err := references.Parse(text); err == nil {
		for _, part := range parts {
			if part.IsCode {
				names = append(names, NamesInExpression(part.Text)...)
			}
		}
		return names
	}
	for _, match := range reference.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// NamesInExpression returns what looks like a variable in an expression, such as env.LIMIT.
func NamesInExpression(code string) (names []string) {
	for _, match := range inReference.FindAllStringSubmatch(code, -1) {
		names = append(names, match[1])
	}
	return names
}

// Places returns the strings of a JSON document with double braces, by their JSON pointers.
func Places(data json.RawMessage) map[string]string {
	places := map[string]string{}
	value, err := decode(data)
	if err != nil {
		return places // invalid JSON has no references
	}
	each(value, "", func(pointer, text string) {
		if strings.Contains(text, "{{") {
			places[pointer] = text
		}
	})
	return places
}

// nearly matches strings that were probably meant as references.
var nearly = regexp.MustCompile(`\{\{\s*(?i:env)\s*\.[^{}]{0,80}\}\}`)

// Nearly returns the parts of strings that were probably meant as references but aren't
// references, such as names in lower case, or with blanks.
func Nearly(data ...json.RawMessage) (places []string) {
	for _, raw := range data {
		value, err := decode(raw)
		if err != nil {
			continue
		}
		each(value, "", func(_, text string) {
			for _, place := range nearly.FindAllString(text, -1) {
				if !reference.MatchString(place) {
					places = append(places, place)
				}
			}
		})
	}
	return places
}

// Values are the values of variables, by name.
type Values map[string]string

// Unknown is the error for a variable that has no value.
type Unknown struct{ Name, Pointer string }

func (u *Unknown) Error() string { return fmt.Sprintf("there is no environment variable %s", u.Name) }

// ErrTooLarge means that the values exceed 1 MiB in total.
var ErrTooLarge = errors.New("the values of the environment variables exceed 1 MiB in total")

// ResolveAs replaces the references in a JSON document that an author wrote, and into which other values
// may have been inserted later: only in strings that still have the author's value. pointer is the JSON
// pointer of the document. ResolveAs returns an *Unknown for the first variable without a value. A
// document without references is returned unchanged.
func (v Values) ResolveAs(pointer string, data, written json.RawMessage) (json.RawMessage, error) {
	if len(Names(written)) == 0 {
		return data, nil
	}
	value, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode JSON with references to variables: %w", err)
	}
	author, err := decode(written)
	if err != nil {
		return nil, fmt.Errorf("decode JSON with references to variables: %w", err)
	}
	f := filling{values: v, left: maxResolved}
	resolved, err := f.into(pointer, value, author)
	if err != nil {
		return nil, err
	}
	return strictjson.EncodeLike(resolved, data)
}

// Filler replaces the references in the strings of one component.
type Filler struct{ filling }

// NewFiller returns a Filler with these values.
func NewFiller(values Values) *Filler { return &Filler{filling{values: values, left: maxResolved}} }

// Fill replaces the references in the string at a JSON pointer. It leaves a string alone that contains
// anything else in double braces. It returns an *Unknown for a variable without a value, and ErrTooLarge.
func (f *Filler) Fill(pointer, text string) (string, error) {
	if !strings.Contains(text, prefix) || !All(text) {
		return text, nil
	}
	return f.put(pointer, text)
}

// filling is the state of one resolution.
type filling struct {
	values Values
	left   int // remaining bytes for values
}

func (f *filling) into(pointer string, value, author any) (any, error) {
	var err error
	switch value := value.(type) {
	case string:
		if value == author {
			return f.put(pointer, value)
		}
	case []any:
		items, _ := author.([]any)
		for i := range min(len(value), len(items)) {
			if value[i], err = f.into(pointer+"/"+strconv.Itoa(i), value[i], items[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		members, _ := author.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if _, there := value[name]; !there {
				continue
			}
			if value[name], err = f.into(pointer+"/"+fault.EscapeToken(name), value[name], members[name]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

func (f *filling) put(pointer, text string) (string, error) {
	var out strings.Builder
	from := 0
	for _, at := range reference.FindAllStringSubmatchIndex(text, -1) {
		name := text[at[2]:at[3]]
		value, known := f.values[name]
		if !known {
			return "", &Unknown{Name: name, Pointer: pointer}
		}
		if f.left -= len(value); f.left < 0 {
			return "", ErrTooLarge
		}
		out.WriteString(text[from:at[0]])
		out.WriteString(value)
		from = at[1]
	}
	out.WriteString(text[from:])
	return out.String(), nil
}

// each calls visit for the strings of a value, in order.
func each(value any, pointer string, visit func(pointer, text string)) {
	switch value := value.(type) {
	case string:
		visit(pointer, value)
	case []any:
		for i, item := range value {
			each(item, pointer+"/"+strconv.Itoa(i), visit)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			each(value[name], pointer+"/"+fault.EscapeToken(name), visit)
		}
	}
}

func decode(data json.RawMessage) (value any, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	return strictjson.Decode(data)
}
