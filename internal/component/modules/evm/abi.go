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

// abiForms says what the input `abi` may be.
const abiForms = "The contract's interface: the JSON ABI that the compiler gives (an array, or its JSON text), or human-readable signatures such as function transfer(address to, uint256 amount) returns (bool) or event Transfer(address indexed from, address indexed to, uint256 value), as an array of texts or as one text with a signature on each line."

// abiProperty is the property `abi` of a module that needs an interface.
const abiProperty = `"abi": {"type": ["array", "string"], "maxItems": 10000, "minLength": 1, "title": "ABI", "description": "` + abiForms + `", "examples": [["function transfer(address to, uint256 amount) returns (bool)"], [{"type": "function", "name": "transfer", "stateMutability": "nonpayable", "inputs": [{"name": "to", "type": "address"}, {"name": "amount", "type": "uint256"}], "outputs": [{"name": "", "type": "bool"}]}]]}`

// eventsABIProperty is the property `abi` of a module that reads logs.
const eventsABIProperty = `"abi": {"type": ["array", "string"], "maxItems": 10000, "minLength": 1, "title": "ABI", "description": "` + abiForms + `", "examples": [["event Transfer(address indexed from, address indexed to, uint256 value)"]]}`

// errorsABIProperty is the property `abi` of a module that needs it for the
// errors of a contract alone.
const errorsABIProperty = `"abi": {"type": ["array", "string"], "maxItems": 10000, "minLength": 1, "title": "ABI", "description": "With it, a revert with an error of the contract's own is told by name and with its values. ` + abiForms + `", "examples": [["error InsufficientBalance(uint256 available, uint256 required)"]]}`

// contractABI is what a caller said of a contract. A nil one knows nothing.
type contractABI struct {
	functions, events, errors []signature
	constructor               *signature
	entries                   int
}

const maxEntries = 10_000

// signature is a function, an event or an error.
type signature struct {
	name            string
	inputs, outputs []parameter
	anonymous       bool        // an event whose topics do not tell which it is
	text            string      // the canonical form, such as transfer(address,uint256)
	hash            common.Hash // of it, from which selectors and topics come
}

// written is the signature with its canonical form and the hash of that, which
// is computed here and no more: every log of an answer is held against it.
func (s signature) written() signature {
	s.text = s.name + "(" + typeNames(s.inputs) + ")"
	s.hash = crypto.Keccak256Hash([]byte(s.text))
	return s
}

// indexed is how many topics the values of an event take.
func (s signature) indexed() (count int) {
	for _, input := range s.inputs {
		if input.indexed {
			count++
		}
	}
	return count
}

// parseABI reads an interface in any of its forms. No input is none: nil. An
// error names the place within `abi`.
func parseABI(raw json.RawMessage) (*contractABI, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		text = strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(text, "{"):
			return nil, misfitf("expected a JSON ABI, which is an array; of what a compiler wrote, take the member abi")
		case !strings.HasPrefix(text, "["):
			return parseLines(text)
		}
		raw = json.RawMessage(text)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, misfitf("expected a JSON ABI, which is an array, or human-readable signatures%s", instead(err))
	}
	contract := &contractABI{}
	for i, entry := range entries {
		if err := contract.addEntry(entry); err != nil {
			return nil, under(err, "["+strconv.Itoa(i)+"]")
		}
	}
	return contract, nil
}

// instead says what of some JSON is not as it was expected.
func instead(err error) string {
	if broken, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("; got a text that is no JSON: %v, after %d bytes", broken, broken.Offset)
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return ""
	case wrong.Field == "":
		return "; got " + kindOf(wrong.Value)
	}
	return fmt.Sprintf("; got %s as its %s", kindOf(wrong.Value), cut(strings.ToLower(wrong.Field)))
}

// kindOf is the kind of a value, as encoding/json names it, with its article.
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
			return nil, misfitf("line %d: %s", number, err)
		}
	}
	return contract, nil
}

