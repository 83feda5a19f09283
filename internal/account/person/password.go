package person

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/crypto/argon2"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// The limits of a password's length. Long passwords cost no more than short ones, because
// argon2id first reduces the password to a block by hashing.
const (
	MinPassword = 12 // characters
	MaxPassword = 256
)

// The cost of a hash, as OWASP recommends for argon2id. Every hash contains its cost, so the
// cost can be raised.
const (
	memory  = 19 << 10 // KiB
	passes  = 2
	lanes   = 1
	saltLen = 16
	hashLen = 32
)

// The maximum numbers of waiting attempts. Clients on which the person signed in before have a
// separate queue, which strangers can't fill.
const (
	waitingStrangers = 64
	waitingKnown     = 16
)

// hasher bounds the resources for hashing passwords: half of the processors, and the memory of
// as many hashes.
type hasher struct {
	running, strangers, known chan struct{}
	dummy                     string // a random hash, which no known password matches
}

func newHasher() *hasher {
	return &hasher{
		running:   make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		strangers: make(chan struct{}, waitingStrangers),
		known:     make(chan struct{}, waitingKnown),
		dummy:     format(random(saltLen), random(hashLen)),
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // crypto/rand aborts the program instead of failing
	return b
}

// run waits for a free processor and calls fn. It returns UNAVAILABLE if too many are waiting.
func (h *hasher) run(ctx context.Context, from caller, fn func()) error {
	waiting := h.strangers
	if from.known {
		waiting = h.known
	}
	select {
	case waiting <- struct{}{}:
		defer func() { <-waiting }()
	default:
		return &fault.Error{Code: fault.Unavailable, Message: "Too many people are signing in at once. Try again in a few seconds.", Err: errBusy}
	}
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	fn()
	return nil
}

// hash returns the hash of a new password, in its stored form.
func (h *hasher) hash(ctx context.Context, from caller, password string) (stored string, err error) {
	err = h.run(ctx, from, func() { stored = encode(password) })
	return stored, err
}

// matches reports whether the password matches the stored hash. An empty hash, for an account
// that doesn't exist, takes the same work and never matches.
func (h *hasher) matches(ctx context.Context, from caller, stored, password string) (ok bool, err error) {
	known := stored != ""
	if !known {
		stored = h.dummy
	}
	err = h.run(ctx, from, func() { ok = compare(stored, password) })
	return ok && known, err
}

// encode returns the hash of a password with a new salt.
func encode(password string) string {
	salt := random(saltLen)
	return format(salt, argon2.IDKey([]byte(password), salt, passes, memory, lanes, hashLen))
}

// format returns the stored form of a hash, in the format of the reference implementation.
func format(salt, sum []byte) string {
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, passes, lanes, text(salt), text(sum))
}

// compare hashes a password with the parameters of a stored hash and compares both. An invalid
// stored hash matches nothing.
func compare(stored, password string) bool {
	fields := strings.Split(stored, "$")
	if len(fields) != 6 || fields[1] != "argon2id" || fields[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return false
	}
	var m, t uint32
	var p uint8
	if n, err := fmt.Sscanf(fields[3], "m=%d,t=%d,p=%d", &m, &t, &p); err != nil || n != 3 || m > 1<<20 || t < 1 || t > 16 || p < 1 {
		return false
	}
	salt, err := base64.RawStdEncoding.DecodeString(fields[4])
	if err != nil {
		return false
	}
	want, err := base64.RawStdEncoding.DecodeString(fields[5])
	if err != nil || len(want) != hashLen {
		return false
	}
	return subtle.ConstantTimeCompare(argon2.IDKey([]byte(password), salt, t, m, p, hashLen), want) == 1
}
