package evm

import (
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/modules/evm/evmtest"
)

//go:embed testdata/names.json
var namesByViem []byte

// The vectors are from viem, which uses the implementation of ENSIP-15's author.
func TestNamesAreNormalizedAndHashedAsViemDoes(t *testing.T) {
	t.Parallel()
	var golden struct {
		Cases []struct {
			Name, Node string
			Normal     *string
		}
	}
	if err := json.Unmarshal(namesByViem, &golden); err != nil || len(golden.Cases) < 60 {
		t.Fatalf("%d cases, %v", len(golden.Cases), err)
	}
	refused := 0
	for _, c := range golden.Cases {
		name, err := parseENSName(c.Name)
		switch {
		case c.Normal == nil:
			if refused++; err == nil {
				t.Errorf("%q was read as %q", c.Name, name)
			}
		case err != nil || name.String() != *c.Normal || name.hash().Hex() != c.Node:
			t.Errorf("%q: %q %s, %v; want %q %s", c.Name, name, name.hash().Hex(), err, *c.Normal, c.Node)
		}
	}
	if refused < 10 {
		t.Errorf("only %d names are refused", refused)
	}
}

// The hashes are from ENSIP-1.
func TestNamehashMatchesENSIP1(t *testing.T) {
	for name, want := range map[string]string{
		"eth":     "0x93cdeb708b7545dc668eb9280176169d1c33cfd8ed6f04690a0bcc88a93fc4ae",
		"foo.eth": "0xde9b09fd7c5f901e23a3f19fecc54828e9c848539801e86591bd9801b019f84f",
	} {
		if got := ensName(strings.Split(name, ".")).hash(); got.Hex() != want {
			t.Errorf("%s: %s, want %s", name, got.Hex(), want)
		}
	}
	if got := (ensName{}).hash(); got != (common.Hash{}) {
		t.Errorf("the root: %s", got)
	}
	if got := (ensName{"foo", "eth"}).wire(); string(got) != "\x03foo\x03eth\x00" {
		t.Errorf("on the wire: %q", got)
	}
}

// names is a registry with resolvers on a real node.
type names struct {
	*chain
	registry string
}

func newNames(t *testing.T) *names {
	t.Helper()
	c := newChain(t)
	return &names{c, c.DeployNames(t, "Registry")}
}

// set calls set(bytes32, address) of a registry or of a resolver.
func (n *names) set(t *testing.T, contract, name, to string) {
	t.Helper()
	selector := common.Bytes2Hex(crypto.Keccak256([]byte("set(bytes32,address)"))[:4])
	node := ensName(strings.Split(name, ".")).hash()
	data := "0x" + selector + common.Bytes2Hex(node[:]) + evmtest.AddressWord(to)
	if receipt := n.Mined(t, n.Send(t, map[string]string{"from": n.Accounts[0], "to": contract, "data": data})); receipt.Status != "0x1" {
		t.Fatalf("%s was not set", name)
	}
}

