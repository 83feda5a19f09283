package evm

import (
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// signature65 is a signature that can be recovered: r and s of 32 bytes each,
// and 0 or 1, the parity of y.
type signature65 [crypto.SignatureLength]byte

func (s signature65) r() *big.Int   { return new(big.Int).SetBytes(s[:32]) }
func (s signature65) s() *big.Int   { return new(big.Int).SetBytes(s[32:64]) }
func (s signature65) yParity() byte { return s[64] }

// hex is the form in which messages carry signatures: the last byte is 27 or 28.
func (s signature65) hex() string {
	s[64] += 27
	return hexOf(s[:])
}

// parsePrivateKey reads a private key, which the caller wipes. Errors never tell
// anything of it.
func parsePrivateKey(text string) (*ecdsa.PrivateKey, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	data, err := hex.DecodeString(digits)
	defer clear(data)
	if !ok || err != nil || len(data) != 32 {
		return nil, errors.New("0x and 64 hexadecimal digits are needed")
	}
	key, err := crypto.ToECDSA(data)
	if err != nil { // of a number of that length, nothing else can be wrong
		return nil, errors.New("a key of secp256k1 is from 1 to the order of the curve less 1")
	}
	return key, nil
}

func wipe(key *ecdsa.PrivateKey) {
	clear(key.D.Bits()) //lint:ignore SA1019 nothing else reaches the key's words to wipe them
}

// checkPrivateKey says why a text is no private key.
func checkPrivateKey(text string) error {
	key, err := parsePrivateKey(text)
	if err == nil {
		wipe(key)
	}
	return err
}

// sign signs a hash with a private key and tells whose the key is. The
// signature depends on nothing else (RFC 6979) and has the lower s. What was
// read of the key is wiped.
func sign(privateKey string, hash common.Hash) (signature65, common.Address, error) {
	var signature signature65
	key, err := parsePrivateKey(privateKey)
	if err != nil {
		return signature, common.Address{}, invalid("privateKey", err)
	}
	defer wipe(key)
	signed, err := crypto.Sign(hash[:], key)
	if err != nil { // its text may tell of the key
		return signature, common.Address{}, errors.New("sign: the curve refused")
	}
	copy(signature[:], signed)
	return signature, crypto.PubkeyToAddress(key.PublicKey), nil
}

var (
	errOutOfRange = errors.New("r and s must be from 1 to the order of the curve less 1, and yParity 0 or 1")
	errMalleable  = errors.New("s is in the upper half of the curve's order, which chains refuse (EIP-2): take the order less s, and the other yParity")
)

// recoverSigner tells whose key made a signature of a hash. Two signatures
// would be as good where s may be in the upper half, so that one is refused.
func recoverSigner(hash common.Hash, signature signature65) (common.Address, error) {
	r, s := signature.r(), signature.s()
	switch {
	case !crypto.ValidateSignatureValues(signature.yParity(), r, s, false):
		return common.Address{}, errOutOfRange
	case !crypto.ValidateSignatureValues(signature.yParity(), r, s, true):
		return common.Address{}, errMalleable
	}
	point, err := crypto.Ecrecover(hash[:], signature[:])
	if err != nil {
		return common.Address{}, errors.New("no key can have made the signature")
	}
	return common.BytesToAddress(crypto.Keccak256(point[1:])[12:]), nil
}
