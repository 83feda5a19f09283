package evm

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/ethereum/go-ethereum/common"
)

// protocolError describes why a node's response is malformed. It doesn't quote the response, so it
// can be shown to the caller.
type protocolError string

func (e protocolError) Error() string { return string(e) }

// decodeObject decodes an object and returns an error if one of the required fields is missing or
// null. Without this check, a missing field would decode as zero.
//
// The other fields named are for information: nothing depends on them, and some nodes write "0x" or
// something else for a value that their chain doesn't have. Such a value decodes as null.
func decodeObject(data []byte, what string, out any, required []string, informative ...string) error {
	var there map[string]json.RawMessage
	if json.Unmarshal(data, &there) != nil || there == nil {
		return protocolError(what + " is not an object")
	}
	for _, name := range required {
		if raw, ok := there[name]; !ok || string(raw) == "null" {
			return protocolError(what + " has no " + name)
		}
	}
	if err := json.Unmarshal(data, out); err == nil || len(informative) == 0 {
		return err
	}
	blank := reflect.New(reflect.TypeOf(out).Elem())
	for _, name := range informative {
		alone, err := json.Marshal(map[string]json.RawMessage{name: there[name]})
		if err != nil || json.Unmarshal(alone, blank.Interface()) != nil {
			delete(there, name)
		}
	}
	reflect.ValueOf(out).Elem().SetZero()
	cleaned, err := json.Marshal(there)
	if err != nil {
		return err
	}
	return json.Unmarshal(cleaned, out)
}

// decodeExact decodes fields of an object by their exact names. Package encoding/json alone would
// accept Type for type, and the schema hasn't checked such a field.
func decodeExact(data []byte, members map[string]any) error {
	var there map[string]json.RawMessage
	if err := json.Unmarshal(data, &there); err != nil {
		return err
	}
	for name, out := range members {
		if raw, ok := there[name]; ok {
			if err := json.Unmarshal(raw, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// Scalars that decode from JSON-RPC and encode as in outputs.
type (
	hash    common.Hash
	address common.Address
	blob    []byte
	decimal uint64 // an ordinal that encodes as a decimal string
)

func (h *hash) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return protocolError("a hash is not a string")
	}
	parsed, err := parseHash(text)
	if err != nil {
		return protocolError("a hash is not 0x and 64 hexadecimal digits")
	}
	*h = hash(parsed)
	return nil
}

func (h hash) MarshalJSON() ([]byte, error) { return json.Marshal(common.Hash(h).Hex()) }

func (a *address) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil || !strings.HasPrefix(text, "0x") || !common.IsHexAddress(text) {
		return protocolError("an address is not 0x and 40 hexadecimal digits")
	}
	*a = address(common.HexToAddress(text))
	return nil
}

func (a address) MarshalJSON() ([]byte, error) { return json.Marshal(common.Address(a).Hex()) }

func (b *blob) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return protocolError("bytes are not a string")
	}
	parsed, err := parseBytes(text)
	if err != nil {
		return protocolError("bytes are not 0x and pairs of hexadecimal digits")
	}
	*b = parsed
	return nil
}

func (b blob) MarshalJSON() ([]byte, error) { return json.Marshal(hexOf(b)) }

func (d *decimal) UnmarshalJSON(data []byte) error { return (*ordinal)(d).UnmarshalJSON(data) }

func (d decimal) MarshalJSON() ([]byte, error) { return json.Marshal(ordinal(d).String()) }

// padded is a quantity that encodes as 32 bytes, such as r or s of a signature.
type padded common.Hash

func (p *padded) UnmarshalJSON(data []byte) error {
	var q quantity
	if err := q.UnmarshalJSON(data); err != nil {
		return err
	}
	*p = padded(common.BigToHash(&q.Int))
	return nil
}

func (p padded) MarshalJSON() ([]byte, error) { return json.Marshal(common.Hash(p).Hex()) }
