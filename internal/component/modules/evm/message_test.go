package evm

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// ofHello is a signature of "hello world" with the key 0x0123...0123, from the documentation of
// ethers (verifyMessage; the message hash is from its tests). someData is a signature of "Some
// data" with a different key, from the documentation of web3.js (eth.accounts.sign).
const (
	keyOfHello  = "0x0123456789012345678901234567890123456789012345678901234567890123"
	ofHello     = "0xddd0a7290af9526056b4e35a077b9a11b513aa0028ec6c9880948544508f3c63265e99e47ad31bb2cab9646c504576b3abc6939a1710afc08cbf3034d73214b81c"
	whoHello    = "0x14791697260E4c9A71f18484C9f997B308e59325"
	keyOfData   = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	ofSomeData  = "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c"
	whoSomeData = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
)

func TestMessageSignaturesMatchPublishedExamples(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.gives(t, "ethers", "SIGN_EVM_MESSAGE", object{"message": "hello world", "privateKey": keyOfHello}, object{},
		object{"signature": ofHello, "signer": whoHello, "messageHash": "0xd9eba16ed0ecae432b71fe008c98cc872bb4cc214d3220a36f365326cf807d68"})
	b.gives(t, "web3.js", "SIGN_EVM_MESSAGE", object{"message": "Some data", "privateKey": keyOfData}, object{},
		object{"signature": ofSomeData, "signer": whoSomeData, "messageHash": "0x1da44b586eb0729ff70a73c326926f6ed5a25f5b056e7f47fbc6e58d86871655"})
	b.gives(t, "as bytes", "SIGN_EVM_MESSAGE", object{"message": "0x68656c6c6f20776f726c64", "encoding": "hex", "privateKey": keyOfHello}, object{}, object{"signature": ofHello})
	hash, err := messageHash("Hello World", "") // from the documentation of ethers (hashMessage)
	if err != nil || hash.Hex() != "0xa1de988600a42c4b4ab089b619297c17d53cffae5d5120d82d8a92d0bb3b78f2" {
		t.Errorf("the hash is %s, %v", hash, err)
	}
}

func TestMessagesAreVerified(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ask := func(signature string) object {
		return object{"message": "hello world", "signature": signature, "address": whoHello}
	}
	body := ofHello[:130]
	for _, v := range []string{"1c", "01"} {
		b.gives(t, "v "+v, "VERIFY_EVM_MESSAGE", ask(body+v), object{}, object{"valid": true, "signer": whoHello})
	}
	b.gives(t, "in upper case", "VERIFY_EVM_MESSAGE", ask("0x"+strings.ToUpper(ofHello[2:])), object{}, object{"valid": true})
	b.gives(t, "an address in lower case", "VERIFY_EVM_MESSAGE", object{"message": "hello world", "signature": ofHello, "address": strings.ToLower(whoHello)}, object{}, object{"valid": true})
	b.gives(t, "as bytes", "VERIFY_EVM_MESSAGE", object{"message": "0x68656c6c6f20776f726c64", "encoding": "hex", "signature": ofHello, "address": whoHello}, object{}, object{"valid": true})

	b.gives(t, "by whomever", "VERIFY_EVM_MESSAGE", object{"message": "hello world", "signature": ofHello}, object{}, object{"valid": true, "signer": whoHello})
	b.gives(t, "by nobody", "VERIFY_EVM_MESSAGE", object{"message": "hello world", "signature": "0x"}, object{}, object{"valid": false, "signer": nil})
	b.gives(t, "somebody else", "VERIFY_EVM_MESSAGE", object{"message": "hello world", "signature": ofHello, "address": whoSomeData}, object{}, object{"valid": false, "signer": whoHello})
	output, failed := b.compute(t, "VERIFY_EVM_MESSAGE", object{"message": "hello World", "signature": ofHello, "address": whoHello}, object{})
	if failed != nil || output["valid"] != false || output["signer"] == whoHello {
		t.Errorf("another message: %v, %v", output, failed)
	}

	s, _ := new(big.Int).SetString(ofHello[66:130], 16)
	twin := ofHello[:66] + common.BytesToHash(new(big.Int).Sub(crypto.S256().Params().N, s).Bytes()).Hex()[2:] + "1b"
	for name, signature := range map[string]string{
		"the twin": twin, "empty": "", "short": ofHello[:130], "long": ofHello + "00", "no hex": ofHello[:130] + "zz", "no prefix": ofHello[2:], "words": "signed",
		"v 2": body + "02", "v 26": body + "1a", "v 29": body + "1d", "v 37": body + "25", "v 255": body + "ff",
		"zeros": "0x" + strings.Repeat("0", 130), "all ones": "0x" + strings.Repeat("f", 128) + "1b", "r of no point": "0x" + word("5") + body[66:] + "1b", "s of 0": body[:66] + word("0") + "1b",
	} {
		b.gives(t, name, "VERIFY_EVM_MESSAGE", ask(signature), object{}, object{"valid": false, "signer": nil})
	}
}

func TestInvalidMessageIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for module, more := range map[string]object{"SIGN_EVM_MESSAGE": {"privateKey": keyOfHello}, "VERIFY_EVM_MESSAGE": {"signature": ofHello, "address": whoHello}} {
		for _, c := range []struct {
			message, encoding any
			says              string
		}{
			{"0x1", "hex", "message: expected 0x and pairs of hexadecimal digits, because encoding is hex"},
			{"hello", "hex", "message: expected 0x and pairs"},
			{"hello", "base64", "must be one of"},
			{5, "utf8", "must be a string"},
			{nil, "utf8", "must be a string"},
		} {
			input := object{"message": c.message, "encoding": c.encoding}
			for name, value := range more {
				input[name] = value
			}
			b.refuses(t, module, module, input, object{}, c.says)
		}
		b.refuses(t, module, module, more, object{}, "is required")
	}
	b.refuses(t, "no address", "VERIFY_EVM_MESSAGE", object{"message": "x", "signature": ofHello, "address": "0x12"}, object{}, "evm-address")
	b.refuses(t, "no signature", "VERIFY_EVM_MESSAGE", object{"message": "x", "signature": 5, "address": whoHello}, object{}, "must be a string")
}

// FuzzSignatures checks that any string is rejected as a signature or has a signer and only one
// valid form.
func FuzzSignatures(f *testing.F) {
	hash := crypto.Keccak256Hash([]byte("x"))
	f.Add(ofHello)
	f.Add("0x" + strings.Repeat("1", 130))
	f.Add(strings.Repeat("0", 132))
	f.Fuzz(func(t *testing.T, given string) {
		signer, ok := signerOf(hash, given)
		if !ok {
			return
		}
		data, _ := parseBytes(given)
		var twin signature65
		copy(twin[:], data)
		new(big.Int).Sub(crypto.S256().Params().N, twin.s()).FillBytes(twin[32:64])
		twin[64] = 1 - data[64]%27
		if _, err := recoverSigner(hash, twin); !errors.Is(err, errMalleable) {
			t.Errorf("%s is by %s, and the twin is %v", given, signer, err)
		}
	})
}
