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

// What a password may be. The longest one costs no more than the shortest: it is
// hashed to a block first.
const (
	MinPassword = 12 // characters
	MaxPassword = 256
)

// The cost of a hash: OWASP's figures for argon2id. It stands in every hash, so
// that it can be raised.
const (
	memory  = 19 << 10 // KiB
	passes  = 2
	lanes   = 1
	saltLen = 16
	hashLen = 32
)

// How many may wait for their turn. Clients in which the person signed in before have places
// of their own, which strangers cannot take.
const (
	waitingStrangers = 64
	waitingKnown     = 16
)

// hasher bounds how much of the machine the hashing of passwords takes: half of
// its processors, and the memory that belongs to so many hashes.
type hasher struct {
	running, strangers, known chan struct{}
	dummy                     string // what no password hashes to, as far as anybody will ever know
}

func newHasher() *hasher {
	return &hasher{
		running:   make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		strangers: make(chan struct{}, waitingStrangers),
		known:     make(chan struct{}, waitingKnown),
		dummy:     written(random(saltLen), random(hashLen)),
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // crypto/rand ends the program rather than fail
	return b
}

// run waits for a turn and hashes. UNAVAILABLE if too many wait already.
func (h *hasher) run(ctx context.Context, from caller, work func()) error {
	waiting := h.strangers
	if from.known {
		waiting = h.known
	}
	select {
	case waiting <- struct{}{}:
		defer func() { <-waiting }()
	default:
		return &fault.Error{Code: fault.Unavailable, Message: "Too many people are signing in; try again in a moment.", Err: errBusy}
	}
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	work()
	return nil
}

// hash is a new password as it is stored.
func (h *hasher) hash(ctx context.Context, from caller, password string) (stored string, err error) {
	err = h.run(ctx, from, func() { stored = encode(password) })
	return stored, err
}

// matches says whether the password is the one that was stored. An empty stored
// text, for an account that does not exist, takes the same work and is false.
func (h *hasher) matches(ctx context.Context, from caller, stored, password string) (ok bool, err error) {
	known := stored != ""
	if !known {
		stored = h.dummy
	}
	err = h.run(ctx, from, func() { ok = compare(stored, password) })
	return ok && known, err
}

// encode hashes a password with a new salt.
func encode(password string) string {
	salt := random(saltLen)
	return written(salt, argon2.IDKey([]byte(password), salt, passes, memory, lanes, hashLen))
}

// written is a hash as it is stored, in the form of the reference implementation:
// $argon2id$v=19$m=...,t=...,p=...$salt$hash.
func written(salt, sum []byte) string {
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, passes, lanes, text(salt), text(sum))
}

// compare hashes a password as a stored one was hashed. What cannot be read
// matches nothing.
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
