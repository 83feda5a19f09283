package evm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// abiForms describes the accepted forms of the input `abi`.
const abiForms = "The contract's ABI: the compiler's JSON ABI (an array, or a string that contains the JSON array), or human-readable signatures such as function transfer(address to, uint256 amount) returns (bool) or event Transfer(address indexed from, address indexed to, uint256 value), as an array of strings or as one string with one signature per line."

// abiProperty is the schema of `abi` for modules that encode and decode calls.
const abiProperty = `"abi": {"type": ["array", "string"], "maxItems": 10000, "minLength": 1, "title": "ABI", "description": "` + abiForms + `", "examples": [["function transfer(address to, uint256 amount) returns (bool)"], [{"type": "function", "name": "transfer", "stateMutability": "nonpayable", "inputs": [{"name": "to", "type": "address"}, {"name": "amount", "type": "uint256"}], "outputs": [{"name": "", "type": "bool"}]}]]}`

// eventsABIProperty is the schema of `abi` for modules that read logs.
const eventsABIProperty = `"abi": {"type": ["array", "string"], "maxItems": 10000, "minLength": 1, "title": "ABI", "description": "` + abiForms + `", "examples": [["event Transfer(address indexed from, address indexed to, uint256 value)"]]}`

// errorsABIProperty is the schema of `abi` for modules that use it only to decode custom errors.
const errorsABIProperty = `"abi": {"type": ["array", "string"], "maxItems": 10000, "minLength": 1, "title": "ABI", "description": "Used to decode custom errors: if a call reverts with one of them, the error has its name and values. ` + abiForms + `", "examples": [["error InsufficientBalance(uint256 available, uint256 required)"]]}`

// contractABI is a parsed ABI. Nil means that the caller supplied none.
type contractABI struct {
	functions, events, errors []signature
	constructor               *signature
	entries                   int
	unusable                  map[string]error // why an entry can't be used, by its name
}

const maxEntries = 10_000

// signature is a function, an event or an error.
type signature struct {
	name            string
	inputs, outputs []parameter
	anonymous       bool        // an event without a topic that identifies it
	text            string      // the canonical form, such as transfer(address,uint256)
	hash            common.Hash // Keccak-256 of text; selectors and topics derive from it
}

// hashed returns the signature with text and hash set. Both are computed once, because each log of
// a response is compared with them.
func (s signature) hashed() signature {
	s.text = s.name + "(" + typeNames(s.inputs) + ")"
	s.hash = crypto.Keccak256Hash([]byte(s.text))
	return s
}

// indexed returns the number of indexed parameters of an event.
func (s signature) indexed() (count int) {
	for _, input := range s.inputs {
		if input.indexed {
			count++
		}
	}
	return count
}

// parseABI parses an ABI in any of its forms. It returns nil for an empty input. Errors contain the
// path within `abi`.
func parseABI(raw json.RawMessage) (*contractABI, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		text = strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(text, "{"):
			return nil, mismatchf("expected a JSON ABI, which is an array; use the abi field of the compiler's output")
		case !strings.HasPrefix(text, "["):
			return parseLines(text)
		}
		raw = json.RawMessage(text)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, mismatchf("expected a JSON ABI, which is an array, or human-readable signatures%s", gotInstead(err))
	}
	contract := &contractABI{unusable: map[string]error{}}
	for i, entry := range entries {
		if err := contract.addEntry(entry); err != nil {
			name, generated := nameOf(entry)
			if err = atPath(err, "["+strconv.Itoa(i)+"]"); !generated || len(entries) == 1 || contract.entries > maxEntries {
				return nil, err
			}
			contract.unusable[name] = err
		}
	}
	return contract, nil
}

// nameOf returns the name of an entry that a compiler generated. Such an ABI can contain entries of
// other languages and of newer compilers, which only matter to a caller who asks for them by name.
// nameOf returns false for anything else, such as a signature that the caller wrote.
func nameOf(entry json.RawMessage) (string, bool) {
	var there map[string]json.RawMessage
	if json.Unmarshal(entry, &there) != nil || there["type"] == nil {
		return "", false
	}
	var name string
	_ = json.Unmarshal(there["name"], &name) // a missing name is ""
	return name, true
}

