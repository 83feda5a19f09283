package evm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// This file hashes typed data (EIP-712). It is strict: a struct must have exactly the declared
// fields, an integer must fit its type, and a fixed-length array must have its length. So the
// signed data is the data that a wallet would show.

// Bounds on the types of one call.
const (
	maxStructs  = 256
	maxMembers  = 256
	maxTypeText = 512
)

const domainType = "EIP712Domain"

// typedMember is a field of a struct.
type typedMember struct{ Name, Type string }

func (m *typedMember) UnmarshalJSON(data []byte) error {
	return decodeExact(data, map[string]any{"name": &m.Name, "type": &m.Type})
}

// typedData has the struct types of one call.
type typedData struct {
	structs map[string][]typedMember
	kinds   map[string]*typedKind // by the name of the type
	hashes  map[string][]byte     // type hashes of structs
}

// typedKind is the type of a field: an array (item), a struct (name) or an elementary type (value).
type typedKind struct {
	text  string
	item  *typedKind
	size  int // length of a fixed-length array; otherwise 0
	name  string
	value *abiType
}

// domainMembers are the domain fields that EIP-712 defines, in order.
var domainMembers = []typedMember{{"name", "string"}, {"version", "string"}, {"chainId", "uint256"}, {"verifyingContract", "address"}, {"salt", "bytes32"}}

// newTypedData parses `types`. If `types` lacks EIP712Domain, it is derived from the fields of
// the domain.
func newTypedData(types json.RawMessage, domain map[string]any) (*typedData, error) {
	d := &typedData{kinds: map[string]*typedKind{}, hashes: map[string][]byte{}}
	if json.Unmarshal(types, &d.structs) != nil || d.structs == nil {
		return nil, atPath(mismatchf("expected an object that maps each struct name to an array of fields with name and type"), "types")
	}
	if _, given := d.structs[domainType]; !given {
		for _, member := range domainMembers {
			if _, has := domain[member.Name]; has {
				d.structs[domainType] = append(d.structs[domainType], member)
			}
		}
	}
	if len(domain) == 0 {
		return nil, atPath(mismatchf("expected at least one of name, version, chainId, verifyingContract and salt: without a domain the signature would be valid everywhere"), "domain")
	}
	if len(d.structs) > maxStructs {
		return nil, atPath(mismatchf("expected at most %d types, got %d", maxStructs, len(d.structs)), "types")
	}
	for _, name := range slices.Sorted(maps.Keys(d.structs)) {
		if err := d.checkStruct(name); err != nil {
			return nil, atPath(err, "types."+truncate(name))
		}
	}
	return d, nil
}

func (d *typedData) checkStruct(name string) error {
	if _, err := elementaryType(name); err == nil || !identifier(name) {
		return mismatchf("expected a struct name of letters, digits, $ and _ that is not the name of an elementary type")
	}
	if len(d.structs[name]) > maxMembers {
		return mismatchf("expected at most %d fields, got %d", maxMembers, len(d.structs[name]))
	}
	seen := map[string]bool{}
	for i, member := range d.structs[name] {
		at := "[" + strconv.Itoa(i) + "]"
		if !identifier(member.Name) || seen[member.Name] {
			return atPath(mismatchf("expected a unique name of letters, digits, $ and _, got %s", describe(member.Name)), at+".name")
		}
		seen[member.Name] = true
		if _, err := d.kind(member.Type); err != nil {
			return atPath(err, at+".type")
		}
		for _, known := range domainMembers {
			if name == domainType && known.Name == member.Name && known.Type != member.Type {
				return atPath(mismatchf("expected %s, got %s", known.Type, describe(member.Type)), at+".type")
			}
		}
	}
	return nil
}

// kind parses the type of a field.
func (d *typedData) kind(text string) (*typedKind, error) {
	if known := d.kinds[text]; known != nil {
		return known, nil
	}
	if len(text) > maxTypeText || strings.Count(text, "[") > maxTypeDepth {
		return nil, mismatchf("expected a type of at most %d characters and %d dimensions", maxTypeText, maxTypeDepth)
	}
	kind := &typedKind{text: text}
	open := strings.LastIndexByte(text, '[')
	switch {
	case open >= 0:
		length, closed := strings.CutSuffix(text[open+1:], "]")
		size, err := strconv.Atoi(length)
		if !closed || length != "" && (err != nil || size < 1 || length[0] < '1') {
			return nil, mismatchf("expected an array such as uint256[] or uint256[2], got %s", describe(text))
		}
		if kind.item, err = d.kind(text[:open]); err != nil {
			return nil, err
		}
		kind.size = size
	case d.has(text):
		kind.name = text
	default:
		value, err := elementaryType(text)
		if err != nil || value.name != text || text == "function" {
			return nil, mismatchf("expected a type of EIP-712 such as uint256, address, bytes32, bytes or string, or the name of a struct in types, got %s", describe(text))
		}
		kind.value = value
	}
	d.kinds[text] = kind
	return kind, nil
}

