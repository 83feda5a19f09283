package seal

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	maxIDLength = 64

	// 32 random bytes have fewer than 16 distinct values about once in 10^12 keys.
	minDistinctBytes = 16
)

// Key is a master key and its ID, by which sealed values refer to it.
type Key struct {
	ID     string
	Secret [secretSize]byte
}

// String keeps the secret out of logs.
func (k Key) String() string { return k.ID + ":***" }

// GoString keeps the secret out of %#v.
func (k Key) GoString() string { return k.String() }

// Fingerprint returns the ID of a key without a given ID: a short digest, which identifies the key
// but reveals nothing about it.
func Fingerprint(secret [secretSize]byte) string {
	sum := sha256.Sum256(append([]byte("weft master key\x00"), secret[:]...))
	return hex.EncodeToString(sum[:6])
}

// ParseKey parses a master key in the form `base64` or `id:base64` (standard alphabet, 32 bytes).
// Without an ID, the key's ID is its fingerprint. It rejects keys that are obviously not random: a
// wrong length, a repeated byte, few distinct bytes, a plain sequence. No error contains the key.
func ParseKey(text string) (Key, error) {
	id, encoded, named := strings.Cut(strings.TrimSpace(text), ":")
	if !named {
		id, encoded = "", id
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Key{}, errors.New("master key: not in standard base64 with padding")
	}
	if len(raw) != secretSize {
		return Key{}, fmt.Errorf("master key: %d bytes instead of %d (generate one with: openssl rand -base64 32)", len(raw), secretSize)
	}
	if weak(raw) {
		return Key{}, errors.New("master key: too regular to be random (generate one with: openssl rand -base64 32)")
	}
	if named && (id == "" || len(id) > maxIDLength) {
		return Key{}, fmt.Errorf("master key: the ID must have 1 to %d characters", maxIDLength)
	}
	key := Key{ID: id, Secret: [secretSize]byte(raw)}
	if !named {
		key.ID = Fingerprint(key.Secret)
	}
	return key, nil
}

func weak(raw []byte) bool {
	distinct := make(map[byte]struct{}, len(raw))
	sequence := true
	for i, b := range raw {
		distinct[b] = struct{}{}
		if i > 0 && b-raw[i-1] != raw[1]-raw[0] {
			sequence = false
		}
	}
	return sequence || len(distinct) < minDistinctBytes
}
