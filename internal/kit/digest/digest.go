// Package digest computes hashes and message authentication codes by the names of their algorithms.
package digest

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some services still sign with it
	"crypto/sha256"
	"crypto/sha512"
	"hash"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/ripemd160" //lint:ignore SA1019 offered to callers for Bitcoin addresses, never used as a protection here
	"golang.org/x/crypto/sha3"
)

// The algorithms of Hash and of MAC, as errors list them.
const (
	HashAlgorithms = "sha256, sha512, keccak256, blake2b or ripemd160"
	MACAlgorithms  = "sha256, sha384, sha512 or sha1"
)

// Hash returns the hash of the data, or false if there is no such algorithm.
func Hash(algorithm string, data []byte) (sum []byte, known bool) {
	switch algorithm {
	case "sha256":
		sum := sha256.Sum256(data)
		return sum[:], true
	case "sha512":
		sum := sha512.Sum512(data)
		return sum[:], true
	case "keccak256":
		h := sha3.NewLegacyKeccak256()
		h.Write(data)
		return h.Sum(nil), true
	case "blake2b":
		sum := blake2b.Sum512(data)
		return sum[:], true
	case "ripemd160":
		h := ripemd160.New()
		h.Write(data)
		return h.Sum(nil), true
	}
	return nil, false
}

var macHashes = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}

// MAC returns the keyed message authentication code (RFC 2104) of the data, or false if there is no such
// algorithm.
func MAC(algorithm string, key, data []byte) (code []byte, known bool) {
	made, known := macHashes[algorithm]
	if !known {
		return nil, false
	}
	mac := hmac.New(made, key)
	mac.Write(data)
	return mac.Sum(nil), true
}