func (d *typedData) has(name string) bool {
	_, ok := d.structs[name]
	return ok
}

// typeHash returns the hash of a struct type, which covers all referenced structs.
func (d *typedData) typeHash(name string) []byte {
	if known := d.hashes[name]; known != nil {
		return known
	}
	referred := map[string]bool{}
	d.refer(name, referred)
	delete(referred, name)
	var text strings.Builder
	for _, one := range slices.Concat([]string{name}, slices.Sorted(maps.Keys(referred))) {
		text.WriteString(one + "(")
		for i, member := range d.structs[one] {
			if i > 0 {
				text.WriteByte(',')
			}
			text.WriteString(member.Type + " " + member.Name)
		}
		text.WriteByte(')')
	}
	d.hashes[name] = crypto.Keccak256([]byte(text.String()))
	return d.hashes[name]
}

// refer adds a struct and all structs that it refers to, directly or indirectly, to found.
func (d *typedData) refer(name string, found map[string]bool) {
	if found[name] {
		return
	}
	found[name] = true
	for _, member := range d.structs[name] {
		if base, _, _ := strings.Cut(member.Type, "["); d.has(base) {
			d.refer(base, found)
		}
	}
}

// hashStruct returns the hash of a struct value.
func (d *typedData) hashStruct(name string, value any) ([]byte, error) {
	members, ok := value.(map[string]any)
	if !ok {
		return nil, mismatchf("expected the struct %s, an object, got %s", truncate(name), describe(value))
	}
	encoded := slices.Clone(d.typeHash(name))
	for _, member := range d.structs[name] {
		kind, err := d.kind(member.Type)
		if err != nil {
			return nil, err
		}
		given, ok := members[member.Name]
		if !ok {
			return nil, atPath(mismatchf("is missing: expected %s", truncate(member.Type)), "."+member.Name)
		}
		word, err := d.encode(kind, given)
		if err != nil {
			return nil, atPath(err, "."+member.Name)
		}
		encoded = append(encoded, word...)
	}
	if len(members) > len(d.structs[name]) {
		for given := range members {
			if !slices.ContainsFunc(d.structs[name], func(m typedMember) bool { return m.Name == given }) {
				return nil, mismatchf("has the unknown field %s; the struct %s doesn't declare it", describe(given), truncate(name))
			}
		}
	}
	return crypto.Keccak256(encoded), nil
}

// encode returns the word that represents a value in its struct.
func (d *typedData) encode(kind *typedKind, value any) ([]byte, error) {
	switch {
	case kind.item != nil:
		items, ok := value.([]any)
		if !ok || kind.size > 0 && len(items) != kind.size {
			return nil, mismatchf("expected %s, an array, got %s", kind.text, describe(value))
		}
		var words []byte
		for i, item := range items {
			word, err := d.encode(kind.item, item)
			if err != nil {
				return nil, atPath(err, "["+strconv.Itoa(i)+"]")
			}
			words = append(words, word...)
		}
		return crypto.Keccak256(words), nil
	case kind.name != "":
		return d.hashStruct(kind.name, value)
	case kind.value.dynamic:
		content, err := contentOf(kind.value, value)
		return crypto.Keccak256(content), err
	}
	return encodeWord(kind.value, value)
}

// typedDataHashes returns the hash to sign and the hash of the domain.
func typedDataHashes(types json.RawMessage, domain, message any, primary string) (signed, separator common.Hash, err error) {
	members, ok := domain.(map[string]any)
	if !ok {
		return signed, separator, errors.New("domain: expected an object")
	}
	d, err := newTypedData(types, members)
	if err != nil {
		return signed, separator, err
	}
	if !d.has(primary) || primary == domainType {
		return signed, separator, fmt.Errorf("primaryType: expected the name of a struct in types, got %s", describe(primary))
	}
	domainHash, err := d.hashStruct(domainType, domain)
	if err != nil {
		return signed, separator, atPath(err, "domain")
	}
	messageHash, err := d.hashStruct(primary, message)
	if err != nil {
		return signed, separator, atPath(err, "message")
	}
	return crypto.Keccak256Hash([]byte{0x19, 0x01}, domainHash, messageHash), common.BytesToHash(domainHash), nil
}
