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

// This file hashes typed data (EIP-712), strictly: every member of a struct is
// there and no other, every integer fits its type, every array has its length.
// What a wallet would show and what is signed are then the same.

// Bounds on the types of one call.
const (
	maxStructs  = 256
	maxMembers  = 256
	maxTypeText = 512
)

const domainType = "EIP712Domain"

// typedMember is a member of a struct.
type typedMember struct{ Name, Type string }

func (m *typedMember) UnmarshalJSON(data []byte) error {
	return decodeExact(data, map[string]any{"name": &m.Name, "type": &m.Type})
}

// typedData is the structs of one call.
type typedData struct {
	structs map[string][]typedMember
	kinds   map[string]*typedKind // by what is written
	hashes  map[string][]byte     // of struct types
}

// typedKind is a type of a member: an array of items, a struct, or a value.
type typedKind struct {
	text  string
	item  *typedKind
	size  int // items of an array; 0: any
	name  string
	value *abiType
}

// domainMembers are those that the EIP names, in its order.
var domainMembers = []typedMember{{"name", "string"}, {"version", "string"}, {"chainId", "uint256"}, {"verifyingContract", "address"}, {"salt", "bytes32"}}

// newTypedData reads `types`. Without EIP712Domain among them, that is made of
// the members that the domain has.
func newTypedData(types json.RawMessage, domain map[string]any) (*typedData, error) {
	d := &typedData{kinds: map[string]*typedKind{}, hashes: map[string][]byte{}}
	if json.Unmarshal(types, &d.structs) != nil || d.structs == nil {
		return nil, under(misfitf("expected an object of arrays of name and type"), "types")
	}
	if _, given := d.structs[domainType]; !given {
		for _, member := range domainMembers {
			if _, has := domain[member.Name]; has {
				d.structs[domainType] = append(d.structs[domainType], member)
			}
		}
	}
	if len(domain) == 0 {
		return nil, under(misfitf("expected at least one of name, version, chainId, verifyingContract and salt: without a domain the signature would hold everywhere"), "domain")
	}
	if len(d.structs) > maxStructs {
		return nil, under(misfitf("expected at most %d types, got %d", maxStructs, len(d.structs)), "types")
	}
	for _, name := range slices.Sorted(maps.Keys(d.structs)) {
		if err := d.checkStruct(name); err != nil {
			return nil, under(err, "types."+cut(name))
		}
	}
	return d, nil
}

func (d *typedData) checkStruct(name string) error {
	if _, err := elementaryType(name); err == nil || !identifier(name) {
		return misfitf("expected the name of a struct: letters, digits, $ and _, and not that of another type")
	}
	if len(d.structs[name]) > maxMembers {
		return misfitf("expected at most %d members, got %d", maxMembers, len(d.structs[name]))
	}
	seen := map[string]bool{}
	for i, member := range d.structs[name] {
		at := "[" + strconv.Itoa(i) + "]"
		if !identifier(member.Name) || seen[member.Name] {
			return under(misfitf("expected a name of its own, of letters, digits, $ and _, got %s", came(member.Name)), at+".name")
		}
		seen[member.Name] = true
		if _, err := d.kind(member.Type); err != nil {
			return under(err, at+".type")
		}
		for _, known := range domainMembers {
			if name == domainType && known.Name == member.Name && known.Type != member.Type {
				return under(misfitf("expected %s, got %s", known.Type, came(member.Type)), at+".type")
			}
		}
	}
	return nil
}

// kind reads the type of a member.
func (d *typedData) kind(text string) (*typedKind, error) {
	if known := d.kinds[text]; known != nil {
		return known, nil
	}
	if len(text) > maxTypeText || strings.Count(text, "[") > maxTypeDepth {
		return nil, misfitf("expected a type of at most %d characters and %d dimensions", maxTypeText, maxTypeDepth)
	}
	kind := &typedKind{text: text}
	open := strings.LastIndexByte(text, '[')
	switch {
	case open >= 0:
		length, closed := strings.CutSuffix(text[open+1:], "]")
		size, err := strconv.Atoi(length)
		if !closed || length != "" && (err != nil || size < 1 || length[0] < '1') {
			return nil, misfitf("expected an array such as uint256[] or uint256[2], got %s", came(text))
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
			return nil, misfitf("expected a type of EIP-712 such as uint256, address, bytes32, bytes or string, or one of types, got %s", came(text))
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

// typeHash is the hash of a struct type and of those that it refers to.
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

// refer finds the structs that a struct is made of, itself among them.
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

// hashStruct is the hash of a struct with its values.
func (d *typedData) hashStruct(name string, value any) ([]byte, error) {
	members, ok := value.(map[string]any)
	if !ok {
		return nil, misfitf("expected the struct %s, an object, got %s", cut(name), came(value))
	}
	encoded := slices.Clone(d.typeHash(name))
	for _, member := range d.structs[name] {
		kind, err := d.kind(member.Type)
		if err != nil {
			return nil, err
		}
		given, ok := members[member.Name]
		if !ok {
			return nil, under(misfitf("is missing: expected %s", cut(member.Type)), "."+member.Name)
		}
		word, err := d.encode(kind, given)
		if err != nil {
			return nil, under(err, "."+member.Name)
		}
		encoded = append(encoded, word...)
	}
	if len(members) > len(d.structs[name]) {
		for given := range members {
			if !slices.ContainsFunc(d.structs[name], func(m typedMember) bool { return m.Name == given }) {
				return nil, misfitf("has the member %s, which the struct %s has not", came(given), cut(name))
			}
		}
	}
	return crypto.Keccak256(encoded), nil
}

// encode is the one word that stands for a value in its struct.
func (d *typedData) encode(kind *typedKind, value any) ([]byte, error) {
	switch {
	case kind.item != nil:
		items, ok := value.([]any)
		if !ok || kind.size > 0 && len(items) != kind.size {
			return nil, misfitf("expected %s, an array, got %s", kind.text, came(value))
		}
		var words []byte
		for i, item := range items {
			word, err := d.encode(kind.item, item)
			if err != nil {
				return nil, under(err, "["+strconv.Itoa(i)+"]")
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

// typedDataHashes are the hash that is signed, and that of the domain.
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
		return signed, separator, fmt.Errorf("primaryType: expected one of types, got %s", came(primary))
	}
	domainHash, err := d.hashStruct(domainType, domain)
	if err != nil {
		return signed, separator, under(err, "domain")
	}
	messageHash, err := d.hashStruct(primary, message)
	if err != nil {
		return signed, separator, under(err, "message")
	}
	return crypto.Keccak256Hash([]byte{0x19, 0x01}, domainHash, messageHash), common.BytesToHash(domainHash), nil
}