func TestNamesAreResolvedOnARealChain(t *testing.T) {
	t.Parallel()
	n := newNames(t)
	plain, old, wildcard, offchain := n.DeployNames(t, "PlainResolver"), n.DeployNames(t, "OldResolver"), n.DeployNames(t, "WildcardResolver"), n.DeployNames(t, "OffchainResolver")
	n.set(t, n.registry, "weft.eth", plain)
	n.set(t, plain, "weft.eth", n.Accounts[3])
	n.set(t, n.registry, "empty.eth", plain)
	n.set(t, n.registry, "old.eth", old)
	n.set(t, n.registry, "wild.eth", wildcard)
	n.set(t, n.registry, "far.eth", offchain)
	n.set(t, n.registry, "nobody.eth", n.Accounts[4])
	wild := func(name string) string {
		return common.BytesToAddress(crypto.Keccak256(ensName(strings.Split(name, ".")).wire())).Hex()
	}
	oldNode := (ensName{"old", "eth"}).hash()
	for name, c := range map[string]struct{ address, resolver, normal, words string }{
		"weft.eth":          {n.Accounts[3], plain, "weft.eth", ""},
		"WEFT.ETH":          {n.Accounts[3], plain, "weft.eth", ""},
		"old.eth":           {common.BytesToAddress(oldNode[:]).Hex(), old, "old.eth", ""},
		"wild.eth":          {wild("wild.eth"), wildcard, "wild.eth", ""},
		"a.wild.eth":        {wild("a.wild.eth"), wildcard, "a.wild.eth", ""},
		"Ä.b.c.wild.eth":    {wild("ä.b.c.wild.eth"), wildcard, "ä.b.c.wild.eth", ""},
		"empty.eth":         {"", "", "", "its resolver has no Ethereum address for it"},
		"sub.weft.eth":      {"", "", "", "it has no resolver"},
		"sub.old.eth":       {"", "", "", "it has no resolver"},
		"unknown.eth":       {"", "", "", "it has no resolver"},
		"eth":               {"", "", "", "it has no resolver"},
		"far.eth":           {"", "", "", "off-chain (EIP-3668)"},
		"x.far.eth":         {"", "", "", "off-chain (EIP-3668)"},
		"nobody.eth":        {"", "", "", "its resolver has no Ethereum address for it"},
		"below.nobody.eth":  {"", "", "", "it has no resolver"},
		"deep.a.b.weft.eth": {"", "", "", "it has no resolver"},
	} {
		output, failed := n.try(t, "RESOLVE_ENS_NAME", object{"name": name, "registryAddress": n.registry})
		if c.words != "" {
			if failed == nil || failed.Code != codeNotResolved || failed.Retryable || !strings.Contains(failed.Message, c.words) {
				t.Errorf("%s: %v, %v", name, output, failed)
			}
			continue
		}
		want := text(t, object{"address": common.HexToAddress(c.address).Hex(), "resolver": common.HexToAddress(c.resolver).Hex(), "name": c.normal, "node": ensName(strings.Split(c.normal, ".")).hash().Hex()})
		if failed != nil || text(t, output) != want {
			t.Errorf("%s: %v, %v; want %s", name, output, failed, want)
		}
	}
	for name, registry := range map[string]any{"that is not there": n.Accounts[7], "of Ethereum, which is not on this chain": nil} {
		input := object{"name": "weft.eth"}
		if registry != nil {
			input["registryAddress"] = registry
		}
		if _, failed := n.try(t, "RESOLVE_ENS_NAME", input); failed == nil || failed.Code != component.CodeInvalidInput || !strings.Contains(failed.Message, "registryAddress") {
			t.Errorf("a registry %s: %v", name, failed)
		}
	}
}

func TestMalformedResolverResponseIsRejected(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, modules(t)...)
	for name, c := range map[string]struct{ answer, code, words string }{
		"not an address":   {"0x01" + zeroWord[:62], component.CodeUpstream, "does not return an address"},
		"half a word":      {"0x1234", component.CodeUpstream, "does not return an address"},
		"the zero address": {"0x" + zeroWord, codeNotResolved, "it has no resolver"},
		"nothing":          {"0x", component.CodeInvalidInput, "no ENS registry"},
	} {
		url := nodeWith(t, map[string]string{"eth_call": resultOf(`"` + c.answer + `"`)})
		output, failed := bench.Run(t, "RESOLVE_ENS_NAME", text(t, object{"jsonRpcUrl": url, "name": "weft.eth"}), `{}`)
		if failed == nil || failed.Code != c.code || !strings.Contains(failed.Message, c.words) {
			t.Errorf("%s: %s, %v", name, output, failed)
		}
	}
	for name, data := range map[string]string{
		"an offset beyond":  zeroWord[:60] + "ffff" + zeroWord,
		"a length beyond":   zeroWord[:62] + "20" + strings.Repeat("f", 64),
		"less than a word":  "20",
		"an offset of half": zeroWord[:62] + "20" + zeroWord[:62] + "21" + zeroWord,
	} {
		if inner, err := wildcardAnswer(common.FromHex(data)); err == nil {
			t.Errorf("%s: %x", name, inner)
		}
	}
}

// FuzzENSNames checks that an accepted name is in normal form.
func FuzzENSNames(f *testing.F) {
	for _, seed := range []string{"vitalik.eth", "RaFFY🚴‍♂️.eTh", "1⃣2⃣.eth", "à̀.eth", "अं.א", "_x.--a", "\xff.eth"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := parseENSName(text)
		if err != nil {
			return
		}
		if again, err := parseENSName(name.String()); err != nil || again.String() != name.String() {
			t.Errorf("%q became %q, and that %q, %v", text, name, again, err)
		}
		if wire := name.wire(); len(wire) != len(name.String())+2 {
			t.Errorf("%q is %q on the wire", name, wire)
		}
	})
}
