package evm

import (
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// This file encodes JSON values as the contract ABI wants them. What a value
// must be comes from its type alone; nothing is guessed, rounded or cut.

// encodeArguments encodes values in the order of the parameters.
func encodeArguments(parameters []parameter, list []any) ([]byte, error) {
	out := encoder{}
	for i, p := range parameters {
		if err := out.add(p.kind, list[i]); err != nil {
			return nil, under(err, "["+strconv.Itoa(i)+"]")
		}
	}
	return out.finish(), nil
}

// encoder puts a sequence of values together: first the heads, then what the
// offsets in them point at.
type encoder struct {
	head, tail []byte
	pointers   []pointer
}

// pointer is an offset to be written when the length of the head is known.
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

// appendStatic encodes a value whose length its type tells.
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
			return nil, under(err, t.step(i))
		}
	}
	return out, nil
}

// appendDynamic encodes a value that an offset points at.
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
			return nil, under(err, t.step(i))
		}
	}
	return append(out, inner.finish()...), nil
}

func appendLength(out []byte, n int) []byte {
	return append(out, big.NewInt(int64(n)).FillBytes(make([]byte, wordSize))...)
}

// at is the type of an item of an array or a tuple.
func (t *abiType) at(index int) *abiType {
	if t.kind == kindTuple {
		return t.fields[index].kind
	}
	return t.item
}

// step is the place of an item in a path.
func (t *abiType) step(index int) string {
	if t.kind == kindTuple {
		return t.fields[index].step(index)
	}
	return "[" + strconv.Itoa(index) + "]"
}

// itemsOf is what an array or a tuple holds, in order.
func itemsOf(t *abiType, value any) ([]any, error) {
	if members, ok := value.(map[string]any); ok && t.object {
		return membersOf(t.fields, members)
	}
	items, ok := value.([]any)
	wanted := t.kind == kindSlice || t.kind == kindArray && len(items) == t.size || t.kind == kindTuple && len(items) == len(t.fields)
	if !ok || !wanted {
		return nil, unfit(t, value)
	}
	return items, nil
}

// membersOf brings the members of an object into the order of a tuple. One
// that is missing or not known is an error: either may be a misspelt name.
func membersOf(fields []parameter, members map[string]any) ([]any, error) {
	items := make([]any, len(fields))
	for i, field := range fields {
		value, ok := members[field.name]
		if !ok {
			return nil, under(misfitf("is missing: expected %s", field.kind.expected()), "."+field.name)
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
				return nil, misfitf("has the unknown member %s", came(name))
			}
		}
	}
	return items, nil
}

func unfit(t *abiType, value any) error {
	return misfitf("expected %s, got %s", t.expected(), came(value))
}

// contentOf is what bytes or a string holds.
func contentOf(t *abiType, value any) ([]byte, error) {
	text, ok := value.(string)
	if !ok {
		return nil, unfit(t, value)
	}
	if t.kind == kindString {
		return []byte(text), nil
	}
	data, err := parseBytes(text)
	if err != nil {
		return nil, unfit(t, value)
	}
	return data, nil
}

// encodeWord encodes a value that takes one word.
func encodeWord(t *abiType, value any) ([]byte, error) {
	word := make([]byte, wordSize)
	switch t.kind {
	case kindUint, kindInt:
		number, ok := wholeNumber(value)
		least, most := t.limits()
		if !ok || number.Cmp(least) < 0 || number.Cmp(most) > 0 {
			return nil, unfit(t, value)
		}
		if number.Sign() < 0 {
			number.Add(number, new(big.Int).Lsh(big.NewInt(1), 8*wordSize))
		}
		return number.FillBytes(word), nil
	case kindBool:
		truth, ok := value.(bool)
		if !ok {
			return nil, unfit(t, value)
		}
		if truth {
			word[wordSize-1] = 1
		}
	case kindAddress:
		text, _ := value.(string)
		address, err := parseAddress(text)
		if err != nil && len(text) == 42 {
			return nil, misfitf("expected an address: %s; got %s", err, came(value))
		}
		if err != nil {
			return nil, unfit(t, value)
		}
		copy(word[wordSize-len(address):], address[:])
	default:
		text, _ := value.(string)
		data, err := parseBytes(text)
		if err != nil || len(data) != t.size {
			return nil, unfit(t, value)
		}
		copy(word, data)
	}
	return word, nil
}

var decimalForm = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

const maxDigits = 78 // those of 2^256

// exact is the largest whole number that every JSON parser keeps as it is.
var exact = big.NewInt(1<<53 - 1)

// wholeNumber reads an integer of up to maxDigits: a decimal string, or a JSON
// number that no parser on its way here can have rounded.
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

// decimalOf reads an integer from 0 to 2^bits-1.
func decimalOf(value any, bits int) (*big.Int, error) {
	number, ok := wholeNumber(value)
	if !ok || number.Sign() < 0 || number.BitLen() > bits {
		most := "2^" + strconv.Itoa(bits) + "-1"
		return nil, errors.New("expected a decimal string from 0 to " + most + ", got " + came(value))
	}
	return number, nil
}
