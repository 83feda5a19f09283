package evm

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/component"
)

// quantity is a JSON-RPC integer: 0x and at most 64 hexadecimal digits. It encodes as a decimal
// string.
type quantity struct{ big.Int }

func (q *quantity) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return protocolError("a quantity is not a string")
	}
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || digits == "" || len(digits) > 64 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return protocolError("a quantity is not 0x and 1 to 64 hexadecimal digits")
	}
	q.SetString(digits, 16)
	return nil
}

func (q quantity) MarshalJSON() ([]byte, error) { return []byte(`"` + q.String() + `"`), nil }

// number returns the value, or nil if q is nil.
func (q *quantity) number() *big.Int {
	if q == nil {
		return nil
	}
	return &q.Int
}

// amount is an integer from a caller's input, in decimal digits. It decodes from a string, or from
// a JSON number that is small enough to be exact.
type amount string

func (a *amount) UnmarshalJSON(data []byte) error {
	text, ok := exactDigits(json.Number(data))
	if *a = amount(text); ok {
		return nil
	}
	return json.Unmarshal(data, (*string)(a))
}

// exactDigits returns the decimal digits of a JSON integer, including the forms 1.0 and 1e0. It
// returns false if the number is not an integer or too large to be exact.
func exactDigits(number json.Number) (string, bool) {
	var whole component.Integer
	if whole.UnmarshalJSON([]byte(number)) != nil || int64(whole) > exact.Int64() || int64(whole) < -exact.Int64() {
		return "", false
	}
	return strconv.FormatInt(int64(whole), 10), true
}

// ordinal is a JSON-RPC integer of at most 63 bits, such as an index or a block number.
type ordinal uint64

func (o *ordinal) UnmarshalJSON(data []byte) error {
	var q quantity
	if err := q.UnmarshalJSON(data); err != nil {
		return err
	}
	if !q.IsInt64() {
		return protocolError("a quantity has more than 63 bits")
	}
	*o = ordinal(q.Uint64())
	return nil
}

// hex returns the ordinal in the encoding of JSON-RPC.
func (o ordinal) hex() string { return "0x" + strconv.FormatUint(uint64(o), 16) }

func (o ordinal) String() string { return strconv.FormatUint(uint64(o), 10) }

// parseBlock parses a block parameter: a tag, a number (decimal, 0x or a JSON number) or a block
// hash. It returns the JSON-RPC parameter. An empty input means the latest block.
func parseBlock(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return "latest", nil
	}
	var whole component.Integer // accepts 1.0 and 1e0
	if json.Unmarshal(raw, &whole) == nil && whole >= 0 {
		return ordinal(whole).hex(), nil
	}
	text := string(bytes.Trim(raw, `"`))
	switch text {
	case "latest", "pending", "safe", "finalized", "earliest":
		return text, nil
	}
	if hash, err := parseHash(text); err == nil {
		return map[string]string{"blockHash": hash.Hex()}, nil
	}
	base := 10
	digits, isHex := strings.CutPrefix(text, "0x")
	if isHex {
		base = 16
	}
	number, err := strconv.ParseUint(digits, base, 63)
	if err != nil {
		return nil, errors.New("expected latest, pending, safe, finalized, earliest, a number or a block hash")
	}
	return ordinal(number).hex(), nil
}
