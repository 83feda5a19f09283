package evm

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/weft-automation/weft/internal/component"
)

// The key, the transaction and the signing data are the example in EIP-155.
const (
	keyOfEIP155    = "0x4646464646464646464646464646464646464646464646464646464646464646"
	signerOfEIP155 = "0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"
)

func legacyTransaction() object {
	return object{"type": "legacy", "chainId": "1", "nonce": "9", "to": "0x3535353535353535353535353535353535353535", "value": "1000000000000000000", "data": "0x", "gasLimit": "21000", "gasPrice": "20000000000"}
}

func feeTransaction() object {
	return object{"type": "eip1559", "chainId": "1", "nonce": "0", "to": "0x3535353535353535353535353535353535353535", "value": "1", "data": "0x", "gasLimit": "21000", "maxFeePerGas": "2", "maxPriorityFeePerGas": "1"}
}

func TestSignatureMatchesEIP155Example(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const (
		unsigned = "0xec098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080018080"
		hash     = "0xdaf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"
		signed   = "0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
	)
	transaction, err := parseOutgoing(json.RawMessage(jsonOf(t, legacyTransaction())))
	if err != nil {
		t.Fatal(err)
	}
	serialized, err := transaction.unsigned()
	if got, _ := transaction.hash(); err != nil || hexOf(serialized) != unsigned || got.Hex() != hash {
		t.Errorf("unsigned it is %x, of the hash %s", serialized, got)
	}
	small := legacyTransaction()
	small["nonce"], small["chainId"], small["gasLimit"], small["gasPrice"] = 9, 1, json.Number("21000.0"), json.Number("2e10")
	delete(small, "type")
	delete(small, "data")
	expected := legacyTransaction()
	expected["from"] = strings.ToLower(signerOfEIP155)
	for name, form := range map[string]any{"an object": legacyTransaction(), "serialized": unsigned, "with small integers": small, "with its signer": expected} {
		b.gives(t, name, "SIGN_EVM_TRANSACTION", object{"transaction": form, "privateKey": keyOfEIP155}, object{}, object{"signedTransaction": signed, "from": signerOfEIP155})
	}
}

// The transaction, its hash and its signature are from the documentation of eth-account
// (Account.sign_transaction, the dynamic fee example).
func TestEIP1559SignatureMatchesEthAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	input := object{
		"transaction": object{
			"type": "eip1559", "gasLimit": "100000", "maxFeePerGas": "2000000000", "maxPriorityFeePerGas": "2000000000", "data": "0x616263646566", "nonce": 34, "to": "0x09616C3d61b3331fc4109a9E41a8BDB7d9776609",
			"value": "100000000000000", "chainId": 1337,
			"accessList": []any{object{"address": "0x0000000000000000000000000000000000000001", "storageKeys": []string{"0x0100000000000000000000000000000000000000000000000000000000000000"}}},
		},
		"privateKey": "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
	}
	want := object{"transactionHash": "0x2721b2ac99d878695e410af9e8968859b6f6e94f544840be0eb2935bead7deba", "from": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"}
	b.gives(t, "with a key", "SIGN_EVM_TRANSACTION", input, object{}, want)
	given := input["transaction"].(object)
	for name, whole := range map[string]any{"gasLimit": 100000, "maxFeePerGas": 2000000000, "maxPriorityFeePerGas": 2000000000, "value": 100000000000000, "nonce": "34", "chainId": "1337"} {
		given[name] = whole
		b.gives(t, "with the other form of "+name, "SIGN_EVM_TRANSACTION", input, object{}, want)
	}
	number := func(text string) string {
		n, _ := new(big.Int).SetString(text, 10)
		return "0x" + n.Text(16)
	}
	delete(input, "privateKey")
	input["signature"] = object{
		"r":       number("48949965662841329840326477994465373664672499148507933176648302825256944281697"),
		"s":       number("1123041608316060268133200864147951676126406077675157976022772782796802590165"),
		"yParity": 1,
	}
	b.gives(t, "with the signature", "SIGN_EVM_TRANSACTION", input, object{}, want)
	input["signature"] = json.RawMessage(strings.Replace(jsonOf(t, input["signature"]), "}", `,"R":"1","S":"1","yparity":0,"v":28}`, 1))
	b.gives(t, "with unknown fields", "SIGN_EVM_TRANSACTION", input, object{}, want)
}

func TestInvalidTransactionIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	with := func(base object, name string, value any) object {
		base[name] = value
		return base
	}
	without := func(base object, name string) object {
		delete(base, name)
		return base
	}
	two256 := new(big.Int).Lsh(big.NewInt(1), 256).String()
	for name, c := range map[string]struct {
		transaction any
		message     string
	}{
		"no chain":                {without(feeTransaction(), "chainId"), "is required: expected a"},
		"chain 0":                 {with(feeTransaction(), "chainId", "0"), "transaction.chainId: expected a chain ID of at least 1"},
		"a large number":          {with(feeTransaction(), "chainId", 9007199254740993), "chainId"},
		"no nonce":                {without(feeTransaction(), "nonce"), "is required: expected a"},
		"the last nonce":          {with(feeTransaction(), "nonce", "18446744073709551615"), "transaction.nonce: expected at most 2^64-2"},
		"a nonce too large":       {with(feeTransaction(), "nonce", "18446744073709551616"), "nonce: must be a valid evm-uint64: expected a whole number in decimal digits below 2^64"},
		"a value that is rounded": {with(feeTransaction(), "value", json.Number("1e18")), "value: must be at most 9007199254740991"},
		"a part of a wei":         {with(feeTransaction(), "value", json.Number("0.5")), "value: must be an integer or a string"},
		"a negative nonce":        {with(feeTransaction(), "nonce", -1), "nonce"},
		"no gas":                  {without(feeTransaction(), "gasLimit"), "is required: expected a"},
		"no fee":                  {without(feeTransaction(), "maxFeePerGas"), "transaction.maxFeePerGas: is missing"},
		"no priority fee":         {without(feeTransaction(), "maxPriorityFeePerGas"), "transaction.maxPriorityFeePerGas: is missing"},
		"more than the fee":       {with(feeTransaction(), "maxPriorityFeePerGas", "3"), "transaction.maxPriorityFeePerGas: expected at most maxFeePerGas, which is 2, got 3"},
		"both fees":               {with(feeTransaction(), "gasPrice", "3"), `transaction: has the unknown field "gasPrice"; a transaction of type eip1559 has no such field`},
		"no price":                {without(legacyTransaction(), "gasPrice"), "transaction.gasPrice: is missing"},
		"a price in words":        {with(legacyTransaction(), "gasPrice", "cheap"), "gasPrice"},
		"a price in hex":          {with(legacyTransaction(), "gasPrice", "0x10"), "gasPrice"},
		"an access list":          {with(legacyTransaction(), "accessList", []any{}), `has the unknown field "accessList"; a transaction of type legacy has no such field`},
		"a value too large":       {with(feeTransaction(), "value", two256), "value: must be a valid evm-uint256"},
		"a wrong checksum":        {with(feeTransaction(), "to", "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96046"), "evm-address"},
		"nothing to create":       {without(feeTransaction(), "to"), "transaction.to: is missing; it can be missing only if data has the code of a contract to create"},
		"half a byte":             {with(feeTransaction(), "data", "0x1"), "hex-bytes"},
		"gas, misspelt":           {with(feeTransaction(), "gas", "5"), "is not a known field"},
		"another type":            {with(feeTransaction(), "type", "eip4844"), "must be one of"},
		"another signer":          {with(feeTransaction(), "from", "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"), "transaction.from: expected 0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045 to sign, but " + signerOfEIP155 + " did"},
		"a wrong list":            {with(feeTransaction(), "accessList", []any{object{"address": "0x01", "storageKeys": []string{}}}), "accessList"},
		"a list, misspelt":        {with(feeTransaction(), "accessList", []any{object{"address": signerOfEIP155, "storageKeys": []string{}, "slots": []string{}}}), "is not a known field"},
		"an array":                {[]any{}, "must be"},
		"text":                    {"transaction", `transaction: expected an unsigned transaction, 0x and pairs of hexadecimal digits, got "transaction"`},
		"nothing":                 {"0x", "expected an unsigned transaction"},
		"another envelope":        {"0x01c0", "transaction: expected an unsigned transaction, legacy or of type 2 (EIP-1559), got type 1"},
		"a signed one":            {"0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83", "expected an unsigned legacy transaction"},
		"one for every chain":     {"0xe9098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080", "expected an unsigned legacy transaction"},
		"a part":                  {"0x02c0", "expected an unsigned EIP-1559 transaction"},
		"with more after it":      {"0xec098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008001808000", "expected an unsigned legacy transaction"},
		"of a chain that is 0":    {"0xec098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080808080", "transaction.chainId: expected a chain ID"},
	} {
		b.refuses(t, name, "SIGN_EVM_TRANSACTION", object{"transaction": c.transaction, "privateKey": keyOfEIP155}, object{}, c.message)
	}
	// The rule must also hold without the schema: a stored call may have been checked with the
	// schema of a different version.
	for _, name := range []string{"chainId", "nonce", "gasLimit"} {
		_, err := parseOutgoing(json.RawMessage(jsonOf(t, without(feeTransaction(), name))))
		if err == nil || err.Error() != "."+name+": is missing: expected a decimal string" {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestInvalidSignatureIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const (
		r = "0x28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
		s = "0x67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
	)
	order := crypto.S256().Params().N
	low, _ := new(big.Int).SetString(s[2:], 16)
	high := "0x" + new(big.Int).Sub(order, low).Text(16)
	// In EIP-155's example, s is in the lower half. The signature with s in the upper half and
	// the opposite parity is by the same key.
	for name, c := range map[string]struct {
		signature any
		message   string
	}{
		"the twin":        {object{"r": r, "s": high, "yParity": 1}, "signature: s is in the upper half of the curve's order, which chains reject (EIP-2): use the order minus s, and invert yParity"},
		"r of 0":          {object{"r": "0x0", "s": s, "yParity": 0}, "signature: r and s must be from 1 to the order of the curve minus 1"},
		"s of 0":          {object{"r": r, "s": "0x0", "yParity": 0}, "signature: r and s must be from 1"},
		"r of the order":  {object{"r": "0x" + order.Text(16), "s": s, "yParity": 0}, "signature: r and s must be from 1"},
		"r of no point":   {object{"r": "0x5", "s": s, "yParity": 0}, "signature: the signature doesn't match any key"},
		"another parity":  {object{"r": r, "s": s, "yParity": 2}, "must be one of"},
		"v":               {object{"r": r, "s": s, "yParity": 27}, "must be one of"},
		"no parity":       {object{"r": r, "s": s}, "is required"},
		"r in decimals":   {object{"r": "12", "s": s, "yParity": 0}, "must match"},
		"r of 33 bytes":   {object{"r": "0x01" + r[2:], "s": s, "yParity": 0}, "must match"},
		"r as number":     {object{"r": 12, "s": s, "yParity": 0}, "must be a string"},
		"not an object":   {r, "must be an object"},
		"nothing at all":  {nil, "must be an object"},
		"text as parity":  {object{"r": r, "s": s, "yParity": "0"}, "must be"},
		"parity of 1.5":   {object{"r": r, "s": s, "yParity": 1.5}, "must be"},
		"unsigned digits": {object{"r": "0x", "s": s, "yParity": 0}, "must match"},
	} {
		b.refuses(t, name, "SIGN_EVM_TRANSACTION", object{"transaction": legacyTransaction(), "signature": c.signature}, object{}, c.message)
	}
	of := func(signature object) object {
		return object{"transaction": legacyTransaction(), "signature": signature}
	}
	b.gives(t, "the signature", "SIGN_EVM_TRANSACTION", of(object{"r": r, "s": s, "yParity": 0}), object{}, object{"from": signerOfEIP155})
	output, failed := b.compute(t, "SIGN_EVM_TRANSACTION", of(object{"r": r, "s": s, "yParity": 1}), object{})
	if failed != nil || output["from"] == signerOfEIP155 {
		t.Errorf("by the other parity somebody else signed: %v, %v", output, failed)
	}
	for _, input := range []object{{"transaction": legacyTransaction()}, {"transaction": legacyTransaction(), "privateKey": keyOfEIP155, "signature": object{"r": r, "s": s, "yParity": 0}}} {
		b.refuses(t, "none or both", "SIGN_EVM_TRANSACTION", input, object{}, "expected privateKey or signature, but not both")
	}
	b.refuses(t, "no transaction", "SIGN_EVM_TRANSACTION", object{"privateKey": keyOfEIP155}, object{}, "is required")
}

// Every signing module rejects an invalid key. An error never contains a key, even if the error
// is about a different field.
func TestErrorNeverContainsPrivateKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	signing := map[string]object{
		"SIGN_EVM_TRANSACTION": {"transaction": legacyTransaction()},
		"SIGN_EVM_MESSAGE":     {"message": "m"},
		"SIGN_EVM_TYPED_DATA":  mail(),
	}
	broken := map[string]object{
		"SIGN_EVM_TRANSACTION": {"transaction": keyOfEIP155},
		"SIGN_EVM_MESSAGE":     {"message": "zz" + keyOfEIP155, "encoding": "hex"},
		"SIGN_EVM_TYPED_DATA":  func() object { m := mail(); m["primaryType"] = keyOfEIP155; return m }(),
	}
	digits := strings.Repeat("5a", 31)
	for module, input := range signing {
		for name, key := range map[string]string{
			"0": "0x" + strings.Repeat("0", 64), "the order": "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", "more": "0x" + strings.Repeat("f", 64),
			"short": "0x" + digits, "long": "0x" + digits + "5a5a", "no prefix": digits + "5a", "no digits": "0x" + digits + "zz", "upper prefix": "0X" + digits + "5a", "blanks": " 0x" + digits + "5a", "empty": "",
		} {
			input["privateKey"] = key
			_, failed := b.compute(t, module, input, object{})
			if failed == nil || failed.Code != component.CodeInvalidInput || len(key) > 8 && contains(failed.Error()+string(failed.Details), key[4:12]) {
				t.Errorf("%s with the key %s: %v", module, name, failed)
			}
		}
		broken[module]["privateKey"] = keyOfEIP155
		if output, failed := b.compute(t, module, broken[module], object{}); failed == nil || contains(failed.Error()+string(failed.Details), keyOfEIP155[2:12]) {
			t.Errorf("%s: %v %v", module, output, failed)
		}
	}
}