// choose is like the function choose, but if the name belongs to an unusable entry, the error says
// why.
func (c *contractABI) choose(kind, asked string, among []signature) ([]signature, error) {
	found, err := choose(kind, asked, among)
	name, _, _ := strings.Cut(asked, "(")
	if why := c.unusable[strings.TrimSpace(name)]; err != nil && why != nil {
		return nil, fmt.Errorf("the abi's entry for %s can't be used: %w", describe(asked), why)
	}
	return found, err
}

// gotInstead describes why JSON could not be decoded, as the end of an error message.
func gotInstead(err error) string {
	if broken, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("; got a string that is not valid JSON: %v, after %d bytes", broken, broken.Offset)
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return ""
	case wrong.Field == "":
		return "; got " + kindOf(wrong.Value)
	}
	return fmt.Sprintf("; got %s as its %s", kindOf(wrong.Value), truncate(strings.ToLower(wrong.Field)))
}

// kindOf returns the kind of a JSON value, as encoding/json names it, with its article.
func kindOf(value string) string {
	switch kind, _, _ := strings.Cut(value, " "); kind {
	case "array", "object":
		return "an " + kind
	case "bool":
		return "a boolean"
	default:
		return "a " + kind
	}
}

func parseLines(text string) (*contractABI, error) {
	contract, number := &contractABI{}, 0
	for line := range strings.Lines(text) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := contract.addReadable(line); err != nil {
			return nil, mismatchf("line %d: %s", number, err)
		}
	}
	return contract, nil
}

// jsonEntry has the fields of a JSON ABI entry that encoding and decoding need.
type jsonEntry struct {
	Type            *string
	Name            string
	Inputs, Outputs []jsonParameter
	Anonymous       bool
}

type jsonParameter struct {
	Name, Type string
	Components []jsonParameter
	Indexed    bool
}

func (c *contractABI) addEntry(raw json.RawMessage) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return c.addReadable(text)
	}
	var entry jsonEntry
	if err := json.Unmarshal(raw, &entry); err != nil {
		return fmt.Errorf("expected an entry of a JSON ABI with type, name and inputs, or a human-readable signature%s", gotInstead(err))
	}
	kind := "function"
	if entry.Type != nil {
		kind = *entry.Type
	}
	s := signature{name: entry.Name, anonymous: entry.Anonymous}
	if kind == "constructor" {
		s.name = kind
	}
	var err error
	if s.inputs, err = readParameters(entry.Inputs, 0); err != nil {
		return atPath(err, ".inputs")
	}
	if s.outputs, err = readParameters(entry.Outputs, 0); err != nil {
		return atPath(err, ".outputs")
	}
	return c.add(kind, s)
}

// add appends an entry to the list of its kind.
func (c *contractABI) add(kind string, s signature) error {
	if slices.Contains([]string{"function", "event", "error"}, kind) && (s.name == "" || !identifier(s.name)) {
		return fmt.Errorf("expected a name of letters, digits, $ and _, at most %d characters, got %s", maxName, describe(s.name))
	}
	if c.entries++; c.entries > maxEntries {
		return fmt.Errorf("an abi can have at most %d entries", maxEntries)
	}
	s = s.hashed()
	switch kind {
	case "function":
		c.functions = append(c.functions, s)
	case "event":
		c.events = append(c.events, s)
	case "error":
		c.errors = append(c.errors, s)
	case "constructor":
		c.constructor = &s
	case "receive", "fallback": // have no arguments
	default:
		return fmt.Errorf("expected the type function, event, error, constructor, receive or fallback, got %s", describe(kind))
	}
	return nil
}

var identifierForm = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// identifier reports whether a string is a valid name. Names have a maximum length, because each
// tuple in an output repeats the names of its components.
func identifier(name string) bool { return len(name) <= maxName && identifierForm.MatchString(name) }