// jsonEntry is an entry of a JSON ABI, as far as values depend on it.
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
		return fmt.Errorf("expected an entry of a JSON ABI with type, name and inputs, or a human-readable signature%s", instead(err))
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
		return under(err, ".inputs")
	}
	if s.outputs, err = readParameters(entry.Outputs, 0); err != nil {
		return under(err, ".outputs")
	}
	return c.add(kind, s)
}

// add takes an entry into the table of its kind.
func (c *contractABI) add(kind string, s signature) error {
	if slices.Contains([]string{"function", "event", "error"}, kind) && (s.name == "" || !identifier(s.name)) {
		return fmt.Errorf("expected a name of letters, digits, $ and _, at most %d characters, got %s", maxName, came(s.name))
	}
	if c.entries++; c.entries > maxEntries {
		return fmt.Errorf("an abi may have %d entries", maxEntries)
	}
	s = s.written()
	switch kind {
	case "function":
		c.functions = append(c.functions, s)
	case "event":
		c.events = append(c.events, s)
	case "error":
		c.errors = append(c.errors, s)
	case "constructor":
		c.constructor = &s
	case "receive", "fallback": // take no arguments
	default:
		return fmt.Errorf("expected the type function, event, error, constructor, receive or fallback, got %s", came(kind))
	}
	return nil
}

var identifierForm = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// identifier reports whether a text may stand as a name; names are bounded,
// because each tuple of an output repeats those of its members.
func identifier(name string) bool { return len(name) <= maxName && identifierForm.MatchString(name) }

func readParameters(list []jsonParameter, depth int) ([]parameter, error) {
	if depth > maxTypeDepth {
		return nil, fmt.Errorf("arrays and tuples may be %d deep", maxTypeDepth)
	}
	parameters := make([]parameter, len(list))
	for i, p := range list {
		kind, err := p.kind(depth)
		if err == nil && p.Name != "" && !identifier(p.Name) {
			err = fmt.Errorf("expected a name of letters, digits, $ and _, at most %d characters, got %s", maxName, came(p.Name))
		}
		if err != nil {
			return nil, under(err, "["+strconv.Itoa(i)+"]")
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
			return nil, under(err, ".components")
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

// function finds a function by its name, or by its full signature where the
// name is overloaded; fits, where it is not nil, says which overloads are
// meant. "constructor" is the constructor.
func (c *contractABI) function(asked string, fits func(signature) bool) (signature, error) {
	if asked == "constructor" {
		if c.constructor == nil {
			return signature{name: asked}.written(), nil // that of a contract that names none
		}
		return *c.constructor, nil
	}
	found, err := choose("function", asked, c.functions)
	if err != nil {
		return signature{}, err
	}
	if len(found) > 1 && fits != nil {
		if some := slices.DeleteFunc(slices.Clone(found), func(s signature) bool { return !fits(s) }); len(some) > 0 {
			found = some
		}
	}
	if len(found) > 1 {
		return signature{}, fmt.Errorf("%s is overloaded: name one by its full signature: %s", came(asked), listed(found))
	}
	return found[0], nil
}

// oneOf is an entry of a kind, in a message.
var oneOf = map[string]string{"function": "a function", "event": "an event"}

// choose finds all entries of a name or of a full signature.
func choose(kind, asked string, among []signature) ([]signature, error) {
	matches := func(s signature) bool { return s.name == asked }
	if strings.Contains(asked, "(") {
		full, err := parseSignature(asked)
		if err != nil {
			return nil, fmt.Errorf("expected the name or the signature of %s: %w", oneOf[kind], err)
		}
		matches = func(s signature) bool { return s.text == full.text }
	}
	type twin struct {
		text    string
		indexed int
	}
	var found []signature
	seen := map[twin]bool{} // an abi that was put together of several names some twice
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
		return nil, fmt.Errorf("expected the name of %s of the abi, which has none; got %s", oneOf[kind], came(asked))
	}
	return nil, fmt.Errorf("the abi has no %s %s; it has %s", kind, came(asked), listed(among))
}

// listed names some signatures for a message.
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
