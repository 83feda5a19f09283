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

	// 32 random bytes have fewer than 16 distinct values about once in 10^12.
	minDistinctBytes = 16
)

// Key is a master key and the name under which sealed values refer to it.
type Key struct {
	ID     string
	Secret [secretSize]byte
}

// String keeps the secret out of logs.
func (k Key) String() string { return k.ID + ":***" }

// GoString keeps the secret out of %#v.
func (k Key) GoString() string { return k.String() }

// Fingerprint is the id of a key that was given without one: a short digest,
// which tells keys apart and nothing about them.
func Fingerprint(secret [secretSize]byte) string {
	sum := sha256.Sum256(append([]byte("weft master key\x00"), secret[:]...))
	return hex.EncodeToString(sum[:6])
}

// ParseKey reads a master key written as `base64` or `id:base64` (standard
// alphabet, 32 bytes). Without an id the fingerprint is the id. It refuses what
// no random generator makes: a wrong length, a repeated byte, few distinct
// bytes, a plain sequence. No error shows the key.
func ParseKey(text string) (Key, error) {
	id, encoded, named := strings.Cut(strings.TrimSpace(text), ":")
	if !named {
		id, encoded = "", id
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Key{}, errors.New("master key: not standard base64 with padding")
	}
	if len(raw) != secretSize {
		return Key{}, fmt.Errorf("master key: %d bytes instead of %d (make one with: openssl rand -base64 32)", len(raw), secretSize)
	}
	if weak(raw) {
		return Key{}, errors.New("master key: too regular to be random (make one with: openssl rand -base64 32)")
	}
	if named && (id == "" || len(id) > maxIDLength) {
		return Key{}, fmt.Errorf("master key: the id must have 1 to %d characters", maxIDLength)
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
