package person_test

import (
	"testing"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// A workspace has at most 1,000 open invitations. Another one to the same address replaces one.
func TestTheOpenInvitationsOfAWorkspaceAreLimited(t *testing.T) {
	b := setup(t)
	ctx := b.scope(t)
	if _, err := b.Invite(ctx, b.owner, "ada@example.org", person.Editor); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `INSERT INTO invitations (workspace_id, id, email, role, token_hash, expires_at, revoked_at)
		SELECT $1, gen_random_uuid(), n || '@example.org', 'viewer', sha256(n::text::bytea), now() + interval '1 day', CASE WHEN n > 999 THEN now() END FROM generate_series(1, 2000) AS n`, b.workspace)
	_, err := b.Invite(ctx, b.owner, "lin@example.org", person.Editor)
	refused(t, "one more", err, fault.Conflict, "too_many_invitations")
	if _, err := b.Invite(ctx, b.owner, "ada@example.org", person.Viewer); err != nil {
		t.Errorf("a replacement: %v", err)
	}
}
