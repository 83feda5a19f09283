package evm

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// mail returns the example message of EIP-712. The example's private key is keccak256("cow").
func mail() object {
	return object{
		"domain": object{"name": "Ether Mail", "version": "1", "chainId": 1, "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"},
		"types": object{
			"Person": []any{object{"name": "name", "type": "string"}, object{"name": "wallet", "type": "address"}},
			"Mail":   []any{object{"name": "from", "type": "Person"}, object{"name": "to", "type": "Person"}, object{"name": "contents", "type": "string"}},
		},
		"primaryType": "Mail",
		"message": object{
			"from":     object{"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
			"to":       object{"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},
			"contents": "Hello, Bob!",
		},
	}
}

func keyOfCow() string { return hexutil.Encode(crypto.Keccak256([]byte("cow"))) }

func domainStruct(members ...string) []any {
	types := map[string]string{"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address", "salt": "bytes32"}
	var list []any
	for _, name := range members {
		list = append(list, object{"name": name, "type": types[name]})
	}
	return list
}

// The hashes and the signature are from EIP-712's test of the example.
func TestSignatureMatchesEIP712Example(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := object{
		"signature":   "0x4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b915621c",
		"messageHash": "0xbe609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2",
		"domainHash":  "0xf2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f",
		"signer":      "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826",
	}
	input := mail()
	input["privateKey"] = keyOfCow()
	b.gives(t, "without the domain's type", "SIGN_EVM_TYPED_DATA", input, object{}, want)
	input["domain"].(object)["chainId"] = "1"
	b.gives(t, "the chain as text", "SIGN_EVM_TYPED_DATA", input, object{}, want)
	input["types"].(object)["EIP712Domain"] = domainStruct("name", "version", "chainId", "verifyingContract")
	b.gives(t, "with the domain's type", "SIGN_EVM_TYPED_DATA", input, object{}, want)
	more := object{}
	maps.Copy(more, input)
	more["types"] = json.RawMessage(strings.ReplaceAll(jsonOf(t, input["types"]), `"}`, `","Type":"uint256","note":1}`))
	b.gives(t, "with unknown fields", "SIGN_EVM_TYPED_DATA", more, object{}, want)
	var message any = input["message"]
	raw := json.RawMessage(jsonOf(t, message))
	read, err := strictjson.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newTypedData(json.RawMessage(jsonOf(t, input["types"])), object{"name": "Ether Mail"})
	if err != nil {
		t.Fatal(err)
	}
	if hash := hexOf(d.typeHash("Mail")); hash != "0xa0cedeb2dc280ba39b857546d74f5549c3a1d7bdc2dd96bf881f76108e23dac2" {
		t.Errorf("the hash of the type is %s", hash)
	}
	if hash, err := d.hashStruct("Mail", read); err != nil || hexOf(hash) != "0xc52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e" {
		t.Errorf("the hash of the struct is %x, %v", hash, err)
	}
}

// EIP-712 allows a struct to refer to itself.
func TestStructsMayReferToThemselves(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	input := object{
		"domain": object{"name": "x"}, "types": object{"Node": []any{object{"name": "children", "type": "Node[]"}, object{"name": "n", "type": "uint8"}}}, "primaryType": "Node",
		"message": object{"n": 1, "children": []any{object{"n": 2, "children": []any{}}}}, "privateKey": keyOfCow(),
	}
	output, failed := b.compute(t, "SIGN_EVM_TYPED_DATA", input, object{})
	if failed != nil {
		t.Fatal(failed)
	}
	typeHash := crypto.Keccak256([]byte("Node(Node[] children,uint8 n)"))
	number := func(n byte) []byte { w := make([]byte, 32); w[31] = n; return w }
	leaf := crypto.Keccak256(typeHash, crypto.Keccak256(), number(2))
	root := crypto.Keccak256(typeHash, crypto.Keccak256(leaf), number(1))
	domain := crypto.Keccak256(crypto.Keccak256([]byte("EIP712Domain(string name)")), crypto.Keccak256([]byte("x")))
	if want := crypto.Keccak256Hash([]byte{0x19, 1}, domain, root).Hex(); output["messageHash"] != want {
		t.Errorf("%s, want %s", output["messageHash"], want)
	}
}

func TestTypedDataIsReadStrictly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	set := func(path string, value any) func(object) {
		return func(m object) {
			steps := strings.Split(path, ".")
			at := m
			for _, step := range steps[:len(steps)-1] {
				at = at[step].(object)
			}
			if last := steps[len(steps)-1]; value == nil {
				delete(at, last)
			} else {
				at[last] = value
			}
		}
	}
	// typed makes the message a struct with one field of a type.
	typed := func(kind string, value any) func(object) {
		return func(m object) {
			m["types"] = object{"T": []any{object{"name": "v", "type": kind}}, "S": []any{object{"name": "a", "type": "uint8"}}}
			m["primaryType"], m["message"] = "T", object{"v": value}
		}
	}
	wide := object{}
	for i := range 257 {
		wide["T"+strings.Repeat("x", i)] = []any{}
	}
	for name, c := range map[string]struct {
		change  func(object)
		message string
	}{
		"a member too few":         {set("message.contents", nil), "message.contents: is missing: expected string"},
		"a member too few within":  {set("message.from.wallet", nil), "message.from.wallet: is missing: expected address"},
		"a member too many":        {set("message.subject", "x"), `message: has the unknown field "subject"; the struct Mail doesn't declare it`},
		"a member too many within": {set("message.to.age", 5), `message.to: has the unknown field "age"; the struct Person doesn't declare it`},
		"a wrong checksum":         {set("message.to.wallet", "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbb"), "message.to.wallet: expected an address: the EIP-55 checksum"},
		"no struct":                {set("message.to", "Bob"), `message.to: expected the struct Person, an object, got "Bob"`},
		"an unknown struct":        {set("primaryType", "Letter"), `primaryType: expected the name of a struct in types, got "Letter"`},
		"the domain itself":        {set("primaryType", "EIP712Domain"), "primaryType: expected the name of a struct in types"},
		"no domain":                {set("domain", object{}), "domain: expected at least one of name, version, chainId, verifyingContract and salt"},
		"a strange domain":         {set("domain.color", "red"), `domain: has the unknown field "color"; the struct EIP712Domain doesn't declare it`},
		"a wrong chain":            {set("domain.chainId", "0x1"), `domain.chainId: expected uint256, a decimal string from 0 to 2^256-1, got "0x1"`},
		"a domain too small":       {set("types.EIP712Domain", domainStruct("name", "version", "chainId", "salt")), "domain.salt: is missing: expected bytes32"},
		"a domain too large":       {set("types.EIP712Domain", domainStruct("name", "version", "chainId")), `domain: has the unknown field "verifyingContract"`},
		"a domain of other types":  {set("types.EIP712Domain", []any{object{"name": "chainId", "type": "string"}}), `types.EIP712Domain[0].type: expected uint256, got "string"`},
		"an unknown type":          {set("types.Mail", []any{object{"name": "from", "type": "Human"}}), `types.Mail[0].type: expected a type of EIP-712 such as uint256, address, bytes32, bytes or string, or the name of a struct in types, got "Human"`},
		"a name twice":             {set("types.Mail", []any{object{"name": "a", "type": "bool"}, object{"name": "a", "type": "bool"}}), `types.Mail[1].name: expected a unique name`},
		"a name of two words":      {set("types.Mail", []any{object{"name": "a b", "type": "bool"}}), "types.Mail[0].name: expected a unique name"},
		"a struct like a type":     {set("types.uint8", []any{}), "types.uint8: expected a struct name"},
		"a struct of two words":    {set("types.A B", []any{}), "types.A B: expected a struct name"},
		"no array of members":      {set("types.Mail", "Mail"), "types"},
		"too many structs":         {set("types", wide), "at most 256"},
		"an alias":                 {typed("uint", 1), `types.T[0].type: expected a type of EIP-712 such as uint256`},
		"an alias in an array":     {typed("int[]", []int{1}), "types.T[0].type: expected a type of EIP-712"},
		"a function":               {typed("function", "0x"), "expected a type of EIP-712"},
		"a tuple":                  {typed("(uint8 a)", "0x"), "expected a type of EIP-712"},
		"int8 of 128":              {typed("int8", 128), "message.v: expected int8, -128 to 127, got 128"},
		"uint8 of -1":              {typed("uint8", "-1"), `message.v: expected uint8, 0 to 255, got "-1"`},
		"a rounded number":         {typed("uint256", 9007199254740993), "got 9007199254740993"},
		"a fraction":               {typed("uint256", 0.5), "got 0.5"},
		"bytes4 of 3":              {typed("bytes4", "0x010203"), "message.v: expected bytes4"},
		"bytes of half a byte":     {typed("bytes", "0x1"), "message.v: expected bytes"},
		"no bool":                  {typed("bool", "true"), "message.v: expected bool, true or false"},
		"no string":                {typed("string", 1), "message.v: expected string, got 1"},
		"null":                     {typed("string", json.RawMessage("null")), "message.v: expected string, got null"},
		"null in an array":         {typed("uint8[]", []any{1, nil}), "message.v[1]: expected uint8, 0 to 255, got null"},
		"null for a struct":        {typed("S", json.RawMessage("null")), "message.v: expected the struct S, an object, got null"},
		"an array of two":          {typed("uint8[3]", []int{1, 2}), "message.v: expected uint8[3], an array, got an array of 2 items"},
		"arrays of arrays":         {typed("uint8[2][]", []any{[]int{1, 2}, []int{3}}), "message.v[1]: expected uint8[2], an array"},
		"structs in an array":      {typed("S[]", []any{object{"a": 1}, object{"a": 256}}), "message.v[1].a: expected uint8, 0 to 255, got 256"},
		"an array of none":         {typed("uint8[0]", []int{}), "types.T[0].type: expected an array such as uint256[] or uint256[2]"},
		"an open array":            {typed("uint8[", []int{}), "expected an array such as"},
		"an array of a word":       {typed("uint8[two]", []int{}), "expected an array such as"},
		"a type after an array":    {typed("uint8[]x", []int{}), "expected an array such as"},
		"many dimensions":          {typed("uint8"+strings.Repeat("[]", 40), []int{}), "16 dimensions"},
	} {
		input := mail()
		c.change(input)
		input["privateKey"] = keyOfCow()
		b.refuses(t, name, "SIGN_EVM_TYPED_DATA", input, object{}, c.message)
	}
	for _, field := range []string{"domain", "types", "primaryType", "message", "privateKey"} {
		input := mail()
		input["privateKey"] = keyOfCow()
		delete(input, field)
		b.refuses(t, field, "SIGN_EVM_TYPED_DATA", input, object{}, "is required")
		input[field] = []any{}
		b.refuses(t, field, "SIGN_EVM_TYPED_DATA", input, object{}, "must be")
	}
}

// FuzzTypedData checks that any types, domain and message are rejected with a short message or have
// a stable hash.
func FuzzTypedData(f *testing.F) {
	for _, v := range readVectors(f).TypedData {
		f.Add(jsonOf(f, v.Types), jsonOf(f, v.Domain), jsonOf(f, v.Message), v.PrimaryType)
	}
	f.Add(`{"A":[{"name":"b","type":"A[2][]"}]}`, `{"name":"x"}`, `{"b":[]}`, "A")
	f.Add(`{"A":[{"name":"b","type":"B"}],"B":[{"name":"a","type":"A"}]}`, `{"salt":"0x00"}`, `{"b":{"a":null}}`, "A")
	f.Fuzz(func(t *testing.T, types, domain, message, primary string) {
		d, err := strictjson.Decode(json.RawMessage(domain))
		if err != nil {
			return
		}
		m, err := strictjson.Decode(json.RawMessage(message))
		if err != nil {
			return
		}
		first, _, err := typedDataHashes(json.RawMessage(types), d, m, primary)
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("an error of %d characters", len(err.Error()))
		}
		if again, _, other := typedDataHashes(json.RawMessage(types), d, m, primary); again != first || (err == nil) != (other == nil) {
			t.Errorf("%s and %s", first, again)
		}
	})
}
