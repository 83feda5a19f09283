package evm

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// abiKind is the kind of an ABI type.
type abiKind int

const (
	kindUint abiKind = iota
	kindInt
	kindBool
	kindAddress
	kindFixedBytes // bytes1 to bytes32, and function, which is an address and a selector
	kindBytes
	kindString
	kindArray // of a fixed length
	kindSlice // of any length
	kindTuple
)

// abiType is a type of the contract ABI. Types come from callers' input. They are plain data,
// because types created with reflection are never garbage-collected.
type abiType struct {
	kind    abiKind
	size    int // bits of an integer, bytes of bytesN, items of an array
	item    *abiType
	fields  []parameter // of a tuple
	object  bool        // the field names are unique, so an object can hold the values
	name    string      // the canonical name in signatures
	head    int         // number of bytes that the type occupies in the head of its parent
	dynamic bool        // the head holds an offset
	depth   int         // nesting depth of arrays and tuples
}

// parameter is a named value of a function, event, error or tuple.
type parameter struct {
	name    string
	kind    *abiType
	indexed bool // of an event
}

// Bounds on types. No contract in use comes near them.
const (
	wordSize     = 32
	maxTypeDepth = 16
	maxHead      = 1 << 20 // bytes
	maxName      = 256     // characters of an identifier
)

const typeExpected = "expected an ABI type such as uint256, address, bytes32, string[] or tuple"

// elementaryType parses the name of a type other than an array or a tuple.
func elementaryType(name string) (*abiType, error) {
	t := &abiType{name: name, head: wordSize}
	base := strings.TrimRight(name, "0123456789")
	digits := name[len(base):]
	switch name {
	case "uint", "int":
		digits, t.name = "256", name+"256"
	case "bool":
		t.kind = kindBool
		return t, nil
	case "address":
		t.kind = kindAddress
		return t, nil
	case "function":
		t.kind, t.size = kindFixedBytes, 24
		return t, nil
	case "bytes", "string":
		t.kind, t.dynamic = kindBytes, true
		if name == "string" {
			t.kind = kindString
		}
		return t, nil
	}
	size, err := strconv.Atoi(digits)
	if err != nil || strings.HasPrefix(digits, "0") {
		return nil, fmt.Errorf("%s, got %s", typeExpected, describe(name))
	}
	t.size = size
	switch {
	case base == "uint" && size <= 256 && size%8 == 0:
		t.kind = kindUint
	case base == "int" && size <= 256 && size%8 == 0:
		t.kind = kindInt
	case base == "bytes" && size <= wordSize:
		t.kind = kindFixedBytes
	default:
		return nil, fmt.Errorf("%s, got %s", typeExpected, describe(name))
	}
	return t, nil
}

// tupleOf returns the type of a tuple. Empty tuples are invalid: they occupy no bytes, so a few
// bytes of data could encode an array of any length.
func tupleOf(fields []parameter) (*abiType, error) {
	if len(fields) == 0 {
		return nil, errors.New("a tuple must have components")
	}
	t := &abiType{kind: kindTuple, fields: fields, object: named(fields), name: "(" + typeNames(fields) + ")"}
	for _, field := range fields {
		t.head += field.kind.head
		t.dynamic = t.dynamic || field.kind.dynamic
		t.depth = max(t.depth, field.kind.depth)
		if t.head > maxHead {
			return nil, fmt.Errorf("a type can occupy at most %d bytes", maxHead)
		}
	}
	return t.nested()
}

// arraysOf applies array suffixes, such as [][3], to a type.
func arraysOf(item *abiType, suffixes string) (*abiType, error) {
	for suffixes != "" {
		length, rest, closed := strings.Cut(strings.TrimPrefix(suffixes, "["), "]")
		if suffixes[0] != '[' || !closed {
			return nil, fmt.Errorf("%s, got the array %s", typeExpected, describe(suffixes))
		}
		t := &abiType{kind: kindSlice, item: item, name: item.name + "[" + length + "]", dynamic: true, head: wordSize, depth: item.depth}
		if length != "" {
			size, err := strconv.Atoi(length)
			if err != nil || size < 1 || length[0] < '1' || size > maxHead/item.head {
				return nil, fmt.Errorf("a fixed-length array has at least 1 item and occupies at most %d bytes, got the length %s", maxHead, describe(length))
			}
			t.kind, t.size, t.dynamic = kindArray, size, item.dynamic
			if !t.dynamic {
				t.head = size * item.head
			}
		}
		var err error
		if item, err = t.nested(); err != nil {
			return nil, err
		}
		suffixes = rest
	}
	return item, nil
}

func (t *abiType) nested() (*abiType, error) {
	if t.depth++; t.depth > maxTypeDepth {
		return nil, fmt.Errorf("arrays and tuples can be nested %d deep", maxTypeDepth)
	}
	if t.kind == kindTuple && t.dynamic {
		t.head = wordSize
	}
	return t, nil
}

// typeNames joins the canonical names of types, as in a signature.
func typeNames(parameters []parameter) string {
	names := make([]string, len(parameters))
	for i, p := range parameters {
		names[i] = p.kind.name
	}
	return strings.Join(names, ",")
}

// named reports whether every parameter has a unique name.
func named(parameters []parameter) bool {
	seen := make(map[string]bool, len(parameters))
	for _, p := range parameters {
		if p.name == "" || seen[p.name] {
			return false
		}
		seen[p.name] = true
	}
	return true
}

// step returns the path element of a parameter.
func (p parameter) step(index int) string {
	if p.name == "" {
		return "[" + strconv.Itoa(index) + "]"
	}
	return "." + p.name
}

// label returns the first path element of a parameter.
func (p parameter) label(index int) string { return strings.TrimPrefix(p.step(index), ".") }

// limits returns the smallest and the largest value of an integer type.
func (t *abiType) limits() (least, most *big.Int) {
	bits, least := uint(t.size), new(big.Int)
	if t.kind == kindInt {
		bits--
		least.Neg(least.Lsh(big.NewInt(1), bits))
	}
	most = new(big.Int).Lsh(big.NewInt(1), bits)
	return least, most.Sub(most, big.NewInt(1))
}

// expected describes the valid values of the type, for an error message.
func (t *abiType) expected() string {
	switch t.kind {
	case kindUint, kindInt:
		least, most := t.limits()
		switch {
		case t.size <= 48:
			return fmt.Sprintf("%s, %s to %s", t.name, least, most)
		case t.kind == kindInt:
			return fmt.Sprintf("%s, a decimal string from -2^%d to 2^%d-1", t.name, t.size-1, t.size-1)
		}
		return fmt.Sprintf("%s, a decimal string from 0 to 2^%d-1", t.name, t.size)
	case kindBool:
		return "bool, true or false"
	case kindAddress:
		return "address, 0x and 40 hexadecimal digits"
	case kindFixedBytes:
		return fmt.Sprintf("%s, 0x and %d hexadecimal digits", t.name, 2*t.size)
	case kindBytes:
		return "bytes, 0x and pairs of hexadecimal digits"
	case kindString:
		return "string"
	case kindArray:
		return fmt.Sprintf("%s, an array of %d items", truncate(t.name), t.size)
	case kindSlice:
		return fmt.Sprintf("%s, an array", truncate(t.name))
	}
	if t.object {
		return fmt.Sprintf("the tuple %s, an object or an array of %d items", truncate(t.name), len(t.fields))
	}
	return fmt.Sprintf("the tuple %s, an array of %d items", truncate(t.name), len(t.fields))
}