func readParameters(list []jsonParameter, depth int) ([]parameter, error) {
	if depth > maxTypeDepth {
		return nil, fmt.Errorf("arrays and tuples can be nested %d deep", maxTypeDepth)
	}
	parameters := make([]parameter, len(list))
	for i, p := range list {
		kind, err := p.kind(depth)
		if err == nil && p.Name != "" && !identifier(p.Name) {
			err = fmt.Errorf("expected a name of letters, digits, $ and _, at most %d characters, got %s", maxName, describe(p.Name))
		}
		if err != nil {
			return nil, atPath(err, "["+strconv.Itoa(i)+"]")
		}
		parameters[i] = parameter{name: p.Name, kind: kind, indexed: p.Indexed}
	}
	return parameters, nil
}

func (p jsonParameter) kind(depth int) (*abiType, error) {
	base, suffixes := p.Type, ""
	if at := strings.IndexByte(p.Type, '['); at >= 0 {
		base, suffixes = p.Type[:at], p.Type[at:]
	}
	var item *abiType
	var err error
	if base == "tuple" {
		var fields []parameter
		if fields, err = readParameters(p.Components, depth+1); err != nil {
			return nil, atPath(err, ".components")
		}
		item, err = tupleOf(fields)
	} else {
		item, err = elementaryType(base)
	}
	if err == nil {
		item, err = arraysOf(item, suffixes)
	}
	return item, err
}

// function returns the function with a name or a full signature. If the name is overloaded, it
// considers the overloads for which fits returns true. fits may be nil. The name "constructor"
// returns the constructor.
func (c *contractABI) function(name string, fits func(signature) bool) (signature, error) {
	if name == "constructor" {
		if why := c.unusable[""]; c.constructor == nil && why != nil {
			return signature{}, why // it may be the constructor, which has no name
		}
		if c.constructor == nil {
			return signature{name: name}.hashed(), nil // the implicit constructor
		}
		return *c.constructor, nil
	}
	found, err := c.choose("function", name, c.functions)
	if err != nil {
		return signature{}, err
	}
	if len(found) > 1 && fits != nil {
		if some := slices.DeleteFunc(slices.Clone(found), func(s signature) bool { return !fits(s) }); len(some) > 0 {
			found = some
		}
	}
	if len(found) > 1 {
		return signature{}, fmt.Errorf("%s is overloaded; use one of the full signatures: %s", describe(name), listed(found))
	}
	return found[0], nil
}

// withArticle maps a kind of ABI entry to its name in an error message.
var withArticle = map[string]string{"function": "a function", "event": "an event"}

// choose returns all entries with a name or a full signature. It returns an error if there is no
// such entry.
func choose(kind, asked string, among []signature) ([]signature, error) {
	matches := func(s signature) bool { return s.name == asked }
	if strings.Contains(asked, "(") {
		full, err := parseSignature(asked)
		if err != nil {
			return nil, fmt.Errorf("expected the name or the signature of %s: %w", withArticle[kind], err)
		}
		matches = func(s signature) bool { return s.text == full.text }
	}
	type twin struct {
		text    string
		indexed int
	}
	var found []signature
	seen := map[twin]bool{} // a merged abi can contain an entry twice
	for _, s := range among {
		if this := (twin{s.text, s.indexed()}); matches(s) && !seen[this] {
			seen[this] = true
			found = append(found, s)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	if len(among) == 0 {
		return nil, fmt.Errorf("expected the name of %s in the abi, which has none; got %s", withArticle[kind], describe(asked))
	}
	return nil, fmt.Errorf("the abi has no %s %s; it has %s", kind, describe(asked), listed(among))
}

// listed joins signatures for an error message, up to a limit.
func listed(signatures []signature) string {
	const most = 12
	names := make([]string, 0, most+1)
	for _, s := range signatures[:min(len(signatures), most)] {
		name := s.text
		if len(name) > 2*maxShown {
			name = name[:2*maxShown] + "..."
		}
		names = append(names, name)
	}
	if more := len(signatures) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
