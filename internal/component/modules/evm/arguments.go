package evm

import (
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// This file encodes JSON values in the encoding of the contract ABI. The type alone determines
// which values are valid. Values are never guessed, rounded or truncated.

// encodeArguments encodes values in the order of the parameters.
func encodeArguments(parameters []parameter, list []any) ([]byte, error) {
	out := encoder{}
	for i, p := range parameters {
		if err := out.add(p.kind, list[i]); err != nil {
			return nil, atPath(err, "["+strconv.Itoa(i)+"]")
		}
	}
	return out.finish(), nil
}

// encoder encodes a sequence of values: first the heads, then the data that the offsets in the
// heads point to.
type encoder struct {
	head, tail []byte
	pointers   []pointer
}

// pointer is an offset that is written once the length of the head is known.
type pointer struct{ at, target int }

func (e *encoder) add(t *abiType, value any) error {
	if !t.dynamic {
		var err error
		e.head, err = appendStatic(e.head, t, value)
		return err
	}
	e.pointers = append(e.pointers, pointer{at: len(e.head), target: len(e.tail)})
	e.head = append(e.head, make([]byte, wordSize)...)
	var err error
	e.tail, err = appendDynamic(e.tail, t, value)
	return err
}

func (e *encoder) finish() []byte {
	for _, p := range e.pointers {
		big.NewInt(int64(len(e.head) + p.target)).FillBytes(e.head[p.at : p.at+wordSize])
	}
	return append(e.head, e.tail...)
}

// appendStatic encodes a value of a static type.
func appendStatic(out []byte, t *abiType, value any) ([]byte, error) {
	if t.kind != kindArray && t.kind != kindTuple {
		word, err := encodeWord(t, value)
		return append(out, word...), err
	}
	items, err := itemsOf(t, value)
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if out, err = appendStatic(out, t.at(i), item); err != nil {
			return nil, atPath(err, t.step(i))
		}
	}
	return out, nil
}

// appendDynamic encodes a value of a dynamic type, which an offset points to.
func appendDynamic(out []byte, t *abiType, value any) ([]byte, error) {
	switch t.kind {
	case kindBytes, kindString:
		data, err := contentOf(t, value)
		if err != nil {
			return nil, err
		}
		out = append(appendLength(out, len(data)), data...)
		return append(out, make([]byte, -len(data)&(wordSize-1))...), nil
	}
	items, err := itemsOf(t, value)
	if err != nil {
		return nil, err
	}
	if t.kind == kindSlice {
		out = appendLength(out, len(items))
	}
	inner := encoder{}
	for i, item := range items {
		if err := inner.add(t.at(i), item); err != nil {
			return nil, atPath(err, t.step(i))
		}
	}
	return append(out, inner.finish()...), nil
}

func appendLength(out []byte, n int) []byte {
	return append(out, big.NewInt(int64(n)).FillBytes(make([]byte, wordSize))...)
}

// at returns the type of an item of an array or a tuple.
func (t *abiType) at(index int) *abiType {
	if t.kind == kindTuple {
		return t.fields[index].kind
	}
	return t.item
}

// step returns the path element of an item.
func (t *abiType) step(index int) string {
	if t.kind == kindTuple {
		return t.fields[index].step(index)
	}
	return "[" + strconv.Itoa(index) + "]"
}

// itemsOf returns the items of an array or a tuple, in order.
func itemsOf(t *abiType, value any) ([]any, error) {
	if members, ok := value.(map[string]any); ok && t.object {
		return membersOf(t.fields, members)
	}
	items, ok := value.([]any)
	wanted := t.kind == kindSlice || t.kind == kindArray && len(items) == t.size || t.kind == kindTuple && len(items) == len(t.fields)
	if !ok || !wanted {
		return nil, typeMismatch(t, value)
	}
	return items, nil
}

// membersOf returns the fields of an object in the order of a tuple's components. A missing or an
// unknown field is an error, because its name may be misspelt.
func membersOf(fields []parameter, members map[string]any) ([]any, error) {
	items := make([]any, len(fields))
	for i, field := range fields {
		value, ok := members[field.name]
		if !ok {
			return nil, atPath(mismatchf("is missing: expected %s", field.kind.expected()), "."+field.name)
		}
		items[i] = value
	}
	if len(members) > len(fields) {
		known := make(map[string]bool, len(fields))
		for _, field := range fields {
			known[field.name] = true
		}
		for name := range members {
			if !known[name] {
				return nil, mismatchf("has the unknown field %s", describe(name))
			}
		}
	}
	return items, nil
}

func typeMismatch(t *abiType, value any) error {
	return mismatchf("expected %s, got %s", t.expected(), describe(value))
}

// contentOf returns the content of a bytes or string value.
func contentOf(t *abiType, value any) ([]byte, error) {
	text, ok := value.(string)
	if !ok {
		return nil, typeMismatch(t, value)
	}
	if t.kind == kindString {
		return []byte(text), nil
	}
	data, err := parseBytes(text)
	if err != nil {
		return nil, typeMismatch(t, value)
	}
	return data, nil
}

// encodeWord encodes a value of one word.
func encodeWord(t *abiType, value any) ([]byte, error) {
	word := make([]byte, wordSize)
	switch t.kind {
	case kindUint, kindInt:
		number, ok := wholeNumber(value)
		least, most := t.limits()
		if !ok || number.Cmp(least) < 0 || number.Cmp(most) > 0 {
			return nil, typeMismatch(t, value)
		}
		if number.Sign() < 0 {
			number.Add(number, new(big.Int).Lsh(big.NewInt(1), 8*wordSize))
		}
		return number.FillBytes(word), nil
	case kindBool:
		truth, ok := value.(bool)
		if !ok {
			return nil, typeMismatch(t, value)
		}
		if truth {
			word[wordSize-1] = 1
		}
	case kindAddress:
		text, _ := value.(string)
		address, err := parseAddress(text)
		if err != nil && len(text) == 42 {
			return nil, mismatchf("expected an address: %s; got %s", err, describe(value))
		}
		if err != nil {
			return nil, typeMismatch(t, value)
		}
		copy(word[wordSize-len(address):], address[:])
	default:
		text, _ := value.(string)
		data, err := parseBytes(text)
		if err != nil || len(data) != t.size {
			return nil, typeMismatch(t, value)
		}
		copy(word, data)
	}
	return word, nil
}

var decimalForm = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

const maxDigits = 78 // decimal digits of 2^256

// exact is the largest integer that every JSON parser represents exactly.
var exact = big.NewInt(1<<53 - 1)

// wholeNumber parses an integer of up to maxDigits: a decimal string, or a JSON number that is
// small enough to be exact.
func wholeNumber(value any) (*big.Int, bool) {
	text, isText := value.(string)
	if number, ok := value.(json.Number); ok {
		text = number.String()
	} else if !isText {
		return nil, false
	}
	if len(strings.TrimPrefix(text, "-")) > maxDigits || !decimalForm.MatchString(text) {
		return nil, false
	}
	number, ok := new(big.Int).SetString(text, 10)
	if !ok || !isText && number.CmpAbs(exact) > 0 {
		return nil, false
	}
	return number, true
}

// decimalOf parses an integer from 0 to 2^bits-1.
func decimalOf(value any, bits int) (*big.Int, error) {
	number, ok := wholeNumber(value)
	if !ok || number.Sign() < 0 || number.BitLen() > bits {
		most := "2^" + strconv.Itoa(bits) + "-1"
		return nil, errors.New("expected a decimal string from 0 to " + most + ", got " + describe(value))
	}
	return number, nil
}
