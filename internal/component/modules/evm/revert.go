package evm

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
)

// revert is why a contract refused, as far as its data tells.
type revert struct {
	Kind      string `json:"kind"` // error, panic, custom, none
	Reason    string `json:"reason,omitempty"`
	PanicCode string `json:"panicCode,omitempty"`
	Data      string `json:"data,omitempty"`
}

var (
	errorSelector = []byte{0x08, 0xc3, 0x79, 0xa0} // Error(string)
	panicSelector = []byte{0x4e, 0x48, 0x7b, 0x71} // Panic(uint256)
)

// decodeRevert reads the data of a revert. Data that only looks like
// Error(string) or Panic(uint256) is told as custom.
func decodeRevert(data []byte) revert {
	if len(data) == 0 {
		return revert{Kind: "none"}
	}
	custom := revert{Kind: "custom", Data: "0x" + hex.EncodeToString(data)}
	if len(data) < 4 {
		return custom
	}
	reason, err := abi.UnpackRevert(data)
	if err != nil {
		return custom
	}
	switch {
	case bytes.HasPrefix(data, errorSelector):
		return revert{Kind: "error", Reason: reason}
	case bytes.HasPrefix(data, panicSelector):
		return revert{Kind: "panic", Reason: reason, PanicCode: new(big.Int).SetBytes(data[4:36]).String()}
	}
	return custom
}

// reverted is the error of a call that the contract refused. Asked again, it
// would refuse again.
func reverted(e rpcError, data []byte) error {
	r := decodeRevert(data)
	message := "execution reverted"
	switch r.Kind {
	case "error":
		message += ": " + r.Reason
	case "panic":
		message += ": panic " + r.PanicCode + ", " + r.Reason
	case "custom":
		message += " with a custom error " + r.Data[:min(len(r.Data), 10)]
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
