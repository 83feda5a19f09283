package person_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
)

func TestRolesReachTheRolesBelowThem(t *testing.T) {
	for i, have := range person.Roles() {
		for j, needed := range person.Roles() {
			if have.Reaches(needed) != (i <= j) {
				t.Errorf("%s reaches %s: %t", have, needed, i > j)
			}
		}
		if have.Reaches("king") || person.Role("").Reaches(have) || person.Role("king").Reaches(have) {
			t.Errorf("%s and roles that do not exist", have)
		}
	}
}

func TestOnlyOwnersMakeChangeAndRemoveOwners(t *testing.T) {
	b := setup(t)
	ctx := b.scope(t)
	admin := b.member(t, "admin@example.org", person.Admin)
	viewer := b.member(t, "viewer@example.org", person.Viewer)
	_, err := b.SetRole(ctx, admin, viewer.ID, person.Owner)
	refused(t, "an admin makes an owner", err, fault.Forbidden, "role_not_allowed")
	_, err = b.SetRole(ctx, admin, b.owner.ID, person.Viewer)
	refused(t, "an admin changes an owner", err, fault.Forbidden, "role_not_allowed")
	_, err = b.Remove(ctx, admin, b.owner.ID)
	refused(t, "an admin removes an owner", err, fault.Forbidden, "role_not_allowed")
	_, err = b.Invite(ctx, admin, "new@example.org", person.Owner)
	refused(t, "an admin invites an owner", err, fault.Forbidden, "role_not_allowed")
	_, err = b.Remove(ctx, b.owner, b.owner.ID)
	refused(t, "the last owner goes", err, fault.Conflict, "last_owner")
	_, err = b.SetRole(ctx, b.owner, b.owner.ID, person.Admin)
	refused(t, "the last owner steps down", err, fault.Conflict, "last_owner")
	if m, err := b.SetRole(ctx, b.owner, viewer.ID, person.Owner); err != nil || m.Role != "owner" {
		t.Fatalf("%+v, %v", m, err)
	}
	if m, err := b.Remove(ctx, b.owner, b.owner.ID); err != nil || m.UserID != b.owner.ID {
		t.Errorf("removing one of two owners: %+v, %v", m, err)
	}
	_, err = b.Remove(ctx, viewer, uuid.Max)
	refused(t, "nobody", err, fault.NotFound, "")
}

func TestTwoOwnersWhoRemoveEachOtherLeaveOne(t *testing.T) {
	b := setup(t)
	for range 10 {
		other := b.member(t, "other@example.org", person.Owner)
		other.Role = person.Owner
		var group sync.WaitGroup
		var refusals atomic.Int32
		for _, pair := range [][2]person.Member{{b.owner, other}, {other, b.owner}} {
			group.Go(func() {
				if _, err := b.Remove(b.scope(t), pair[0], pair[1].ID); err != nil {
					refused(t, "who was just removed", err, fault.NotFound, "")
					refusals.Add(1)
				}
			})
		}
		group.Wait()
		var owners int
		if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM members WHERE role = 'owner'").Scan(&owners); err != nil || owners != 1 || refusals.Load() != 1 {
			t.Fatalf("%d owners are left, %d refusals, %v", owners, refusals.Load(), err)
		}
		b.exec(t, "DELETE FROM members WHERE user_id <> $1", b.owner.ID)
		b.exec(t, "INSERT INTO members (workspace_id, user_id, role) VALUES ($1, $2, 'owner') ON CONFLICT DO NOTHING", b.workspace, b.owner.ID)
	}
}

func TestAnInvitationWorksOnce(t *testing.T) {
	b := setup(t)
	ctx := b.scope(t)
	made, err := b.Invite(ctx, b.owner, "Ada@Example.org", person.Editor)
	if err != nil {
		t.Fatal(err)
	}
	accept := func(token string) error {
		_, err := b.Accept(t.Context(), person.Acceptance{Token: token, Name: "Ada", Password: password, Client: home})
		return err
	}
	var group sync.WaitGroup
	var joined atomic.Int32
	for range 8 {
		group.Go(func() {
			switch err := accept(made.Token); {
			case err == nil:
				joined.Add(1)
			case fault.CodeOf(err) != fault.NotFound && fault.CodeOf(err) != fault.Unauthorized:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if joined.Load() != 1 {
		t.Errorf("%d joined", joined.Load())
	}
	_, err = b.Invite(ctx, b.owner, "ada@example.org", person.Viewer)
	refused(t, "a member already", err, fault.Conflict, "already_member")
	_, err = b.RevokeInvitation(ctx, b.owner, made.ID)
	refused(t, "revoking what was accepted", err, fault.Conflict, "invitation_accepted")

	over, err := b.Invite(ctx, b.owner, "late@example.org", person.Viewer)
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, "UPDATE invitations SET expires_at = now() WHERE id = $1", over.ID)
	refused(t, "an expired invitation", accept(over.Token), fault.NotFound, "")
	_, err = b.RevokeInvitation(ctx, b.owner, uuid.Max)
	refused(t, "revoking an unknown one", err, fault.NotFound, "")
}

func TestConcurrentInvitationsToOneAddressLeaveOneOpen(t *testing.T) {
	b := setup(t)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			if _, err := b.Invite(b.scope(t), b.owner, "ada@example.org", person.Editor); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	var open int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM invitations WHERE revoked_at IS NULL").Scan(&open); err != nil || open != 1 {
		t.Errorf("%d are open, %v", open, err)
	}
}

func TestMT02MembersAreVisibleOnlyWithinTheScope(t *testing.T) {
	b := setup(t)
	if page, err := b.Members(t.Context(), b.workspace, person.Page{Limit: 10}); err != nil || len(page.Data) != 0 {
		t.Errorf("without a scope: %d members, %v", len(page.Data), err)
	}
	if page, err := b.Members(b.scope(t), b.workspace, person.Page{Limit: 10}); err != nil || len(page.Data) != 1 {
		t.Errorf("with it: %d members, %v", len(page.Data), err)
	}
}

func TestRepeatingAnInvitationChangesNothing(t *testing.T) {
	b := setup(t)
	ctx, id := b.scope(t), uuid.Must(uuid.NewV7())
	made, err := b.InviteAs(ctx, b.owner, id, "ada@example.org", person.Editor)
	if err != nil || made.ID != id {
		t.Fatalf("%v, %v", made, err)
	}
	_, err = b.InviteAs(ctx, b.owner, id, "ada@example.org", person.Editor)
	refused(t, "again", err, fault.Conflict, "already_made")
	offer, err := b.LookUpInvitation(t.Context(), made.Token, home)
	if err != nil || offer.Workspace != "Acme" || offer.Email != "ada@example.org" || offer.Role != person.Editor || offer.By != (api.User{ID: b.owner.ID, Email: b.owner.Email, Name: b.owner.Name}) {
		t.Errorf("%+v, %v", offer, err)
	}
	if _, err := b.RevokeInvitation(ctx, b.owner, id); err != nil {
		t.Fatal(err)
	}
	for range 20 { // the number of failures that are allowed
		_, err = b.LookUpInvitation(t.Context(), made.Token, home)
		refused(t, "a revoked invitation", err, fault.NotFound, "")
	}
	_, err = b.LookUpInvitation(t.Context(), made.Token, home)
	refused(t, "too many", err, fault.RateLimited, "sign_in_attempts")
}
