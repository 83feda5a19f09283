package evm

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Generator point of secp256k1 (SEC 2), which is the public key of the private key 1.
const (
	generatorX = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
	generatorY = "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"
)

func TestAddressIsDerivedFromPublicKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const address = "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf" // the well-known address of the key 1
	for _, key := range []string{"0x02" + generatorX, "0x04" + generatorX + generatorY, "0x02" + strings.ToUpper(generatorX)} {
		b.gives(t, key, "COMPUTE_EVM_ADDRESS", object{"publicKey": key}, object{}, object{"address": address})
	}
	output, failed := b.compute(t, "COMPUTE_EVM_ADDRESS", object{"publicKey": "0x03" + generatorX}, object{})
	if failed != nil || output["address"] == address {
		t.Errorf("the other point of the same x: %v, %v", output, failed)
	}
	for name, key := range map[string]any{
		"no prefix": "02" + generatorX, "without its first byte": "0x" + generatorX + generatorY, "hybrid": "0x06" + generatorX + generatorY, "compressed as 04": "0x04" + generatorX,
		"whole as 02": "0x02" + generatorX + generatorY, "not on the curve": "0x04" + generatorX + generatorX, "x of no point": "0x02" + word("5"), "beyond the field": "0x02" + strings.Repeat("f", 64),
		"at infinity": "0x00", "an address": address, "no hex": "0x02" + strings.Repeat("z", 64), "half a byte": "0x02" + generatorX[1:], "empty": "", "a number": 2, "null": nil,
	} {
		b.refuses(t, name, "COMPUTE_EVM_ADDRESS", object{"publicKey": key}, object{}, "publicKey")
	}
	b.refuses(t, "none", "COMPUTE_EVM_ADDRESS", object{}, object{}, "is required")
}

// The addresses are the examples in EIP-55.
func TestAddressesHaveTheChecksumOfEIP55(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D", "0xde709f2102306220921060314715629080e2fb77", "0x27b1fdb04752bbc536007a920d24acb045561c26",
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
	} {
		for _, form := range []string{text, strings.ToLower(text), "0x" + strings.ToUpper(text[2:])} {
			if address, err := parseAddress(form); err != nil || address.Hex() != text {
				t.Errorf("%s is read as %s, %v", form, address.Hex(), err)
			}
		}
		// Flip the case of one letter.
		if strings.ToUpper(text[2:]) == text[2:] || strings.ToLower(text) == text {
			continue
		}
		for i := 2; i < len(text); i++ {
			flipped := text[:i] + string(text[i]^0x20) + text[i+1:]
			if text[i] < 'A' {
				continue
			}
			if _, err := parseAddress(flipped); err == nil {
				t.Errorf("%s is taken", flipped)
			}
		}
	}
}

func TestDerivationPathsHaveTheFormOfBIP44(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		account, change, address any
		path                     string
		numbers                  []any
	}{
		{0, 0, 0, "m/44'/60'/0'/0/0", []any{2147483692.0, 2147483708.0, 2147483648.0, 0.0, 0.0}},
		{1, 0, 5, "m/44'/60'/1'/0/5", []any{2147483692.0, 2147483708.0, 2147483649.0, 0.0, 5.0}},
		{2147483647, 1, 2147483647, "m/44'/60'/2147483647'/1/2147483647", []any{2147483692.0, 2147483708.0, 4294967295.0, 1.0, 2147483647.0}},
	} {
		input := object{"accountIndex": c.account, "changeIndex": c.change, "addressIndex": c.address}
		b.gives(t, c.path, "GET_EVM_DERIVATION_PATH", input, object{}, object{"path": c.path, "derivationPath": c.numbers})
	}
	for _, field := range []string{"accountIndex", "changeIndex", "addressIndex"} {
		for _, bad := range []any{-1, 2147483648, 1.5, "0", nil, true} {
			input := object{"accountIndex": 0, "changeIndex": 0, "addressIndex": 0}
			input[field] = bad
			b.refuses(t, field, "GET_EVM_DERIVATION_PATH", input, object{}, "must be")
		}
		input := object{"accountIndex": 0, "changeIndex": 0, "addressIndex": 0}
		delete(input, field)
		b.refuses(t, field, "GET_EVM_DERIVATION_PATH", input, object{}, "is required")
	}
}

// FuzzPublicKeys checks that an accepted key is a point on the curve whose other form has the same
// address, and that errors don't quote the input.
func FuzzPublicKeys(f *testing.F) {
	for _, seed := range []string{"0x02" + generatorX, "0x03" + generatorX, "0x04" + generatorX + generatorY, "0x02" + strings.Repeat("f", 64), "0x04" + generatorX + generatorX, "0x00", "0x", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := addressOf(text)
		if err != nil {
			if message := err.Error(); len(message) > 200 || len(text) > 20 && strings.Contains(message, text) {
				t.Errorf("%q is refused with %s", text, message)
			}
			return
		}
		whole := common.FromHex(text)
		if len(whole) == 33 {
			key, err := crypto.DecompressPubkey(whole)
			if err != nil {
				t.Fatalf("%q is taken and no key: %v", text, err)
			}
			whole = crypto.FromECDSAPub(key)
		}
		// y² = x³ + 7 in the field of secp256k1 (SEC 2).
		x, y, field := new(big.Int).SetBytes(whole[1:33]), new(big.Int).SetBytes(whole[33:]), crypto.S256().Params().P
		right := new(big.Int).Add(new(big.Int).Exp(x, big.NewInt(3), field), big.NewInt(7))
		if x.Cmp(field) >= 0 || y.Cmp(field) >= 0 || new(big.Int).Exp(y, big.NewInt(2), field).Cmp(right.Mod(right, field)) != 0 {
			t.Errorf("%q is not on the curve", text)
		}
		small := append([]byte{byte(2 + y.Bit(0))}, whole[1:33]...)
		for _, form := range [][]byte{whole, small} {
			if again, err := addressOf(hexOf(form)); err != nil || again != address {
				t.Errorf("%q has the address %s, as %x %s, %v", text, address, form, again, err)
			}
		}
	})
}
