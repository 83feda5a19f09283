package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/adraffy/go-ens-normalize/ensip15"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	// ensRegistry is the ENS registry on Ethereum and its test networks.
	ensRegistry = "0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e"

	maxLabels = 32 // labels of a name; each can cost a registry lookup

	codeNotResolved = "NAME_NOT_RESOLVED" // the name has no address
)

// Selectors of the registry and of resolvers (ENSIP-1, ENSIP-10, ERC-165).
const (
	selectResolver = "0178b8bf" // resolver(bytes32)
	selectSupports = "01ffc9a7" // supportsInterface(bytes4)
	selectAddr     = "3b3b57de" // addr(bytes32)
	selectResolve  = "9061b923" // resolve(bytes,bytes); also the ID of the interface
	selectOffchain = "556f1830" // error OffchainLookup(...), EIP-3668
)

type resolveName struct {
	formats
	guard *egress.Guard
}

func (*resolveName) Describe() component.Descriptor {
	return nodeQuery{
		module: "RESOLVE_ENS_NAME", title: "Resolve ENS name",
		description: "Resolves an Ethereum Name Service name to an Ethereum address (ENSIP-1). Wildcard resolvers are supported (ENSIP-10). " +
			"The name is normalized first (ENSIP-15); a name that can't be normalized fails with INVALID_INPUT. A name without an address fails with NAME_NOT_RESOLVED. Off-chain resolvers (EIP-3668) aren't supported and fail with NAME_NOT_RESOLVED too.",
		about:    "The name to resolve.",
		required: `"jsonRpcUrl", "name"`,
		input: `"name": {"type": "string", "minLength": 1, "maxLength": 255, "title": "Name", "description": "The ENS name.", "examples": ["vitalik.eth"]},
			"registryAddress": {"type": "string", "format": "evm-address", "default": "` + ensRegistry + `", "title": "Registry", "description": "The contract of the ENS registry. Defaults to the registry on Ethereum and its test networks.", "examples": ["` + ensRegistry + `"]}`,
		example:     `, "name": "vitalik.eth"`,
		returns:     "The resolved name.",
		requiredOut: `"address", "name", "node", "resolver"`,
		output: `"address": {` + addressOut + `, "title": "Address", "description": "The address of the name.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"name": {"type": "string", "title": "Name", "description": "The normalized name.", "examples": ["vitalik.eth"]},
			"node": {` + hashOut + `, "title": "Node", "description": "The namehash of the name, which contracts use as its key.", "examples": ["0xee6c4522aab0003e8d14cd40a6af439055fd2577951148c14b6cea9a53475835"]},
			"resolver": {` + addressOut + `, "title": "Resolver", "description": "The resolver contract that returned the address.", "examples": ["0x231b0Ee14048e9dCcD1d247744d114a4EB5E8E63"]}`,
	}.descriptor()
}

func (m *resolveName) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ Name, RegistryAddress string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	name, err := parseENSName(input.Name)
	if err != nil {
		return component.Result{}, invalid("name", err)
	}
	if input.RegistryAddress == "" {
		input.RegistryAddress = ensRegistry
	}
	registry, err := parseAddress(input.RegistryAddress)
	if err != nil {
		return component.Result{}, invalid("registryAddress", err)
	}
	node, err := dial(m.guard, call.Input)
	if err != nil {
		return component.Result{}, err
	}
	resolver, found, err := node.resolve(ctx, registry, name)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]any{"address": address(found), "name": name.String(), "node": hash(name.hash()), "resolver": address(resolver)})
}

// ensName is a normalized name, label by label.
type ensName []string

func (n ensName) String() string { return strings.Join(n, ".") }

// parseENSName normalizes a name. It returns an error for names that ENSIP-15 doesn't allow,
// because a lookalike name can belong to somebody else.
func parseENSName(text string) (ensName, error) {
	normal, err := ensip15.Shared().Normalize(text)
	if err != nil {
		return nil, fmt.Errorf("cannot be normalized (ENSIP-15): %s", component.Cut(err.Error(), 200))
	}
	name := ensName(strings.Split(normal, "."))
	if len(name) > maxLabels {
		return nil, fmt.Errorf("has %d labels; at most %d are allowed", len(name), maxLabels)
	}
	for _, label := range name {
		if label == "" || len(label) > 255 {
			return nil, errors.New("has a label that is empty or longer than 255 bytes")
		}
	}
	return name, nil
}

// hash returns the namehash of the name (ENSIP-1).
func (n ensName) hash() (node common.Hash) {
	for i := len(n) - 1; i >= 0; i-- {
		node = crypto.Keccak256Hash(node[:], crypto.Keccak256([]byte(n[i])))
	}
	return node
}

// wire returns the name in DNS wire format, which wildcard resolvers expect.
func (n ensName) wire() []byte {
	var out []byte
	for _, label := range n {
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, 0)
}

