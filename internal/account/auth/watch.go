package auth

import (
	"context"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/revocation"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// watchedKey identifies a key. Clients can choose key IDs, so two workspaces may each
// have a key with the same ID.
type watchedKey struct{ WorkspaceID, ID uuid.UUID }

// watchKeys returns a Watch that cancels the streams of keys that are revoked or expired.
func watchKeys(conn postgres.DB) *revocation.Watch[watchedKey] {
	return revocation.New(ErrRevoked, func(ctx context.Context, keys []watchedKey) ([]watchedKey, error) {
		var p db.APIKeyListInactiveParams
		for _, key := range keys {
			p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, key.WorkspaceID), append(p.Ids, key.ID)
		}
		rows, err := queries.APIKeyListInactive(ctx, conn, p)
		over := make([]watchedKey, len(rows))
		for i, row := range rows {
			over[i] = watchedKey(row)
		}
		return over, err
	})
}

// UntilRevoked returns a context for a stream of the principal. It is canceled with
// ErrRevoked within 5 s after the key is revoked or expires. The caller must call stop.
func (v *Verifier) UntilRevoked(ctx context.Context, p Principal) (_ context.Context, stop context.CancelFunc) {
	return v.watched.Until(ctx, watchedKey{p.WorkspaceID, p.KeyID})
}
