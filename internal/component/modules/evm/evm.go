// Package evm implements the modules of the category EVM. Some modules read and write
// Ethereum-like chains through a node whose URL the caller passes. The others encode, decode and
// sign without a node.
//
// Nodes are hostile upstreams: every connection goes through the egress guard, and every response
// is decoded strictly. Big integers are decimal strings, bytes are 0x-hex, and addresses are in
// EIP-55 form. The package keeps no state between calls: the state of a wait is stored with the
// call.
package evm

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const category = "EVM"

// Modules returns the modules of the category EVM. Modules that query a node connect through the
// guard.
func Modules(guard *egress.Guard) []component.Module {
	return []component.Module{
		&accountBalance{guard: guard},
		&readContract{guard: guard},
		&getChainID{guard},
		&getNonce{guard: guard},
		&getGasPrice{guard},
		&getLogs{guard: guard},
		&getBlock{guard: guard},
		&getTransaction{guard: guard},
		&getReceipt{guard: guard},
		&estimateGas{guard: guard},
		&resolveName{guard: guard},
		&buildTransaction{guard: guard},
		&broadcastTransaction{guard: guard},
		&waitForTransaction{guard: guard, now: time.Now, settle: settleAfter, drop: dropAfter},

		// These don't query a node.
		buildCalldata{},
		decodeResult{},
		decodeLog{},
		signTransaction{},
		computeAddress{},
		derivationPath{},
		signMessage{},
		verifyMessage{},
		signTypedData{},
		erc20Constant{},
		erc721Constant{},
	}
}

// jsonRPCURL is the schema of the node's URL. It is secret because node providers put the
// customer's API key in it.
const jsonRPCURL = `"jsonRpcUrl": {"type": "string", "format": "uri", "pattern": "^https?://", "maxLength": 2048, "x-secret": true, "title": "JSON-RPC URL", "description": "The URL of a node of the chain. It is stored encrypted because it often contains an API key.", "examples": ["https://rpc.example.com/v1/mainnet"]}`

// nodeHeaders is the schema of the headers of requests to the node.
var nodeHeaders = `"headers": {"type": "object", "maxProperties": 20, "propertyNames": {"pattern": "^[A-Za-z0-9-]{1,128}$", "not": {"pattern": "` + upstream.ReservedNames + `"}}, "additionalProperties": {"type": "string", "maxLength": 8192, "pattern": "^[\\t -~]*$", "x-secret": true}, "title": "Headers", "description": "Headers of the requests to the node, such as Authorization. They are stored encrypted and are not sent to another origin. Content-Type and Accept are always application/json.", "examples": [{"Authorization": "Basic <credentials>"}]}`

// formats provides the string formats that the schemas of this package use.
type formats struct{}

func (formats) Formats() map[string]func(string) error {
	return map[string]func(string) error{
		"evm-address":     func(text string) error { _, err := parseAddress(text); return err },
		"evm-hash":        func(text string) error { _, err := parseHash(text); return err },
		"hex-bytes":       func(text string) error { _, err := parseBytes(text); return err },
		"evm-uint256":     func(text string) error { _, err := parseUint(text, 256); return err },
		"evm-uint64":      func(text string) error { _, err := parseUint(text, 64); return err },
		"evm-private-key": checkPrivateKey,
		"evm-public-key":  func(text string) error { _, err := addressOf(text); return err },
		"evm-block":       func(text string) error { _, err := parseBlock([]byte(`"` + text + `"`)); return err },
	}
}

// parseAddress parses an address in lower, upper or mixed case. A mixed-case address must have a
// valid EIP-55 checksum. Errors don't quote the input.
func parseAddress(text string) (common.Address, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || len(digits) != 2*common.AddressLength {
		return common.Address{}, errors.New("expected 0x and 40 hexadecimal digits")
	}
	data, err := hex.DecodeString(digits)
	if err != nil {
		return common.Address{}, errors.New("expected 0x and 40 hexadecimal digits")
	}
	address := common.BytesToAddress(data)
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && text != address.Hex() {
		return common.Address{}, errors.New("the EIP-55 checksum of the mixed-case address is wrong; check for a typo, or write the address in lower case")
	}
	return address, nil
}

func parseHash(text string) (common.Hash, error) {
	data, err := parseBytes(text)
	if err != nil || len(data) != common.HashLength {
		return common.Hash{}, errors.New("expected 0x and 64 hexadecimal digits")
	}
	return common.BytesToHash(data), nil
}

func parseBytes(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil, errors.New("expected 0x and pairs of hexadecimal digits")
	}
	data, err := hex.DecodeString(digits)
	if err != nil {
		return nil, errors.New("expected 0x and pairs of hexadecimal digits")
	}
	return data, nil
}

func hexOf(data []byte) string { return "0x" + hex.EncodeToString(data) }

// parseUint parses an unsigned decimal integer of at most the given number of bits.
func parseUint(text string, bits int) (*big.Int, error) {
	number, ok := wholeNumber(text)
	if !ok || number.Sign() < 0 || number.BitLen() > bits {
		return nil, fmt.Errorf("expected a whole number in decimal digits below 2^%d", bits)
	}
	return number, nil
}

func invalid(field string, err error) error {
	return component.Permanent(component.CodeInvalidInput, "%s: %s", field, err)
}