// resolve returns the resolver of a name and the address that it returns. If the name has no
// resolver, the resolver of a parent name is used if it supports wildcards (ENSIP-10).
func (n *node) resolve(ctx context.Context, registry common.Address, name ensName) (resolver, found common.Address, err error) {
	for above := range name {
		resolver, err = n.word(ctx, registry, selectResolver+hexOf(name[above:].hash().Bytes())[2:])
		switch {
		case errors.Is(err, errNoWord):
			return resolver, found, component.Permanent(component.CodeInvalidInput, "registryAddress: there is no ENS registry at %s on this chain", registry.Hex())
		case err != nil:
			return resolver, found, err
		case resolver != common.Address{}:
			found, err = n.ask(ctx, resolver, name, above > 0)
			return resolver, found, err
		}
	}
	return resolver, found, notResolved(name, "it has no resolver")
}

// ask queries a resolver for the address of a name.
func (n *node) ask(ctx context.Context, resolver common.Address, name ensName, wildcard bool) (found common.Address, err error) {
	extended, err := n.supportsWildcard(ctx, resolver)
	if err != nil {
		return found, err
	}
	addr := selectAddr + hexOf(name.hash().Bytes())[2:]
	switch {
	case extended:
		found, err = n.askWildcard(ctx, resolver, name, "0x"+addr)
	case wildcard:
		return found, notResolved(name, "it has no resolver")
	default:
		found, err = n.word(ctx, resolver, addr)
	}
	switch {
	case strings.HasPrefix(revertedWith(err), "0x"+selectOffchain):
		return found, notResolved(name, "its resolver is off-chain (EIP-3668), which is not supported")
	case errors.Is(err, errNoWord), err == nil && found == common.Address{}:
		return found, notResolved(name, "its resolver has no Ethereum address for it")
	}
	return found, err
}

// supportsWildcard reports whether a resolver accepts whole names (ENSIP-10). A resolver that
// reverts doesn't support interface detection.
func (n *node) supportsWildcard(ctx context.Context, resolver common.Address) (bool, error) {
	var answer blob
	err := n.call(ctx, &answer, "eth_call", map[string]string{"to": resolver.Hex(), "data": "0x" + selectSupports + selectResolve + strings.Repeat("0", 56)}, "latest")
	if revertedWith(err) != "" {
		return false, nil
	}
	return len(answer) >= wordSize && common.BytesToHash(answer[:wordSize]) == common.BigToHash(common.Big1), err
}

func (n *node) askWildcard(ctx context.Context, resolver common.Address, name ensName, data string) (common.Address, error) {
	kind, err := elementaryType("bytes")
	if err != nil {
		return common.Address{}, err
	}
	arguments, err := encodeArguments([]parameter{{kind: kind}, {kind: kind}}, []any{hexOf(name.wire()), data})
	if err != nil {
		return common.Address{}, err
	}
	const method = "eth_call"
	var answer blob
	if err := n.call(ctx, &answer, method, map[string]string{"to": resolver.Hex(), "data": "0x" + selectResolve + hexOf(arguments)[2:]}, "latest"); err != nil {
		return common.Address{}, err
	}
	inner, err := wildcardAnswer(answer)
	if err != nil {
		return common.Address{}, n.malformed(method, err)
	}
	return n.address(inner)
}

// wildcardAnswer unwraps the response of a wildcard resolver, which is ABI-encoded as bytes.
func wildcardAnswer(answer []byte) ([]byte, error) {
	if len(answer) == 0 {
		return nil, nil
	}
	kind, err := elementaryType("bytes")
	if err != nil {
		return nil, err
	}
	list, err := decodeParameters([]parameter{{kind: kind}}, answer)
	if err != nil {
		return nil, protocolError("the resolver does not return bytes")
	}
	text, _ := list[0].(string)
	return parseBytes(text)
}

// errNoWord is the error for a call that returned nothing.
var errNoWord = errors.New("the call returned nothing")

// word calls a contract function that returns an address.
func (n *node) word(ctx context.Context, contract common.Address, calldata string) (common.Address, error) {
	var answer blob
	if err := n.call(ctx, &answer, "eth_call", map[string]string{"to": contract.Hex(), "data": "0x" + calldata}, "latest"); err != nil {
		return common.Address{}, err
	}
	return n.address(answer)
}

// address decodes an address that a contract returned.
func (n *node) address(answer []byte) (common.Address, error) {
	if len(answer) == 0 {
		return common.Address{}, errNoWord
	}
	if len(answer) < wordSize || common.BytesToHash(answer[:wordSize-common.AddressLength]) != (common.Hash{}) {
		return common.Address{}, n.malformed("eth_call", protocolError("the contract does not return an address"))
	}
	return common.BytesToAddress(answer[:wordSize]), nil
}

func notResolved(name ensName, why string) error {
	return component.Permanent(codeNotResolved, "the name %s has no address: %s", component.Cut(name.String(), 255), why)
}

// revertedWith returns the data of a revert as 0x-hex, or "" for any other error.
func revertedWith(err error) string {
	failed, ok := errors.AsType[*component.Error](err)
	if !ok {
		return ""
	}
	var details struct {
		Class  string `json:"class"`
		Revert revert `json:"revert"`
	}
	if json.Unmarshal(failed.Details, &details) != nil || details.Class != classRevert {
		return ""
	}
	return "0x" + strings.TrimPrefix(details.Revert.Data, "0x")
}
