package person_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// invite creates an invitation and fails the test if it isn't allowed.
func (b *bench) invite(t *testing.T, actor person.Member, email string, role person.Role) person.Invited {
	t.Helper()
	made, err := b.Invite(b.scope(t), actor, email, role)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// enter accepts an invitation as a new person.
func (b *bench) enter(t *testing.T, made person.Invited) error {
	t.Helper()
	_, err := b.Accept(t.Context(), person.Acceptance{Token: made.Token, Name: "Eve", Password: password, Client: home})
	return err
}

func TestInvitationsEndWithTheInvitersRights(t *testing.T) {
	b := setup(t)
	ctx := b.scope(t)
	mallory := b.member(t, "mallory@example.org", person.Owner)
	asOwner := b.invite(t, mallory, "m1@example.org", person.Owner)
	asAdmin := b.invite(t, mallory, "m2@example.org", person.Admin)
	asViewer := b.invite(t, mallory, "m3@example.org", person.Viewer)
	mine := b.invite(t, b.owner, "m4@example.org", person.Owner)
	if _, err := b.SetRole(ctx, b.owner, mallory.ID, person.Admin); err != nil {
		t.Fatal(err)
	}
	refused(t, "as an owner", b.enter(t, asOwner), fault.NotFound, "")
	if err := b.enter(t, asAdmin); err != nil {
		t.Errorf("an admin still invites admins: %v", err)
	}
	page, err := b.OpenInvitations(ctx, b.workspace, person.Page{Limit: 10})
	if err != nil || len(page.Data) != 2 || page.Data[0].ID != mine.ID || page.Data[1].ID != asViewer.ID || page.Data[1].InvitedBy.Email != mallory.Email {
		t.Errorf("open are %+v, %v", page, err)
	}
	if all, err := b.Invitations(ctx, b.workspace, person.Page{Limit: 10}); err != nil || len(all.Data) != 5 {
		t.Errorf("all are %+v, %v", all, err)
	}
	if _, err := b.Remove(ctx, b.owner, mallory.ID); err != nil {
		t.Fatal(err)
	}
	refused(t, "as a viewer", b.enter(t, asViewer), fault.NotFound, "")
	if err := b.enter(t, mine); err != nil {
		t.Errorf("the invitation of another member: %v", err)
	}
	revoked := func(of person.Invited) string {
		return fmt.Sprintf(`invitation.revoked %s {"role": "%s", "email": "%s"}`, of.ID, of.Role, of.Email)
	}
	if got, want := b.events(t, "invitation.revoked"), []string{revoked(asOwner), revoked(asViewer)}; !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
}

// However an invitation stayed open, the inviter's rights at the time of acceptance count.
func TestAnInvitationIsInvalidWithoutTheInvitersRights(t *testing.T) {
	b := setup(t)
	admin := b.member(t, "admin@example.org", person.Admin)
	made := b.invite(t, admin, "eve@example.org", person.Admin)
	b.exec(t, "UPDATE members SET role = 'editor' WHERE user_id = $1", admin.ID)
	refused(t, "by an editor", b.enter(t, made), fault.NotFound, "")
	b.exec(t, "DELETE FROM members WHERE user_id = $1", admin.ID)
	refused(t, "by nobody", b.enter(t, made), fault.NotFound, "")
}

func TestOnlyOwnersReplaceInvitationsOfOwners(t *testing.T) {
	b := setup(t)
	admin := b.member(t, "admin@example.org", person.Admin)
	first := b.invite(t, b.owner, "carol@example.org", person.Owner)
	_, err := b.Invite(b.scope(t), admin, "carol@example.org", person.Viewer)
	refused(t, "an admin", err, fault.Forbidden, "role_not_allowed")
	if got := b.events(t, "invitation.revoked"); len(got) != 0 {
		t.Errorf("the events are %q", got)
	}
	b.invite(t, b.owner, "carol@example.org", person.Viewer)
	refused(t, "the first", b.enter(t, first), fault.NotFound, "")
	if got := b.events(t, "invitation.revoked"); len(got) != 1 {
		t.Errorf("the events are %q", got)
	}
}

// A request carries the role that the actor had when the request arrived. What counts is the role at
// the time of the change.
func TestALostRoleAllowsNothing(t *testing.T) {
	b := setup(t)
	ctx := b.scope(t)
	was := b.member(t, "was@example.org", person.Owner)
	viewer := b.member(t, "viewer@example.org", person.Viewer)
	open := b.invite(t, b.owner, "open@example.org", person.Viewer)
	actions := map[string]func() error{
		"SetRole":          func() error { _, err := b.SetRole(ctx, was, viewer.ID, person.Editor); return err },
		"Remove":           func() error { _, err := b.Remove(ctx, was, viewer.ID); return err },
		"Invite":           func() error { _, err := b.Invite(ctx, was, "new@example.org", person.Viewer); return err },
		"RevokeInvitation": func() error { _, err := b.RevokeInvitation(ctx, was, open.ID); return err },
	}
	for name, act := range actions { // waits for the change of the role, and then uses the new role
		b.exec(t, "INSERT INTO members (workspace_id, user_id, role) VALUES ($1, $2, 'owner') ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = 'owner'", b.workspace, was.ID)
		for _, change := range []string{"UPDATE members SET role = 'editor' WHERE user_id = $1", "DELETE FROM members WHERE user_id = $1"} {
			tx, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), change, was.ID); err != nil {
				t.Fatal(err)
			}
			answer := make(chan error, 1)
			go func() { answer <- act() }()
			b.waiting(t)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-answer; change[0] == 'U' {
				refused(t, name+" as an editor", err, fault.Forbidden, "role_not_allowed")
			} else {
				refused(t, name+" as nobody", err, fault.NotFound, "")
			}
		}
	}
}

