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

// quantity is a whole number of JSON-RPC, 0x and at most 64 hexadecimal
// digits, which goes out as a decimal string.
type quantity struct{ big.Int }

func (q *quantity) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return breach("a quantity is not a string")
	}
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || digits == "" || len(digits) > 64 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return breach("a quantity is not 0x and 1 to 64 hexadecimal digits")
	}
	q.SetString(digits, 16)
	return nil
}

func (q quantity) MarshalJSON() ([]byte, error) { return []byte(`"` + q.String() + `"`), nil }

// number is the number that a quantity is; nil of none.
func (q *quantity) number() *big.Int {
	if q == nil {
		return nil
	}
	return &q.Int
}

// amount is a whole number as callers give it, in decimal digits: a text of them, or a
// number that no parser of JSON can have rounded.
type amount string

func (a *amount) UnmarshalJSON(data []byte) error {
	text, ok := exactDigits(json.Number(data))
	if *a = amount(text); ok {
		return nil
	}
	return json.Unmarshal(data, (*string)(a))
}

// exactDigits are those of a whole number of JSON, which may be written 1.0 or 1e0, too.
func exactDigits(number json.Number) (string, bool) {
	var whole component.Integer
	if whole.UnmarshalJSON([]byte(number)) != nil || int64(whole) > exact.Int64() || int64(whole) < -exact.Int64() {
		return "", false
	}
	return strconv.FormatInt(int64(whole), 10), true
}

// ordinal is a small whole number of JSON-RPC, such as an index or a block
// number, which fits 63 bits.
type ordinal uint64

func (o *ordinal) UnmarshalJSON(data []byte) error {
	var q quantity
	if err := q.UnmarshalJSON(data); err != nil {
		return err
	}
	if !q.IsInt64() {
		return breach("a quantity is larger than 63 bits")
	}
	*o = ordinal(q.Uint64())
	return nil
}

// hex is the ordinal as JSON-RPC wants it.
func (o ordinal) hex() string { return "0x" + strconv.FormatUint(uint64(o), 16) }

func (o ordinal) String() string { return strconv.FormatUint(uint64(o), 10) }

// parseBlock reads which block a call is about: a tag, a number (decimal, 0x or
// a JSON number) or a block hash. It gives the parameter of JSON-RPC; nothing
// means the latest.
func parseBlock(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return "latest", nil
	}
	var whole component.Integer // 1.0 and 1e0 are whole numbers, too
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
		return nil, errors.New("a block is latest, pending, safe, finalized, earliest, a number or a block hash")
	}
	return ordinal(number).hex(), nil
}