func TestLargestAndSmallestKeySign(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"0x" + strings.Repeat("0", 63) + "1", "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140"} {
		hash := crypto.Keccak256Hash([]byte("x"))
		signature, signer, err := sign(key, hash)
		if err != nil {
			t.Fatal(err)
		}
		if recovered, err := recoverSigner(hash, signature); err != nil || recovered != signer {
			t.Errorf("%s signed, %s is recovered: %v", signer, recovered, err)
		}
	}
}

// FuzzSerializedTransactions checks that arbitrary bytes are either rejected or equal to the
// serialization of the parsed transaction.
func FuzzSerializedTransactions(f *testing.F) {
	for _, v := range readVectors(f).Transactions {
		f.Add(v.SerializedTransaction)
		f.Add(v.SignedTransaction)
	}
	f.Fuzz(func(t *testing.T, given string) {
		transaction, err := parseSerialized(given)
		if err != nil {
			return
		}
		if again, err := transaction.unsigned(); err != nil || !strings.EqualFold(hexOf(again), given) {
			t.Errorf("%s is signed as %x, %v", given, again, err)
		}
		if transaction.check() == nil {
			if _, err := transaction.signed(signature65{}); err != nil {
				t.Errorf("%s cannot be signed: %v", given, err)
			}
		}
	})
}

// FuzzPrivateKeys checks that an accepted key is below the order of the curve and has only one
// form, apart from the case of its digits. Errors never contain parts of the input.
func FuzzPrivateKeys(f *testing.F) {
	for _, seed := range []string{keyOfHello, "0x" + strings.Repeat("0", 64), "0x" + strings.Repeat("f", 64), keyOfHello[2:], "0x1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parsePrivateKey(text)
		if err != nil {
			if len(text) > 20 && strings.Contains(err.Error(), text) || checkPrivateKey(text) == nil {
				t.Errorf("%q is refused with %v", text, err)
			}
			return
		}
		number := new(big.Int).SetBytes(crypto.FromECDSA(key))
		if number.Sign() <= 0 || number.Cmp(crypto.S256().Params().N) >= 0 || !strings.EqualFold(hexOf(number.FillBytes(make([]byte, 32))), text) {
			t.Errorf("%q is taken for a key", text)
		}
	})
}