func TestAMemberWhoIsInvitedAgainKeepsTheRole(t *testing.T) {
	b := setup(t)
	made := b.invite(t, b.owner, "bob@example.org", person.Admin)
	if _, err := person.CreateOwner(t.Context(), b.pool, b.workspace, person.Account{Email: "bob@example.org", Name: "Bob", Password: password}); err != nil {
		t.Fatal(err)
	}
	if err := b.enter(t, made); err != nil {
		t.Fatal(err)
	}
	m, err := b.Find(t.Context(), person.Proof{Token: b.signIn(t, "bob@example.org", password), Client: home, WorkspaceID: &b.workspace})
	if err != nil || m.Role != person.Owner {
		t.Errorf("%+v, %v", m, err)
	}
	if got := b.events(t, "member.joined"); len(got) != 0 {
		t.Errorf("the events are %q", got)
	}
}

// The owner must not learn from an invitation that a person has an account elsewhere: the answer, the
// offer behind its link and the audit log do not depend on the account.
func TestAnInvitationRevealsNoAccount(t *testing.T) {
	b := setup(t)
	b.member(t, "ada@example.org", person.Viewer)
	b.exec(t, "DELETE FROM members WHERE user_id <> $1", b.owner.ID)
	for name, s := range map[string]*person.Service{"without e-mail": b.Service, "with e-mail": b.mailing} {
		shown := map[string]string{}
		for _, email := range []string{"ada@example.org", "new@example.org"} {
			made, err := s.Invite(b.scope(t), b.owner, email, person.Viewer)
			if err != nil {
				t.Fatal(err)
			}
			offer, err := s.LookUpInvitation(t.Context(), made.Token, home)
			if err != nil {
				t.Fatal(err)
			}
			// Only these differ between any two invitations.
			made.Invitation.ID, made.Invitation.CreatedAt, made.Invitation.ExpiresAt = uuid.Nil, timestamp.Time{}, timestamp.Time{}
			offer.ExpiresAt = timestamp.Time{}
			text, err := json.Marshal([]any{made.Invitation, made.Mailed, len(made.Token), offer})
			if err != nil {
				t.Fatal(err)
			}
			shown[email] = strings.ReplaceAll(string(text), email, "the address")
		}
		if shown["ada@example.org"] != shown["new@example.org"] {
			t.Errorf("%s: with an account %s, without %s", name, shown["ada@example.org"], shown["new@example.org"])
		}
	}
}

// An invalid request must not reveal whether an account exists, because the request doesn't use
// up the invitation.
func TestAnInvalidAcceptanceRevealsNothing(t *testing.T) {
	b := setup(t)
	b.member(t, "ada@example.org", person.Viewer)
	b.exec(t, "DELETE FROM members WHERE user_id <> $1", b.owner.ID)
	for _, email := range []string{"ada@example.org", "new@example.org"} {
		made := b.invite(t, b.owner, email, person.Viewer)
		for _, bad := range []person.Acceptance{{Name: " ", Password: password}, {Name: "Ada", Password: "too short"}} {
			bad.Token, bad.Client = made.Token, home
			_, err := b.Accept(t.Context(), bad)
			refused(t, email, err, fault.InvalidInput, "")
		}
		if err := b.enter(t, made); err != nil {
			t.Errorf("%s: %v", email, err)
		}
	}
}
