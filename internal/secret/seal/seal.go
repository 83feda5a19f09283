// Package seal encrypts secrets at rest: callback secrets, header values, secret fields of inputs.
//
// Each value has its own data key (AES-256-GCM), which is encrypted under the master key that the
// header names. So values under an old master key can be found and opened until they are
// re-encrypted. A sealed value opens only for the row and field for which it was sealed; for any
// other place, Open returns ErrUnsealable.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// ErrUnsealable means that a sealed value is damaged, was moved to a different place, or was sealed
// under a key that isn't in the ring. It never says which of these happened, because the difference
// would only help an attacker.
var ErrUnsealable = errors.New("sealed value cannot be opened")

const (
	formatV1   = 1
	nonceSize  = 12
	tagSize    = 16
	secretSize = 32
	wrappedKey = nonceSize + secretSize + tagSize
)

// AAD is the place where a sealed value belongs: additional data that is authenticated, but not
// stored.
type AAD struct {
	WorkspaceID uuid.UUID
	Table       string
	Row         string
	Field       string
}

// bytes encodes the place, so that different places have different encodings.
func (a AAD) bytes(header []byte) []byte {
	out := make([]byte, 0, len(header)+len(a.WorkspaceID)+len(a.Table)+len(a.Row)+len(a.Field)+16)
	out = append(out, header...)
	out = append(out, a.WorkspaceID[:]...)
	for _, part := range []string{a.Table, a.Row, a.Field} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

// Keyring seals under its primary key and opens under any of its keys. It is safe for concurrent
// use.
type Keyring struct {
	primary      string
	keys         map[string]cipher.AEAD
	fingerprints []string // the primary key's first
}

// NewKeyring returns a ring. A key is found by its ID and by its fingerprint, so values that were
// sealed before the key got an ID still open. It returns an error for an ID that is empty, too long,
// or used for two keys.
func NewKeyring(primary Key, others ...Key) (*Keyring, error) {
	ring := &Keyring{primary: primary.ID, keys: make(map[string]cipher.AEAD)}
	owner := make(map[string][secretSize]byte)
	for _, key := range append([]Key{primary}, others...) {
		if key.ID == "" || len(key.ID) > maxIDLength {
			return nil, fmt.Errorf("master key: the ID must have 1 to %d characters", maxIDLength)
		}
		aead, err := newAEAD(key.Secret[:])
		if err != nil {
			return nil, err
		}
		for _, name := range []string{key.ID, Fingerprint(key.Secret)} {
			if held, taken := owner[name]; taken && held != key.Secret {
				return nil, fmt.Errorf("master key: two keys have the ID %q", name)
			}
			owner[name], ring.keys[name] = key.Secret, aead
		}
		if print := Fingerprint(key.Secret); !slices.Contains(ring.fingerprints, print) {
			ring.fingerprints = append(ring.fingerprints, print)
		}
	}
	return ring, nil
}

// Seal encrypts plain for the place aad. The result contains everything that is needed to open
// it except the key:
//
//	version (1) | id length (1) | id | nonce | sealed data key | nonce | sealed value
//
// It fails only if the system has no randomness.
func (k *Keyring) Seal(plain []byte, aad AAD) ([]byte, error) {
	var dataKey [secretSize]byte
	if _, err := rand.Read(dataKey[:]); err != nil {
		return nil, fmt.Errorf("generate data key: %w", err)
	}
	value, err := newAEAD(dataKey[:])
	if err != nil {
		return nil, err
	}
	header := k.Header()
	place := aad.bytes(header)
	out := make([]byte, 0, len(header)+wrappedKey+nonceSize+len(plain)+tagSize)
	out = append(out, header...)
	if out, err = sealInto(out, k.keys[k.primary], dataKey[:], place); err != nil {
		return nil, err
	}
	return sealInto(out, value, plain, place)
}

// Open decrypts a value that was sealed for the same place. It returns ErrUnsealable for any
// failure.
func (k *Keyring) Open(sealed []byte, aad AAD) ([]byte, error) {
	id, ok := KeyID(sealed)
	if !ok {
		return nil, ErrUnsealable
	}
	master, ok := k.keys[id]
	if !ok {
		return nil, ErrUnsealable
	}
	headerSize := 2 + len(id)
	if len(sealed) < headerSize+wrappedKey+nonceSize+tagSize {
		return nil, ErrUnsealable
	}
	place := aad.bytes(sealed[:headerSize])
	dataKey, err := openFrom(master, sealed[headerSize:headerSize+wrappedKey], place)
	if err != nil {
		return nil, err
	}
	value, err := newAEAD(dataKey)
	if err != nil {
		return nil, ErrUnsealable
	}
	return openFrom(value, sealed[headerSize+wrappedKey:], place)
}

// Header returns the first bytes of every value that Seal returns now. A value with a different
// start was sealed under a different key, or under a different ID of this key.
func (k *Keyring) Header() []byte {
	return append([]byte{formatV1, byte(len(k.primary))}, k.primary...)
}

// Holds reports whether the ring has the key that sealed a value. If it returns false, leave the
// work to a process that has the key. It returns false for a value in an unknown format.
func (k *Keyring) Holds(sealed []byte) bool {
	id, ok := KeyID(sealed)
	_, held := k.keys[id]
	return ok && held
}

// Fingerprints returns the fingerprints of all keys, which identify the keys but reveal nothing about
// them. The fingerprint of the primary key comes first.
func (k *Keyring) Fingerprints() []string { return slices.Clone(k.fingerprints) }

// Reseal opens a value and seals it again under the primary key, for the same place. It returns the
// errors of Open and Seal.
func (k *Keyring) Reseal(sealed []byte, aad AAD) ([]byte, error) {
	plain, err := k.Open(sealed, aad)
	if err != nil {
		return nil, err
	}
	return k.Seal(plain, aad)
}

// KeyID returns the ID of the master key of a sealed value, so that values under an old key can be
// found. It returns false for a value in an unknown format.
func KeyID(sealed []byte) (string, bool) {
	if len(sealed) < 2 || sealed[0] != formatV1 || len(sealed) < 2+int(sealed[1]) {
		return "", false
	}
	return string(sealed[2 : 2+int(sealed[1])]), true
}

func newAEAD(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, fmt.Errorf("create cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("create cipher: %w", err)
	}
	return aead, nil
}

func sealInto(out []byte, aead cipher.AEAD, plain, place []byte) ([]byte, error) {
	var nonce [nonceSize]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, fmt.Errorf("generate nonce: %w", err)
	}
	return aead.Seal(append(out, nonce[:]...), nonce[:], plain, place), nil
}

func openFrom(aead cipher.AEAD, sealed, place []byte) ([]byte, error) {
	plain, err := aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], place)
	if err != nil {
		return nil, ErrUnsealable
	}
	return plain, nil
}
