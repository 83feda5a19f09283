// Package envref finds and replaces the references to environment variables in the texts of a
// workflow: `{{env.NAME}}`, anywhere in a string.
//
// It reports malformed references too. It does not know where values come from or who may see
// them. The one invariant: a replaced value is never scanned again, so a value that looks like a
// reference stays as it is.
package envref

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	begins = "{{env."
	// naming is what a name looks like, for messages.
	naming = "{{env.NAME}}, where NAME begins with a capital letter and has at most 64 of A to Z, 0 to 9 and _"
	// maxResolved is how many bytes of values are put into one piece of JSON: a name is
	// short, and may stand there very often.
	maxResolved = 1 << 20
)

var reference = regexp.MustCompile(`\{\{env\.([A-Z][A-Z0-9_]{0,63})\}\}`)

// In reports whether a text names a variable, whose value is known only when it is run.
func In(text string) bool { return reference.MatchString(text) }

// scheme is the word for a scheme of authentication (RFC 9110 part 11.1) before a variable.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z-]* $`)

// Alone reports whether a text names variables and holds nothing else that may be secret:
// the most is the word for a scheme before them.
func Alone(text string) bool {
	first := reference.FindStringIndex(text)
	if first == nil || reference.ReplaceAllString(text[first[0]:], "") != "" {
		return false
	}
	before := text[:first[0]]
	return before == "" || len(before) <= 17 && scheme.MatchString(before)
}

// Names are the variables that the strings of some JSON name, in order.
func Names(data ...json.RawMessage) []string {
	found := map[string]bool{}
	for _, raw := range data {
		value, err := decode(raw)
		if err != nil {
			continue // there is nothing to be put into it
		}
		each(value, "", func(_, text string) {
			for _, match := range reference.FindAllStringSubmatch(text, -1) {
				found[match[1]] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// Places returns the strings of some JSON that name variables, by their JSON pointers.
func Places(data json.RawMessage) map[string]string {
	places := map[string]string{}
	value, err := decode(data)
	if err != nil {
		return places // there is nothing to be put into it
	}
	each(value, "", func(pointer, text string) {
		if In(text) {
			places[pointer] = text
		}
	})
	return places
}

// Faults tells which strings begin to name a variable and do not. pointer is where the
// data is.
func Faults(pointer string, data json.RawMessage) (details []fault.Detail) {
	value, err := decode(data)
	if err != nil {
		return nil // whoever checks its form says so
	}
	each(value, pointer, func(at, text string) {
		if len(details) <= fault.MaxDetails && strings.Count(text, begins) != len(reference.FindAllStringIndex(text, -1)) {
			details = append(details, fault.Detail{
				Code: string(fault.InvalidInput), Pointer: at, Message: "names no variable of the environment: write " + naming,
			})
		}
	})
	return details
}

// nearly is what looks as if a variable were meant.
var nearly = regexp.MustCompile(`\{\{\s*(?i:env)\s*\.[^{}]{0,80}\}\}`)

// Nearly are the places in the strings of some JSON that look as if they named a variable,
// and do not: in small letters, or with blanks.
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

// placeholder is what looks as if something were to be put in its place.
var placeholder = regexp.MustCompile(`\{\{[^{}]{1,80}\}\}`)

// Unfilled returns the strings of some JSON with placeholders that are never filled. pointer is
// where the data is. The details do not quote the strings, which may be secret.
func Unfilled(pointer string, data json.RawMessage) (details []fault.Detail) {
	value, err := decode(data)
	if err != nil {
		return nil // whoever checks its form says so
	}
	each(value, pointer, func(at, text string) {
		for _, place := range placeholder.FindAllString(text, -1) {
			message := "has double braces that stay as they are: only {{env.NAME}} is replaced, and values of other components come by data connections"
			switch {
			case strings.HasPrefix(place, begins):
				continue // it is filled, or Faults tells what is wrong with it
			case len(details) > fault.MaxDetails:
				return
			case nearly.MatchString(place):
				message = "names no variable of the environment, and stays as it is: write " + naming
			}
			details = append(details, fault.Detail{Pointer: at, Message: message})
			return
		}
	})
	return details
}

// Values are what variables are.
type Values map[string]string

// Unknown is a name that there is no value for.
type Unknown struct{ Name, Pointer string }

func (u *Unknown) Error() string { return fmt.Sprintf("there is no environment variable %s", u.Name) }

// ErrTooLarge says that the values come to more than 1 MiB.
var ErrTooLarge = errors.New("the values of the environment variables come to more than 1 MiB")

// Resolve puts the values into the strings of some JSON. pointer is where it is. The
// first that is not there is an *Unknown. JSON that names none is given as it is.
func (v Values) Resolve(pointer string, data json.RawMessage) (json.RawMessage, error) {
	return v.ResolveAs(pointer, data, data)
}

// ResolveAs is Resolve for what an author wrote and others have laid values into since:
// only what still stands where the author wrote it is looked at.
func (v Values) ResolveAs(pointer string, data, written json.RawMessage) (json.RawMessage, error) {
	if len(Names(written)) == 0 {
		return data, nil
	}
	value, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("read what names variables: %w", err)
	}
	author, err := decode(written)
	if err != nil {
		return nil, fmt.Errorf("read what names variables: %w", err)
	}
	f := filling{values: v, left: maxResolved}
	resolved, err := f.into(pointer, value, author)
	if err != nil {
		return nil, err
	}
	return strictjson.Encode(resolved)
}

// filling is one resolution under way.
type filling struct {
	values Values
	left   int // bytes of values
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

// each visits the strings of a value, in order.
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
