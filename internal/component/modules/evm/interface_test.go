package evm

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
)

// The IDs of EIP-721, its metadata extension and EIP-165 are the interface identifiers in these
// standards. The ID of ERC-20 is from OpenZeppelin's documentation of ERC165Checker.
func TestABIConstantsMatchTheirEIPs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		module    string
		id        [4]byte
		functions []string
		events    []string
	}{
		{
			"ERC20_ABI_CONSTANT", [4]byte{0x36, 0x37, 0x2b, 0x07},
			[]string{"totalSupply()", "balanceOf(address)", "transfer(address,uint256)", "transferFrom(address,address,uint256)", "approve(address,uint256)", "allowance(address,address)"},
			[]string{"Transfer(address,address,uint256) 2", "Approval(address,address,uint256) 2"},
		},
		{
			"ERC721_ABI_CONSTANT", [4]byte{0x80, 0xac, 0x58, 0xcd},
			[]string{
				"balanceOf(address)", "ownerOf(uint256)", "safeTransferFrom(address,address,uint256,bytes)", "safeTransferFrom(address,address,uint256)", "transferFrom(address,address,uint256)",
				"approve(address,uint256)", "setApprovalForAll(address,bool)", "getApproved(uint256)", "isApprovedForAll(address,address)",
			},
			[]string{"Transfer(address,address,uint256) 3", "Approval(address,address,uint256) 3", "ApprovalForAll(address,address,bool) 2"},
		},
		{"ERC721_ABI_CONSTANT", [4]byte{0x5b, 0x5e, 0x13, 0x9f}, []string{"name()", "symbol()", "tokenURI(uint256)"}, nil},
		{"ERC721_ABI_CONSTANT", [4]byte{0x01, 0xff, 0xc9, 0xa7}, []string{"supportsInterface(bytes4)"}, nil},
	} {
		output, failed := b.compute(t, c.module, object{}, object{})
		if failed != nil {
			t.Fatal(failed)
		}
		value := jsonOf(t, output["value"])
		contract, err := parseABI(json.RawMessage(value))
		if err != nil {
			t.Fatal(err)
		}
		var id [4]byte
		for _, wanted := range c.functions {
			at := slices.IndexFunc(contract.functions, func(s signature) bool { return s.text == wanted })
			if at < 0 {
				t.Fatalf("%s has no %s", c.module, wanted)
			}
			hash := contract.functions[at].hash
			for i := range id {
				id[i] ^= hash[i]
			}
		}
		if id != c.id {
			t.Errorf("%s has the interface %x, want %x", c.module, id, c.id)
		}
		for _, wanted := range c.events {
			if !slices.ContainsFunc(contract.events, func(s signature) bool { return s.text+" "+string(rune('0'+s.indexed())) == wanted }) {
				t.Errorf("%s has no event %s", c.module, wanted)
			}
		}
		if _, err := abi.JSON(strings.NewReader(value)); err != nil || len(contract.errors) < 6 {
			t.Errorf("%s is not a valid ABI for go-ethereum: %v", c.module, err)
		}
	}
}

