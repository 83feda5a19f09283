package vault

import (
	"time"

	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// At returns a vault with the given clock.
func At(conn postgres.DB, ring *seal.Keyring, now func() time.Time) *Vault {
	v := New(conn, ring)
	v.now = now
	return v
}
