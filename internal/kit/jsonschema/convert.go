package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const maxDigits = 400 // of a number without its exponent

// decimal matches the canonical form of an integer as a string.
var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

const maxDecimal = 100 // the maximum number of digits in such a string

// Convert returns a value in a type that the schema allows: an integer becomes a decimal string
// or the other way round, and a number becomes a string, inside arrays and objects too. It
// returns an error if a different conversion would be needed. It does not check the other
// keywords of the schema. A value that already fits is returned unchanged.
func (s *Schema) Convert(value json.RawMessage) (json.RawMessage, error) {
	if s = s.Resolve(); s == nil {
		return value, nil
	}
	w := walker{left: maxSteps + perByte*len(value)}
	if simple(value, w.types(s), s) {
		return value, nil
	}
	read, err := strictjson.Decode(value)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	converted, changed, mismatch := w.convert(read, s)
	if mismatch != nil {
		return nil, mismatch
	}
	if !changed {
		return value, nil
	}
	return strictjson.EncodeLike(converted, value)
}

// simple reports whether a value fits regardless of the values inside it.
func simple(value json.RawMessage, allowed TypeSet, taken *Schema) bool {
	switch trimmed := bytes.TrimLeft(value, " \t\r\n"); {
	case len(trimmed) == 0:
	case trimmed[0] == '"':
		return allowed&typeString != 0
	case trimmed[0] == '[':
		return allowed&typeArray != 0 && !taken.open() && taken.Items == nil && taken.PrefixItems == nil
	case trimmed[0] == '{':
		return allowed&typeObject != 0 && !taken.open() && taken.Properties == nil && taken.AdditionalProperties == nil
	}
	return false
}

// unfit is the reason why a value can't be converted. It never contains the value.
type unfit struct {
	path  []string // within the value, innermost first
	gives TypeSet
	takes TypeSet
}

func (u *unfit) Error() string {
	where := ""
	for _, step := range u.path {
		where = "." + step + where
	}
	if where != "" {
		where = " at " + fault.Quote(where[1:], maxName)
	}
	reason := ""
	if u.gives == typeString && u.takes&typeInteger != 0 {
		reason = " (the string is not a decimal integer)"
	}
	return fmt.Sprintf("it is %s%s, but %s is expected%s", u.gives, where, u.takes, reason)
}

// convert returns the converted value, and whether it differs from the original value.
func (w *walker) convert(value any, taken *Schema) (any, bool, *unfit) {
	defer w.leave()
	if !w.enter() {
		return value, false, nil
	}
	if taken = taken.Resolve(); taken == nil {
		return value, false, nil
	}
	allowed, kind := w.types(taken), TypeOf(value)
	if allowed&kind == 0 {
		converted, ok := scalar(value, allowed)
		if !ok {
			return nil, false, &unfit{gives: kind, takes: allowed}
		}
		return converted, true, nil
	}
	var changed bool
	var mismatch *unfit
	switch value := value.(type) {
	case []any:
		changed, mismatch = w.convertItems(value, taken)
	case map[string]any:
		changed, mismatch = w.convertMembers(value, taken)
	default:
		return value, false, nil
	}
	for _, branch := range taken.AllOf {
		if mismatch != nil {
			break
		}
		var more bool
		value, more, mismatch = w.convert(value, branch)
		changed = changed || more
	}
	for _, branches := range [][]*Schema{taken.AnyOf, taken.OneOf} {
		if mismatch == nil {
			value, changed, mismatch = w.convertChoice(value, changed, branches)
		}
	}
	return value, changed, mismatch
}

// convertChoice converts to the first schema that allows the value unchanged. If no schema does,
// it converts to the first schema that allows the value after a conversion.
func (w *walker) convertChoice(value any, changed bool, branches []*Schema) (any, bool, *unfit) {
	var chosen any
	var last *unfit
	found := false
	for _, branch := range branches {
		converted, different, mismatch := w.convert(clone(value), branch)
		switch {
		case mismatch != nil:
			last = mismatch
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

func (w *walker) convertItems(items []any, taken *Schema) (bool, *unfit) {
	changed := false
	for i, item := range items {
		converted, different, mismatch := w.convert(item, taken.Item(i))
		if mismatch != nil {
			mismatch.path = append(mismatch.path, strconv.Itoa(i))
			return false, mismatch
		}
		items[i] = converted
		changed = changed || different
	}
	return changed, nil
}

func (w *walker) convertMembers(members map[string]any, taken *Schema) (bool, *unfit) {
	changed := false
	for _, name := range slices.Sorted(maps.Keys(members)) {
		want, there := taken.Property(name)
		if !there {
			if taken.PatternProperties != nil {
				continue
			}
			want = taken.AdditionalProperties
		}
		if want != nil && want.Never {
			continue // the field must be missing, so its type doesn't matter
		}
		converted, different, mismatch := w.convert(members[name], want)
		if mismatch != nil {
			mismatch.path = append(mismatch.path, name)
			return false, mismatch
		}
		members[name] = converted
		changed = changed || different
	}
	return changed, nil
}

// scalar returns the lossless conversion of a scalar value.
func scalar(value any, allowed TypeSet) (any, bool) {
	switch value := value.(type) {
	case json.Number:
		text, _ := Decimal(value.String())
		return text, text != "" && allowed&typeString != 0
	case string:
		return json.Number(value), allowed&typeInteger != 0 && len(strings.TrimPrefix(value, "-")) <= maxDecimal && decimal.MatchString(value)
	}
	return nil, false
}

// Decimal returns a JSON number in canonical form, without an exponent: 1000 for 1e3 and 1000.0.
// The text is empty if it would be too long. whole reports whether the number is an integer.
func Decimal(number string) (text string, whole bool) {
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
