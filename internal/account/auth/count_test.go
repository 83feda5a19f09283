package auth_test

import (
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// A workspace has at most 100 active keys, and as many more in the overlap of a rotation. Revoked and
// expired keys do not count, and a rotation without an overlap is always possible.
func TestTheKeysOfAWorkspaceAreLimited(t *testing.T) {
	b := setup(t, auth.Options{})
	fill := func(keys int, state string) {
		t.Helper()
		if _, err := b.pool.Exec(t.Context(), `INSERT INTO api_keys (workspace_id, id, label, key_hash, key_hint, public_key, `+state+`)
			SELECT $1, gen_random_uuid(), 'x', sha256(gen_random_uuid()::text::bytea), 'x', sha256('x'), now() FROM generate_series(1, $2)`, b.workspace, keys); err != nil {
			t.Fatal(err)
		}
	}
	create := func() error {
		_, err := b.keys.Create(t.Context(), auth.CreateParams{WorkspaceID: b.workspace, Label: "x"})
		return err
	}
	expect := func(what string, err error, refused bool) {
		t.Helper()
		if (err != nil) != refused || refused && (fault.CodeOf(err) != fault.Conflict || err.(*fault.Error).Reason != "too_many_keys") {
			t.Errorf("%s: %v", what, err)
		}
	}
	fill(200, "revoked_at")
	fill(200, "expires_at")
	fill(98, "created_at") // and one of the set-up
	expect("the hundredth", create(), false)
	expect("one more", create(), true)
	made, err := b.rotate(t, b.key.KeyID, time.Hour)
	expect("a rotation", err, false)
	fill(99, "created_at")
	_, err = b.rotate(t, made.KeyID, time.Hour)
	expect("a rotation with an overlap beyond 200 keys", err, true)
	_, err = b.rotate(t, made.KeyID, 0)
	expect("a rotation without an overlap", err, false)
}
