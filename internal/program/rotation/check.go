package rotation

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// checkAt is the place of the value by which the master key is checked.
var checkAt = seal.AAD{Table: "installation", Row: "one", Field: "key_check"}

// errWrongKey is the error for callers of a process with a wrong master key. No other process could
// open the values that this process would seal.
var errWrongKey = &fault.Error{
	Code: fault.Unavailable, Reason: "master_key", RetryAfter: time.Minute,
	Message: "This process does not have the master key of the installation. It serves reads and accepts nothing.",
}

// KeyMatches reports whether the ring opens the installation's check value, which is sealed under its
// master key. It reports true if no process has written that value yet.
func KeyMatches(ctx context.Context, conn postgres.DB, ring *seal.Keyring) (bool, error) {
	sealed, err := keyCheck(ctx, conn)
	return err == nil && Opens(ring, sealed), err
}

// keyCheck returns the check value, or nil if no process has written it yet.
func keyCheck(ctx context.Context, conn postgres.DB) ([]byte, error) {
	sealed, err := db.New().InstallationGetKeyCheck(ctx, conn)
	if err != nil && !postgres.NotFound(err) {
		return nil, fmt.Errorf("read the check value of the master key: %w", err)
	}
	return sealed, nil
}

// Opens reports whether the ring opens the check value, or the value is missing.
func Opens(ring *seal.Keyring, sealed []byte) bool {
	if sealed == nil {
		return true
	}
	_, wrong := ring.Open(sealed, checkAt)
	return wrong == nil
}

// initKeyCheck writes the missing check value under the ring's primary key, and returns the stored
// value, which another process may have written first. It writes nothing if the ring lacks keys of
// stored values, because the primary key may then be a wrong one.
func initKeyCheck(ctx context.Context, conn postgres.DB, ring *seal.Keyring) ([]byte, error) {
	missing, err := MissingKeys(ctx, conn, ring)
	if err != nil || len(missing) > 0 {
		return nil, err
	}
	sealed, err := ring.Seal([]byte("the master key of this installation"), checkAt)
	if err != nil {
		return nil, err
	}
	if err := db.New().InstallationSetKeyCheck(ctx, conn, sealed); err != nil {
		return nil, fmt.Errorf("write the check value of the master key: %w", err)
	}
	return keyCheck(ctx, conn)
}

// updateKeyCheck seals the check value under the ring's primary key.
func updateKeyCheck(ctx context.Context, conn postgres.DB, ring *seal.Keyring) error {
	sealed, err := ring.Seal([]byte("the master key of this installation"), checkAt)
	if err != nil {
		return err
	}
	if err := db.New().InstallationReplaceKeyCheck(ctx, conn, sealed); err != nil {
		return fmt.Errorf("write the check value of the master key: %w", err)
	}
	return nil
}

// Check returns an UNAVAILABLE error with the reason `master_key` if the process lacks the master key
// of the installation. A nil Holder returns nil.
func (h *Holder) Check() error {
	if h != nil && h.wrong.Load() {
		return errWrongKey
	}
	return nil
}

// checkKey checks the ring against the installation. If the database does not respond, the last
// result is kept.
func (h *Holder) checkKey(ctx context.Context) error {
	sealed, err := keyCheck(ctx, h.conn)
	if err == nil && sealed == nil {
		sealed, err = initKeyCheck(ctx, h.conn, h.ring)
	}
	if err != nil {
		return err
	}
	matches := Opens(h.ring, sealed)
	if was := h.wrong.Swap(!matches); was == matches {
		if matches {
			h.log.InfoContext(ctx, "the master key matches the installation again")
		} else {
			h.log.ErrorContext(ctx, "wrong master key for this installation: this process accepts and executes nothing. Restart it with the correct key in WEFT_MASTER_KEY or WEFT_MASTER_KEYS_OLD; if that key is lost, run weft keys rotate-master",
				"held", h.ring.Fingerprints())
		}
	}
	return nil
}
