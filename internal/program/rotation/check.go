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

// checkAt is where the value belongs that the installation's master key opens.
var checkAt = seal.AAD{Table: "installation", Row: "one", Field: "key_check"}

// errWrongKey is what callers get from a process with a wrong master key. What it sealed
// could be opened by no other process.
var errWrongKey = &fault.Error{
	Code: fault.Unavailable, Reason: "master_key", RetryAfter: time.Minute,
	Message: "This process does not have the master key of the installation: it can be read, and nothing is accepted.",
}

// RightKey reports whether the ring opens what is sealed under the master key of the
// installation. Before a process has written the value to check, it reports true.
func RightKey(ctx context.Context, conn postgres.DB, ring *seal.Keyring) (bool, error) {
	sealed, err := db.New().InstallationGetKeyCheck(ctx, conn)
	if postgres.NotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the value to check the master key by: %w", err)
	}
	if sealed == nil {
		return true, nil
	}
	_, wrong := ring.Open(sealed, checkAt)
	return wrong == nil, nil
}

// enter writes the value to check by under the ring's primary key, unless there is one.
// A ring that lacks keys of what is stored may be a wrong one and writes none.
func enter(ctx context.Context, conn postgres.DB, ring *seal.Keyring) error {
	present, err := db.New().InstallationGetKeyCheck(ctx, conn)
	if postgres.NotFound(err) || err == nil && present != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the value to check the master key by: %w", err)
	}
	unheld, err := Unheld(ctx, conn, ring)
	if err != nil || len(unheld) > 0 {
		return err
	}
	sealed, err := ring.Seal([]byte("the master key of this installation"), checkAt)
	if err != nil {
		return err
	}
	return db.New().InstallationSetKeyCheck(ctx, conn, sealed)
}

// renew seals the value to check by under the ring's primary key.
func renew(ctx context.Context, conn postgres.DB, ring *seal.Keyring) error {
	sealed, err := ring.Seal([]byte("the master key of this installation"), checkAt)
	if err != nil {
		return err
	}
	if err := db.New().InstallationReplaceKeyCheck(ctx, conn, sealed); err != nil {
		return fmt.Errorf("seal the value to check the master key by: %w", err)
	}
	return nil
}

// Check returns an UNAVAILABLE error with the reason `master_key` if the process does not
// have the master key of the installation. A nil Holder returns nil.
func (h *Holder) Check() error {
	if h != nil && h.wrong.Load() {
		return errWrongKey
	}
	return nil
}

// look checks the key. While the database does not answer, what was known stays.
func (h *Holder) look(ctx context.Context) error {
	if err := enter(ctx, h.conn, h.ring); err != nil {
		return err
	}
	right, err := RightKey(ctx, h.conn, h.ring)
	if err != nil {
		return err
	}
	if was := h.wrong.Swap(!right); was == right {
		if right {
			h.log.InfoContext(ctx, "the master key is that of the installation again")
		} else {
			h.log.ErrorContext(ctx, "THE MASTER KEY IS NOT THAT OF THE INSTALLATION: this process accepts and executes nothing. Start it with the right WEFT_MASTER_KEY, or name that one in WEFT_MASTER_KEYS_OLD; if the key is lost for good, run weft keys rotate-master",
				"held", h.ring.Fingerprints())
		}
	}
	return nil
}
