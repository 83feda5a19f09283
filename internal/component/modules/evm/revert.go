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
)

// revert is why a contract refused, as far as its data tells.
type revert struct {
	Kind      string `json:"kind"` // error, panic, custom, none
	Reason    string `json:"reason,omitempty"`
	PanicCode string `json:"panicCode,omitempty"`
	Data      string `json:"data,omitempty"`

	// Of a custom error that the caller's abi knows.
	Name      string         `json:"name,omitempty"`
	Signature string         `json:"signature,omitempty"`
	Arguments []any          `json:"arguments,omitempty"`
	Values    map[string]any `json:"values,omitempty"`
}

// The errors that Solidity makes by itself.
var (
	reasonSelector = []byte{0x08, 0xc3, 0x79, 0xa0} // Error(string)
	panicSelector  = []byte{0x4e, 0x48, 0x7b, 0x71} // Panic(uint256)

	// A reason is read as bytes: whatever a contract says should be told, even where it is
	// no text.
	reasonParameters = []parameter{{kind: &abiType{kind: kindBytes, name: "bytes", dynamic: true, head: wordSize}}}
	panicParameters  = []parameter{{kind: &abiType{kind: kindUint, size: 8 * wordSize, name: "uint256", head: wordSize}}}
)

// panics is what the code of a Panic(uint256) means.
var panics = map[string]string{
	"0":  "a panic of the compiler",
	"1":  "failed assertion",
	"17": "arithmetic underflow or overflow",
	"18": "division or modulo by zero",
	"33": "conversion into an enum that has no such value",
	"34": "wrongly encoded bytes in storage",
	"49": "pop from an empty array",
	"50": "index out of bounds",
	"65": "out of memory",
	"81": "call of a function that was not set",
}

// decodeRevert reads the data of a revert; contract, which may be nil, knows the
// custom errors. Data that only looks like Error(string), Panic(uint256) or one
// of those is told as custom.
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
			return revert{Kind: "panic", Reason: cmp.Or(panics[code], "an unknown code"), PanicCode: code}
		}
	}
	custom := revert{Kind: "custom", Data: hexOf(data)}
	if len(data) < 4 {
		return custom
	}
	return custom.by(contract, data)
}

// maxTold is how large the values of a custom error may be to be told: longer
// texts are cut in the details of an error, and a value may not be.
const maxTold = 1 << 10

// by is a custom error with what the contract's interface tells of it.
func (r revert) by(contract *contractABI, data []byte) revert {
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
		r.Name, r.Signature = s.name, component.Cut(s.text, maxTold)
		if text, err := json.Marshal(list); err == nil && len(text) <= maxTold {
			r.Arguments, r.Values = list, byName(s.inputs, list)
			r.Reason = s.name + strings.Replace(strings.TrimSuffix(string(text), "]")+")", "[", "(", 1)
		}
		return r
	}
	return r
}

// told says what is known of a custom error, for a message.
func (r revert) told() string {
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

// hint says how an error that is not known becomes known; "" where nothing does.
func (n *node) hint(r revert) string {
	switch {
	case !n.takesABI || r.Name != "" || len(r.Data) < len("0x")+2*4:
		return ""
	case n.contract == nil:
		return "; with an abi that has its signature, such as error Name(uint256 value), it is told by name and with its values"
	}
	return "; the abi has no error of this selector that fits the data"
}

// revertedBy is the error of a call that the contract refused. Asked again, it would
// refuse again.
func (n *node) revertedBy(e rpcError, data []byte) error {
	r := decodeRevert(data, n.contract)
	message := "execution reverted"
	switch r.Kind {
	case "error":
		message += ": " + r.Reason
	case "panic":
		message += ": panic " + r.PanicCode + ", " + r.Reason
	case "custom":
		message += " with " + r.told() + n.hint(r)
	case "none":
		if strings.HasPrefix(strings.ToLower(e.Message), message+": ") {
			message = e.Message
		}
	}
	return component.Permanent(component.CodeUpstream, "%s", message).With(struct {
		upstream.Details
		Revert revert `json:"revert"`
	}{upstream.Details{Class: "revert", UpstreamCode: e.Code, UpstreamMessage: component.Cut(e.Message, 4<<10)}, r})
}
