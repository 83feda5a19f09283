package evm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// revert is the decoded reason of a reverted call.
type revert struct {
	Kind      string `json:"kind"` // error, panic, custom, none
	Reason    string `json:"reason,omitempty"`
	PanicCode string `json:"panicCode,omitempty"`
	Data      string `json:"data,omitempty"`

	// Set for a custom error that the ABI contains.
	Name      string         `json:"name,omitempty"`
	Signature string         `json:"signature,omitempty"`
	Arguments []any          `json:"arguments,omitempty"`
	Values    map[string]any `json:"values,omitempty"`
}

// The built-in errors of Solidity.
var (
	reasonSelector = []byte{0x08, 0xc3, 0x79, 0xa0} // Error(string)
	panicSelector  = []byte{0x4e, 0x48, 0x7b, 0x71} // Panic(uint256)

	// A reason is decoded as bytes, so that a reason can be reported even if it isn't valid
	// UTF-8.
	reasonParameters = []parameter{{kind: &abiType{kind: kindBytes, name: "bytes", dynamic: true, head: wordSize}}}
	panicParameters  = []parameter{{kind: &abiType{kind: kindUint, size: 8 * wordSize, name: "uint256", head: wordSize}}}
)

// panics maps the codes of Panic(uint256) to their meanings.
var panics = map[string]string{
	"0":  "generic compiler panic",
	"1":  "failed assertion",
	"17": "arithmetic underflow or overflow",
	"18": "division or modulo by zero",
	"33": "conversion of an invalid value to an enum",
	"34": "incorrectly encoded storage byte array",
	"49": "pop from an empty array",
	"50": "index out of bounds",
	"65": "out of memory",
	"81": "call of an uninitialized function",
}

// decodeRevert decodes the data of a revert. contract, which can be nil, has the custom errors.
// Malformed data of Error(string) or Panic(uint256) is returned as a custom error.
func decodeRevert(data []byte, contract *contractABI) revert {
	if len(data) == 0 {
		return revert{Kind: "none"}
	}
	if arguments, is := bytes.CutPrefix(data, reasonSelector); is {
		if list, err := decodeParameters(reasonParameters, arguments); err == nil {
			reason, _ := parseBytes(list[0].(string))
			return revert{Kind: "error", Reason: string(reason)}
		}
	}
	if arguments, is := bytes.CutPrefix(data, panicSelector); is {
		if list, err := decodeParameters(panicParameters, arguments); err == nil {
			code, _ := list[0].(string)
			return revert{Kind: "panic", Reason: cmp.Or(panics[code], "unknown code"), PanicCode: code}
		}
	}
	custom := revert{Kind: "custom", Data: hexOf(data)}
	if len(data) < 4 {
		return custom
	}
	return custom.withCustomError(contract, data)
}

// maxValues is the maximum size of the values of a custom error in error details, in bytes. Larger
// values are left out instead of truncated, because a truncated value would be wrong.
const maxValues = 1 << 10

// withCustomError adds the name and the values of the custom error if the ABI contains it.
func (r revert) withCustomError(contract *contractABI, data []byte) revert {
	if contract == nil {
		return r
	}
	for _, s := range contract.errors {
		if !bytes.Equal(s.hash[:4], data[:4]) {
			continue
		}
		list, err := decodeParameters(s.inputs, data[4:])
		if err != nil {
			continue
		}
		r.Name, r.Signature = s.name, component.Cut(s.text, maxValues)
		if text, err := json.Marshal(list); err == nil && len(text) <= maxValues {
			r.Arguments, r.Values = list, byName(s.inputs, list)
			r.Reason = s.name + strings.Replace(strings.TrimSuffix(string(text), "]")+")", "[", "(", 1)
		}
		return r
	}
	return r
}

// summary describes a custom error, for an error message.
func (r revert) summary() string {
	const selector = len("0x") + 2*4
	switch {
	case r.Name == "" && len(r.Data) < selector:
		return "the data " + r.Data
	case r.Name == "":
		return fmt.Sprintf("a custom error %s and %s", r.Data[:selector], fault.Count((len(r.Data)-selector)/2, "byte"))
	}
	if r.Reason == "" {
		return "the error " + r.Signature
	}
	return "the error " + r.Reason
}

// hint explains how to get an unknown custom error decoded. It returns "" if decoding isn't
// possible.
func (n *node) hint(r revert) string {
	switch {
	case !n.acceptsABI || r.Name != "" || len(r.Data) < len("0x")+2*4:
		return ""
	case n.contract == nil:
		return "; to decode it, set abi to one that contains it, such as error Name(uint256 value)"
	}
	return "; the abi has no error of this selector that fits the data"
}

// revertedBy returns the error for a reverted call. It is not retryable, because the call would
// revert again.
func (n *node) revertedBy(e rpcError, data []byte) error {
	r := decodeRevert(data, n.contract)
	message := "execution reverted"
	switch r.Kind {
	case "error":
		message += ": " + r.Reason
	case "panic":
		message += ": panic " + r.PanicCode + ", " + r.Reason
	case "custom":
		message += " with " + r.summary() + n.hint(r)
	case "none":
		if strings.HasPrefix(strings.ToLower(e.Message), message+": ") {
			message = e.Message
		}
	}
	return component.Permanent(component.CodeUpstream, "%s", message).With(struct {
		upstream.Details
		Revert revert `json:"revert"`
	}{upstream.Details{Class: "revert", Sent: egress.SentAnswered, UpstreamCode: e.Code, UpstreamMessage: component.Cut(e.Message, 4<<10)}, r})
}
