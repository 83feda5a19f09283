package evm

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"os"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// extended is a BIP-32 private key with its chain code.
type extended struct{ key, chain []byte }

func split(key, data []byte) (left *big.Int, right []byte) {
	mac := hmac.New(sha512.New, key)
	mac.Write(data)
	sum := mac.Sum(nil)
	return new(big.Int).SetBytes(sum[:32]), sum[32:]
}

func master(seed []byte) extended {
	left, right := split([]byte("Bitcoin seed"), seed)
	return extended{common.LeftPadBytes(left.Bytes(), 32), right}
}

// child is CKDpriv. A hardened child derives from the private key, other children from the public
// key.
func (e extended) child(t *testing.T, index uint32) extended {
	t.Helper()
	data := append([]byte{0}, e.key...)
	if index < 1<<31 {
		key, err := crypto.ToECDSA(e.key)
		if err != nil {
			t.Fatal(err)
		}
		data = crypto.CompressPubkey(&key.PublicKey)
	}
	left, right := split(e.chain, binary.BigEndian.AppendUint32(data, index))
	left.Add(left, new(big.Int).SetBytes(e.key)).Mod(left, crypto.S256().Params().N)
	return extended{common.LeftPadBytes(left.Bytes(), 32), right}
}

// Deriving a key from a wallet's seed with the list form of a path leads to the account that ethers
// derives with the string form. The derivation is verified with the first test vector of BIP-32.
func TestDerivationPathMatchesOtherImplementations(t *testing.T) {
	t.Parallel()
	vector := master(common.FromHex("000102030405060708090a0b0c0d0e0f"))
	for _, step := range []struct {
		index uint32
		key   string
	}{{1 << 31, "edb2e14f9ee77d26dd93b4ecede8d16ed408ce149b6cd80b0715a2d911a0afea"}, {1, "3c6cb8d0f6a264c91ea8b5030fadaa8e538b020f0a387421a12de9319dc93368"}} {
		if vector = vector.child(t, step.index); common.Bytes2Hex(vector.key) != step.key {
			t.Fatalf("the test derives %x, and BIP-32 says %s", vector.key, step.key)
		}
	}
	data, err := os.ReadFile("testdata/paths.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Seed  string
		Cases []struct {
			AccountIndex, ChangeIndex, AddressIndex int
			Path, Account                           string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	b := newBench(t)
	for _, c := range file.Cases {
		output, failed := b.compute(t, "GET_EVM_DERIVATION_PATH", object{"accountIndex": c.AccountIndex, "changeIndex": c.ChangeIndex, "addressIndex": c.AddressIndex}, object{})
		if failed != nil || output["path"] != c.Path {
			t.Errorf("%s: %v, %v", c.Path, output, failed)
			continue
		}
		at := master(common.FromHex(file.Seed))
		for _, index := range output["derivationPath"].([]any) {
			at = at.child(t, uint32(index.(float64)))
		}
		key, err := crypto.ToECDSA(at.key)
		if err != nil {
			t.Fatal(err)
		}
		if got := crypto.PubkeyToAddress(key.PublicKey).Hex(); got != c.Account {
			t.Errorf("%s leads to %s, want %s", c.Path, got, c.Account)
		}
	}
}
