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

// signature65 is a recoverable signature: r and s of 32 bytes each, and the parity of y, 0 or 1.
type signature65 [crypto.SignatureLength]byte

func (s signature65) r() *big.Int   { return new(big.Int).SetBytes(s[:32]) }
func (s signature65) s() *big.Int   { return new(big.Int).SetBytes(s[32:64]) }
func (s signature65) yParity() byte { return s[64] }

// hex returns the form used for message signatures: the last byte is 27 or 28.
func (s signature65) hex() string {
	s[64] += 27
	return hexOf(s[:])
}

// parsePrivateKey parses a private key. The caller must wipe it. Errors contain nothing derived
// from the key.
func parsePrivateKey(text string) (*ecdsa.PrivateKey, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	data, err := hex.DecodeString(digits)
	defer clear(data)
	if !ok || err != nil || len(data) != 32 {
		return nil, errors.New("expected 0x and 64 hexadecimal digits")
	}
	key, err := crypto.ToECDSA(data)
	if err != nil { // the length is right, so the value is out of range
		return nil, errors.New("a secp256k1 key must be from 1 to the order of the curve minus 1")
	}
	return key, nil
}

func wipe(key *ecdsa.PrivateKey) {
	clear(key.D.Bits()) //lint:ignore SA1019 nothing else reaches the key's words to wipe them
}

// checkPrivateKey returns an error if a string is not a valid private key.
func checkPrivateKey(text string) error {
	key, err := parsePrivateKey(text)
	if err == nil {
		wipe(key)
	}
	return err
}

// sign signs a hash with a private key and returns the signature and the address of the key. The
// signature is deterministic (RFC 6979) and has the lower s. sign wipes its copy of the key.
func sign(privateKey string, hash common.Hash) (signature65, common.Address, error) {
	var signature signature65
	key, err := parsePrivateKey(privateKey)
	if err != nil {
		return signature, common.Address{}, invalid("privateKey", err)
	}
	defer wipe(key)
	signed, err := crypto.Sign(hash[:], key)
	if err != nil { // the error's text may depend on the key
		return signature, common.Address{}, errors.New("signing failed")
	}
	copy(signature[:], signed)
	return signature, crypto.PubkeyToAddress(key.PublicKey), nil
}

var (
	errOutOfRange = errors.New("r and s must be from 1 to the order of the curve minus 1, and yParity must be 0 or 1")
	errMalleable  = errors.New("s is in the upper half of the curve's order, which chains reject (EIP-2): use the order minus s, and invert yParity")
)

// recoverSigner returns the address of the key that signed a hash. It rejects an s in the upper
// half of the curve's order, because otherwise each signature would have a second valid form.
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
		return common.Address{}, errors.New("the signature doesn't match any key")
	}
	return common.BytesToAddress(crypto.Keccak256(point[1:])[12:]), nil
}