func TestCustomErrorsAreDecodedWithTheABI(t *testing.T) {
	t.Parallel()
	contract, err := parseABI(json.RawMessage(erc20))
	if err != nil {
		t.Fatal(err)
	}
	const who = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
	bytesOf := func(text string) []byte {
		data, err := parseBytes("0x" + text)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	// The selector is the one that EIP-6093 publishes.
	data := bytesOf("e450d38c" + word(strings.ToLower(who[2:])) + word("5") + word("a"))
	r := decodeRevert(data, contract)
	if r.Kind != "custom" || r.Name != "ERC20InsufficientBalance" || r.Signature != "ERC20InsufficientBalance(address,uint256,uint256)" ||
		jsonOf(t, r.Values) != `{"balance":"5","needed":"10","sender":"`+who+`"}` || jsonOf(t, r.Arguments) != `["`+who+`","5","10"]` {
		t.Errorf("%+v", r)
	}
	if failed := (&node{contract: contract, acceptsABI: true}).revertedBy(rpcError{}, data).Error(); !contains(failed, `execution reverted with the error ERC20InsufficientBalance("`+who+`","5","10")`) {
		t.Error(failed)
	}
	for name, data := range map[string][]byte{"unknown": bytesOf("deadbeef"), "short": data[:40], "no more than a selector": data[:4], "of another type": bytesOf("e450d38c" + strings.Repeat("f", 192))} {
		if r := decodeRevert(data, contract); r.Kind != "custom" || r.Name != "" || r.Data != hexOf(data) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	reason := "08c379a0" + word("20") + word("4") + rightPadded("6f6f7073")
	for _, known := range []*contractABI{nil, contract} {
		if r := decodeRevert(bytesOf(reason), known); r.Kind != "error" || r.Reason != "oops" {
			t.Errorf("%+v", r)
		}
	}
	for code, reason := range map[string]string{"11": "arithmetic underflow or overflow", "99": "unknown code"} {
		if r := decodeRevert(bytesOf("4e487b71"+word(code)), contract); r.Kind != "panic" || r.Reason != reason {
			t.Errorf("%s: %+v", code, r)
		}
	}
	// Values that are too large are left out, so that the details stay complete.
	large, err := parseABI(json.RawMessage(`["error Large(bytes data)"]`))
	if err != nil {
		t.Fatal(err)
	}
	big := append(large.errors[0].hash[:4:4], bytesOf(word("20")+word("2000")+strings.Repeat("ab", 0x2000))...)
	if r := decodeRevert(big, large); r.Name != "Large" || r.Arguments != nil || r.Reason != "" || r.summary() != "the error Large(bytes)" {
		t.Errorf("%s with %d values", r.Name, len(r.Arguments))
	}
}

// FuzzRevertWithABI checks that for any data and any ABI, a revert has a short message and valid
// JSON details, and a custom error keeps its data.
func FuzzRevertWithABI(f *testing.F) {
	const allowance = `["error InsufficientAllowance(address spender, uint256 allowance, uint256 needed)"]`
	data := append(crypto.Keccak256([]byte("InsufficientAllowance(address,uint256,uint256)"))[:4], make([]byte, 96)...)
	f.Add(allowance, data)
	f.Add(allowance, data[:50])
	f.Add(`"error Large(bytes[][] data, string text)"`, append(crypto.Keccak256([]byte("Large(bytes[][],string)"))[:4], make([]byte, 64)...))
	f.Add(`["error Error(string)","error Panic(uint256)"]`, append([]byte{0x4e, 0x48, 0x7b, 0x71}, make([]byte, 32)...))
	f.Add(`[{"type":"error","name":"E","inputs":[{"name":"","type":"tuple","components":[{"name":"a","type":"uint8[2]"}]}]}]`, []byte{0x08, 0xc3, 0x79, 0xa0})
	f.Add(`[]`, []byte{1})
	f.Fuzz(func(t *testing.T, given string, data []byte) {
		contract, err := parseABI(json.RawMessage(given))
		if err != nil {
			return
		}
		n := &node{contract: contract, acceptsABI: true}
		r := decodeRevert(data, n.contract)
		if r.Kind == "custom" && r.Data != hexOf(data) || r.Name != "" && r.Kind != "custom" {
			t.Errorf("%x became %+v", data, r)
		}
		failed, ok := errors.AsType[*component.Error](n.revertedBy(rpcError{Code: 3, Message: "execution reverted"}, data))
		if !ok || failed.Code != component.CodeUpstream || failed.Retryable || !strings.HasPrefix(failed.Message, "execution reverted") || !json.Valid(failed.Details) {
			t.Errorf("%x by %s is reported as %v %s", data, given, failed, details(failed))
		}
		if r.Kind == "custom" && len(failed.Message) > 3*maxValues {
			t.Errorf("%x by %s is reported in %d bytes", data, given, len(failed.Message))
		}
	})
}
