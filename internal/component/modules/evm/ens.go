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
	// ensRegistry is the registry on Ethereum and its test chains.
	ensRegistry = "0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e"

	maxLabels = 32 // of a name: each may cost a look into the registry

	codeNotResolved = "NAME_NOT_RESOLVED" // nothing stands behind the name
)

// Selectors of the registry and of resolvers (ENSIP-1, ENSIP-10, ERC-165).
const (
	selectResolver = "0178b8bf" // resolver(bytes32)
	selectSupports = "01ffc9a7" // supportsInterface(bytes4)
	selectAddr     = "3b3b57de" // addr(bytes32)
	selectResolve  = "9061b923" // resolve(bytes,bytes); the id of the interface, too
	selectOffchain = "556f1830" // error OffchainLookup(...), EIP-3668
)

type resolveName struct {
	formats
	guard *egress.Guard
}

func (*resolveName) Describe() component.Descriptor {
	return asking{
		module: "RESOLVE_ENS_NAME", title: "Resolve ENS name",
		description: "Finds the Ethereum address that a name of the Ethereum Name Service stands for (ENSIP-1), through wildcard resolvers too (ENSIP-10). " +
			"The name is normalized first (ENSIP-15); one that cannot be is INVALID_INPUT. A name that nothing stands behind fails with NAME_NOT_RESOLVED, and so does one whose resolver answers off the chain (EIP-3668), which is not followed.",
		about:    "Which name to resolve.",
		required: `"jsonRpcUrl", "name"`,
		input: `"name": {"type": "string", "minLength": 1, "maxLength": 255, "title": "Name", "description": "The name.", "examples": ["vitalik.eth"]},
			"registryAddress": {"type": "string", "format": "evm-address", "default": "` + ensRegistry + `", "title": "Registry", "description": "The contract that knows the resolvers of names: that of Ethereum and its test chains, unless another chain has its own.", "examples": ["` + ensRegistry + `"]}`,
		example:     `, "name": "vitalik.eth"`,
		gives:       "What the name stands for.",
		requiredOut: `"address", "name", "node", "resolver"`,
		output: `"address": {` + addressOut + `, "title": "Address", "description": "The address that the name stands for.", "examples": ["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]},
			"name": {"type": "string", "title": "Name", "description": "The name in its normalized form.", "examples": ["vitalik.eth"]},
			"node": {` + hashOut + `, "title": "Node", "description": "The name's hash, under which contracts know it.", "examples": ["0xee6c4522aab0003e8d14cd40a6af439055fd2577951148c14b6cea9a53475835"]},
			"resolver": {` + addressOut + `, "title": "Resolver", "description": "The contract that gave the address.", "examples": ["0x231b0Ee14048e9dCcD1d247744d114a4EB5E8E63"]}`,
	}.descriptor()
}

func (m *resolveName) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ JSONRPCURL, Name, RegistryAddress string }](call.Input)
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
	node, err := dial(m.guard, input.JSONRPCURL)
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

// parseENSName normalizes a name. What ENSIP-15 does not allow is refused:
// names that look alike would be somebody else's.
func parseENSName(text string) (ensName, error) {
	normal, err := ensip15.Shared().Normalize(text)
	if err != nil {
		return nil, fmt.Errorf("cannot be normalized (ENSIP-15): %s", component.Cut(err.Error(), 200))
	}
	name := ensName(strings.Split(normal, "."))
	if len(name) > maxLabels {
		return nil, fmt.Errorf("has %d labels, and at most %d are resolved", len(name), maxLabels)
	}
	for _, label := range name {
		if label == "" || len(label) > 255 {
			return nil, errors.New("has a label that is empty or longer than 255 bytes")
		}
	}
	return name, nil
}

// hash is the name's node (namehash of ENSIP-1).
func (n ensName) hash() (node common.Hash) {
	for i := len(n) - 1; i >= 0; i-- {
		node = crypto.Keccak256Hash(node[:], crypto.Keccak256([]byte(n[i])))
	}
	return node
}

// wire is the name as wildcard resolvers take it: in the form of DNS.
func (n ensName) wire() []byte {
	var out []byte
	for _, label := range n {
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, 0)
}

// resolve finds the resolver of a name and what it says. A resolver above the
// name speaks for it when it is a wildcard (ENSIP-10).
func (n *node) resolve(ctx context.Context, registry common.Address, name ensName) (resolver, found common.Address, err error) {
	for above := range name {
		resolver, err = n.word(ctx, registry, selectResolver+hexOf(name[above:].hash().Bytes())[2:])
		switch {
		case errors.Is(err, errNoWord):
			return resolver, found, component.Permanent(component.CodeInvalidInput, "registryAddress: there is no registry of names at %s on this chain", registry.Hex())
		case err != nil:
			return resolver, found, err
		case resolver != common.Address{}:
			found, err = n.ask(ctx, resolver, name, above > 0)
			return resolver, found, err
		}
	}
	return resolver, found, notResolved(name, "it has no resolver")
}

// ask asks a resolver for the address of a name.
func (n *node) ask(ctx context.Context, resolver common.Address, name ensName, wildcard bool) (found common.Address, err error) {
	extended, err := n.extended(ctx, resolver)
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
		return found, notResolved(name, "its resolver answers off the chain (EIP-3668), which is not followed")
	case errors.Is(err, errNoWord), err == nil && found == common.Address{}:
		return found, notResolved(name, "its resolver has no Ethereum address for it")
	}
	return found, err
}

// extended says whether a resolver takes whole names (ENSIP-10). One that
// reverts knows no interfaces.
func (n *node) extended(ctx context.Context, resolver common.Address) (bool, error) {
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

// wildcardAnswer is what a resolver says inside of the bytes that it returns.
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
		return nil, breach("the resolver does not return bytes")
	}
	text, _ := list[0].(string)
	return parseBytes(text)
}

// errNoWord says that a call returned nothing.
var errNoWord = errors.New("the call returned nothing")

// word asks a contract for an address.
func (n *node) word(ctx context.Context, contract common.Address, calldata string) (common.Address, error) {
	var answer blob
	if err := n.call(ctx, &answer, "eth_call", map[string]string{"to": contract.Hex(), "data": "0x" + calldata}, "latest"); err != nil {
		return common.Address{}, err
	}
	return n.address(answer)
}

// address is the address that a contract returned.
func (n *node) address(answer []byte) (common.Address, error) {
	if len(answer) == 0 {
		return common.Address{}, errNoWord
	}
	if len(answer) < wordSize || common.BytesToHash(answer[:wordSize-common.AddressLength]) != (common.Hash{}) {
		return common.Address{}, n.malformed("eth_call", breach("the contract does not return an address"))
	}
	return common.BytesToAddress(answer[:wordSize]), nil
}

func notResolved(name ensName, why string) error {
	return component.Permanent(codeNotResolved, "the name %s stands for no address: %s", component.Cut(name.String(), 255), why)
}

// revertedWith is the data of a revert as text, 0x when it has none; "" of any
// other error.
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
