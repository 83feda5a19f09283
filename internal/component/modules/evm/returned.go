package evm

import (
	"encoding/binary"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
)

// This file decodes data that contracts return, in the encoding of the contract ABI. The data is
// hostile: offsets that repeatedly point to the same data would expand a few bytes into unbounded
// output, so the decoder limits how often it reads each byte. A value that doesn't fit its type is
// an error.

// maxReads is how often the average byte may be read. Data from compilers and libraries needs one
// read.
const maxReads = 4

// decodeParameters decodes values in the order of the parameters. It returns integers as decimal
// strings, bytes as 0x-hex and addresses in EIP-55 form. A tuple is an object if all its components
// have unique names, and an array otherwise.
func decodeParameters(parameters []parameter, data []byte) ([]any, error) {
	d := abiDecoder{data: data, budget: maxReads*len(data) + wordSize}
	kind := func(i int) *abiType { return parameters[i].kind }
	return d.sequence(0, len(parameters), kind, func(i int) string { return parameters[i].label(i) })
}

type abiDecoder struct {
	data   []byte
	budget int // bytes that may still be read
}

// word reads one word.
func (d *abiDecoder) word(at int) ([]byte, error) {
	if at > len(d.data)-wordSize {
		return nil, mismatchf("the data ends early: %d bytes expected at byte %d, %d left", wordSize, at, max(0, len(d.data)-at))
	}
	if err := d.spend(wordSize); err != nil {
		return nil, err
	}
	return d.data[at : at+wordSize], nil
}

// spend reduces the budget. It returns an error if the budget is exhausted.
func (d *abiDecoder) spend(bytes int) error {
	if d.budget -= bytes; d.budget < 0 {
		return mismatchf("the data refers to the same bytes too many times")
	}
	return nil
}

// size reads an offset or a length. It returns an error if the value exceeds the size of the data.
func (d *abiDecoder) size(at int, what string) (int, error) {
	word, err := d.word(at)
	if err != nil {
		return 0, err
	}
	for _, b := range word[:wordSize-8] {
		if b != 0 {
			return 0, mismatchf("the data has %s beyond its end", what)
		}
	}
	n := binary.BigEndian.Uint64(word[wordSize-8:])
	if n > uint64(len(d.data)) {
		return 0, mismatchf("the data has %s beyond its end", what)
	}
	return int(n), nil
}

// sequence decodes values whose heads start at base. Offsets are relative to base.
func (d *abiDecoder) sequence(base, count int, kind func(int) *abiType, step func(int) string) ([]any, error) {
	list := make([]any, 0, min(count, len(d.data)/wordSize+1))
	at := base
	for i := range count {
		t := kind(i)
		place := at
		if t.dynamic {
			offset, err := d.size(at, "an offset")
			if err != nil {
				return nil, atPath(err, step(i))
			}
			place = base + offset
		}
		value, err := d.value(t, place)
		if err != nil {
			return nil, atPath(err, step(i))
		}
		list = append(list, value)
		at += t.head
	}
	return list, nil
}

func (d *abiDecoder) value(t *abiType, at int) (any, error) {
	switch t.kind {
	case kindBytes, kindString:
		return d.content(t, at)
	case kindSlice:
		count, err := d.size(at, "a length")
		if err != nil {
			return nil, err
		}
		if at += wordSize; count > (len(d.data)-at)/t.item.head {
			return nil, mismatchf("the data ends early: %d bytes expected at byte %d for an array of %d items, %d left", count*t.item.head, at, count, max(0, len(d.data)-at))
		}
		return d.sequence(at, count, t.at, t.step)
	case kindArray:
		return d.sequence(at, t.size, t.at, t.step)
	case kindTuple:
		list, err := d.sequence(at, len(t.fields), t.at, t.step)
		if err != nil || !t.object {
			return list, err
		}
		members := make(map[string]any, len(list))
		for i, value := range list {
			members[t.fields[i].name] = value
		}
		return members, nil
	}
	word, err := d.word(at)
	if err != nil {
		return nil, err
	}
	return wordValue(t, word)
}

// byName maps the parameters with unique names to their values.
func byName(parameters []parameter, list []any) map[string]any {
	count := map[string]int{"": 2}
	for _, p := range parameters {
		count[p.name]++
	}
	members := make(map[string]any, len(parameters))
	for i, p := range parameters {
		if count[p.name] == 1 {
			members[p.name] = list[i]
		}
	}
	return members
}

// content decodes bytes or a string.
func (d *abiDecoder) content(t *abiType, at int) (any, error) {
	length, err := d.size(at, "a length")
	if err != nil {
		return nil, err
	}
	if at += wordSize; length > len(d.data)-at {
		return nil, mismatchf("the data ends early: %d bytes of %s expected at byte %d, %d left", length, t.name, at, max(0, len(d.data)-at))
	}
	if err := d.spend(length); err != nil {
		return nil, err
	}
	content := d.data[at : at+length]
	if t.kind == kindBytes {
		return hexOf(content), nil
	}
	if !utf8.Valid(content) || strings.IndexByte(string(content), 0) >= 0 {
		return nil, mismatchf("the string is not valid UTF-8 or contains NUL; declare it as bytes in the abi to read its content")
	}
	return string(content), nil
}

// wordValue decodes a value of one word. It returns an error if the word contains bits that the
// type can't hold.
func wordValue(t *abiType, word []byte) (any, error) {
	empty := func(part []byte) bool { return strings.Trim(string(part), "\x00") == "" }
	switch t.kind {
	case kindUint, kindInt:
		number := new(big.Int).SetBytes(word)
		if t.kind == kindInt && number.Bit(8*wordSize-1) == 1 {
			number.Sub(number, new(big.Int).Lsh(big.NewInt(1), 8*wordSize))
		}
		least, most := t.limits()
		if number.Cmp(least) < 0 || number.Cmp(most) > 0 {
			return nil, mismatchf("expected %s, got the word 0x%x", t.expected(), word)
		}
		return number.String(), nil
	case kindBool:
		if !empty(word[:wordSize-1]) || word[wordSize-1] > 1 {
			return nil, mismatchf("expected a bool, 0 or 1, got the word 0x%x", word)
		}
		return word[wordSize-1] == 1, nil
	case kindAddress:
		if !empty(word[:wordSize-common.AddressLength]) {
			return nil, mismatchf("expected an address of %d bytes, got the word 0x%x", common.AddressLength, word)
		}
		return common.BytesToAddress(word).Hex(), nil
	}
	if !empty(word[t.size:]) {
		return nil, mismatchf("expected %s of %d bytes, got the word 0x%x", t.name, t.size, word)
	}
	return hexOf(word[:t.size]), nil
}
