package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const maxDigits = 400 // of a number that is written out

// decimal is the one way to write a whole number as text.
var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

const maxDecimal = 100 // digits of one

// Convert makes a value fit for a schema: an integer becomes a decimal string or
// comes from one, and a number becomes a string, inside arrays and objects too.
// Everything else must have a type that the schema allows; what more the schema
// demands is not judged here. A value that fits is returned as it is.
func Convert(value, schema json.RawMessage) (json.RawMessage, error) {
	taken := parse(schema).resolved()
	if taken.node == nil || taken.node == true {
		return value, nil
	}
	r := reader{left: maxSteps + perByte*len(value)}
	if simple(value, r.kinds(taken), taken) {
		return value, nil
	}
	read, err := decode(value)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	converted, changed, fault := r.convert(read, taken)
	if fault != nil {
		return nil, fault
	}
	if !changed {
		return value, nil
	}
	return encode(converted)
}

// simple reports whether a value fits without a look into it.
func simple(value json.RawMessage, allowed kinds, taken shape) bool {
	switch trimmed := bytes.TrimLeft(value, " \t\r\n"); {
	case len(trimmed) == 0:
	case trimmed[0] == '"':
		return allowed&kindString != 0
	case trimmed[0] == '[':
		return allowed&kindArray != 0 && !taken.combined() && taken.keyword("items") == nil && taken.keyword("prefixItems") == nil
	case trimmed[0] == '{':
		return allowed&kindObject != 0 && !taken.combined() && taken.keyword("properties") == nil && taken.keyword("additionalProperties") == nil
	}
	return false
}

// unfit is why a value cannot be taken. It never holds the value.
type unfit struct {
	path  []string // within the value, innermost first
	gives kinds
	takes kinds
}

func (u *unfit) Error() string {
	where := ""
	for _, step := range u.path {
		where = "." + step + where
	}
	if where != "" {
		where = " at " + quote(where[1:])
	}
	reason := ""
	if u.gives == kindString && u.takes&kindInteger != 0 {
		reason = " (the string is no decimal integer)"
	}
	return fmt.Sprintf("it is %s%s, and %s is taken%s", u.gives, where, u.takes, reason)
}

// convert makes a value fit, and tells whether it is another one now.
func (r *reader) convert(value any, taken shape) (any, bool, *unfit) {
	defer r.leave()
	if !r.enter() {
		return value, false, nil
	}
	taken = taken.resolved()
	allowed, kind := r.kinds(taken), kindOf(value)
	if allowed&kind == 0 {
		converted, ok := scalar(value, allowed)
		if !ok {
			return nil, false, &unfit{gives: kind, takes: allowed}
		}
		return converted, true, nil
	}
	var changed bool
	var fault *unfit
	switch value := value.(type) {
	case []any:
		changed, fault = r.convertItems(value, taken)
	case map[string]any:
		changed, fault = r.convertMembers(value, taken)
	default:
		return value, false, nil
	}
	for _, branch := range taken.branches("allOf") {
		if fault != nil {
			break
		}
		var more bool
		value, more, fault = r.convert(value, branch)
		changed = changed || more
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if fault == nil {
			value, changed, fault = r.convertChoice(value, changed, taken.branches(keyword))
		}
	}
	return value, changed, fault
}

// convertChoice takes the first of several schemas that takes the value as it is,
// otherwise the first that takes it at all.
func (r *reader) convertChoice(value any, changed bool, branches []shape) (any, bool, *unfit) {
	var chosen any
	var last *unfit
	found := false
	for _, branch := range branches {
		converted, different, fault := r.convert(clone(value), branch)
		switch {
		case fault != nil:
			last = fault
		case !different:
			return value, changed, nil
		case !found:
			chosen, found = converted, true
		}
	}
	if found {
		return chosen, true, nil
	}
	return value, changed, last
}

func (r *reader) convertItems(items []any, taken shape) (bool, *unfit) {
	changed := false
	for i, item := range items {
		converted, different, fault := r.convert(item, taken.item(i))
		if fault != nil {
			fault.path = append(fault.path, strconv.Itoa(i))
			return false, fault
		}
		items[i] = converted
		changed = changed || different
	}
	return changed, nil
}

func (r *reader) convertMembers(members map[string]any, taken shape) (bool, *unfit) {
	changed := false
	patterns := taken.keyword("patternProperties") != nil
	for _, name := range sortedNames(members) {
		want, there := taken.property(name)
		if !there {
			if patterns {
				continue
			}
			want = taken.branch(taken.keyword("additionalProperties"))
		}
		if want.node == false {
			continue // that the member is too much is not a matter of its type
		}
		converted, different, fault := r.convert(members[name], want)
		if fault != nil {
			fault.path = append(fault.path, name)
			return false, fault
		}
		members[name] = converted
		changed = changed || different
	}
	return changed, nil
}

// scalar is the lossless conversion of one value.
func scalar(value any, allowed kinds) (any, bool) {
	switch value := value.(type) {
	case json.Number:
		text, _ := plain(value.String())
		return text, text != "" && allowed&kindString != 0
	case string:
		return json.Number(value), allowed&kindInteger != 0 && len(strings.TrimPrefix(value, "-")) <= maxDecimal && decimal.MatchString(value)
	}
	return nil, false
}

// plain writes a number out, without an exponent and in one way only: 1e3 and
// 1000.0 are 1000. It is empty where that would be too long. whole tells whether
// the number is an integer.
func plain(number string) (text string, whole bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	digits, negative := strings.CutPrefix(mantissa, "-")
	before, after, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(before+after, "0")
	if digits == "" {
		return "0", true
	}
	short := strings.TrimRight(digits, "0")
	power := 0
	if exponent != "" {
		read, err := strconv.Atoi(exponent)
		if err != nil || read < -1e9 || read > 1e9 {
			return "", !strings.HasPrefix(exponent, "-")
		}
		power = read
	}
	power += len(digits) - len(short) - len(after)
	digits, whole = short, power >= 0
	switch {
	case power > maxDigits || power < -maxDigits || len(digits) > maxDigits:
		return "", whole
	case whole:
		text = digits + strings.Repeat("0", power)
	default:
		if missing := 1 - power - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		text = digits[:len(digits)+power] + "." + digits[len(digits)+power:]
	}
	if negative {
		text = "-" + text
	}
	return text, whole
}
