package vault

import (
	"time"

	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// At is New with a clock.
func At(conn postgres.DB, ring *seal.Keyring, now func() time.Time) *Vault {
	v := New(conn, ring)
	v.now = now
	return v
}
