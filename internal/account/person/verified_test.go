package person_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	victim  = "victim@example.org"
	another = "another long password"
)

// elsewhere creates a second workspace and its owner.
func (b *bench) elsewhere(t *testing.T, email string) (context.Context, person.Member) {
	t.Helper()
	id, err := workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "Other " + email, Plan: plan.Starter})
	if err != nil {
		t.Fatal(err)
	}
	made, err := person.CreateOwner(t.Context(), b.pool, id, person.Account{Email: email, Name: "Mallory", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	return postgres.Scope(t.Context(), id), person.Member{Person: made, WorkspaceID: id, Role: person.Owner}
}

// squat creates an account in another workspace for the address of somebody else.
func (b *bench) squat(t *testing.T) person.Session {
	t.Helper()
	scope, mallory := b.elsewhere(t, "mallory@example.org")
	made, err := b.Invite(scope, mallory, victim, person.Viewer)
	if err != nil {
		t.Fatal(err)
	}
	session, err := b.Accept(t.Context(), person.Acceptance{Token: made.Token, Name: "Not the victim", Password: password, Client: home})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func (b *bench) roleOf(t *testing.T, token string) person.Role {
	t.Helper()
	m, err := b.Find(t.Context(), person.Proof{Token: token, Client: home, WorkspaceID: &b.workspace})
	if fault.CodeOf(err) == fault.NotFound {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Role
}

func TestUnverifiedAccountBelongsToOneWorkspace(t *testing.T) {
	b := setup(t)
	squatter := b.squat(t)
	made := b.invite(t, b.owner, victim, person.Admin)
	_, err := b.Accept(t.Context(), person.Acceptance{Token: made.Token, Name: "x", Password: password, Client: home})
	refused(t, "with its password", err, fault.Conflict, "email_not_verified")
	err = b.AcceptSignedIn(t.Context(), made.Token, squatter.Person, home)
	refused(t, "in its session", err, fault.Conflict, "email_not_verified")
	if role := b.roleOf(t, squatter.Token); role != "" {
		t.Errorf("the account is %s", role)
	}
	if _, err := b.LookUpInvitation(t.Context(), made.Token, home); err != nil {
		t.Errorf("the invitation is used up: %v", err)
	}
}

func TestUnverifiedAccountReturnsToItsOnlyWorkspace(t *testing.T) {
	b := setup(t)
	ada := b.member(t, "ada@example.org", person.Viewer)
	if _, err := b.Remove(b.scope(t), b.owner, ada.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.enter(t, b.invite(t, b.owner, ada.Email, person.Editor)); err != nil {
		t.Error(err)
	}
}

func TestUnverifiedAccountJoinsOneOfManyWorkspacesAtOnce(t *testing.T) {
	b := setup(t)
	ada := b.member(t, "ada@example.org", person.Viewer)
	if _, err := b.Remove(b.scope(t), b.owner, ada.ID); err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for i := range 6 {
		scope, by := b.elsewhere(t, fmt.Sprintf("m%d@example.org", i))
		made, err := b.Invite(scope, by, ada.Email, person.Viewer)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, made.Token)
	}
	var group sync.WaitGroup
	var joined atomic.Int32
	for _, token := range tokens {
		group.Go(func() {
			if err := b.AcceptSignedIn(t.Context(), token, ada.Person, home); err == nil {
				joined.Add(1)
			} else {
				refused(t, "another workspace", err, fault.Conflict, "email_not_verified")
			}
		})
	}
	group.Wait()
	if joined.Load() != 1 {
		t.Errorf("it joined %d workspaces", joined.Load())
	}
}

func TestVerifiedAccountJoinsInItsSession(t *testing.T) {
	b := setup(t)
	scope, by := b.elsewhere(t, "mallory@example.org")
	made, err := b.Invite(scope, by, b.owner.Email, person.Editor)
	if err != nil {
		t.Fatal(err)
	}
	stranger := b.member(t, "ada@example.org", person.Viewer)
	refused(t, "another person", b.AcceptSignedIn(t.Context(), made.Token, stranger.Person, home), fault.Forbidden, "other_address")
	if err := b.AcceptSignedIn(t.Context(), made.Token, b.owner.Person, home); err != nil {
		t.Fatal(err)
	}
	m, err := b.Find(t.Context(), person.Proof{Token: b.signIn(t, b.owner.Email, password), Client: home, WorkspaceID: &by.WorkspaceID})
	if err != nil || m.Role != person.Editor {
		t.Errorf("the role is %q, %v", m.Role, err)
	}
	refused(t, "again", b.AcceptSignedIn(t.Context(), made.Token, b.owner.Person, home), fault.NotFound, "")
}

func TestExistingAccountIsMadeAnOwnerOnlyOnRequest(t *testing.T) {
	b := setup(t)
	squatter := b.squat(t)
	create := func(a person.Account) error {
		_, err := person.CreateOwner(t.Context(), b.pool, b.workspace, a)
		return err
	}
	refused(t, "a known address", create(person.Account{Email: victim, Name: "Victim", Password: another}), fault.Conflict, "")
	refused(t, "an unverified one without a password", create(person.Account{Email: victim, Existing: true}), fault.InvalidInput, "")
	refused(t, "an unknown one", create(person.Account{Email: "nobody@example.org", Existing: true, Password: another}), fault.NotFound, "")
	if role := b.roleOf(t, squatter.Token); role != "" {
		t.Fatalf("the account is %s", role)
	}
	if err := create(person.Account{Email: victim, Password: another, Existing: true}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Find(t.Context(), person.Proof{Token: squatter.Token, Client: home})
	refused(t, "the session from before", err, fault.Unauthorized, "invalid_session")
	_, err = b.SignIn(t.Context(), person.Credentials{Email: victim, Password: password, Client: home})
	refused(t, "the password from before", err, fault.Unauthorized, "invalid_credentials")
	if role := b.roleOf(t, b.signIn(t, victim, another)); role != person.Owner {
		t.Errorf("the role is %q", role)
	}
}

// link returns the token of the link in the next mail.
func (b *bench) link(t *testing.T, to string) string {
	t.Helper()
	m := b.mail.Next(t)
	found := regexp.MustCompile(`https://weft\.example\.org/settings/invitations#token=(\S+)`).FindStringSubmatch(m.Text)
	if m.To != to || found == nil {
		t.Fatalf("to %s: %s", m.To, m.Text)
	}
	return found[1]
}

func TestMailedLinkProvesTheAddress(t *testing.T) {
	b := setup(t)
	made, err := b.mailing.Invite(b.scope(t), b.owner, "ada@example.org", person.Editor)
	if err != nil || !made.Mailed {
		t.Fatalf("mailed %v, %v", made.Mailed, err)
	}
	token := b.link(t, "ada@example.org")
	if token == made.Token {
		t.Error("the inviter sees the token that was mailed")
	}
	session, err := b.Accept(t.Context(), person.Acceptance{Token: token, Name: "Ada", Password: password, Client: home})
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.Find(t.Context(), person.Proof{Token: session.Token, Client: home})
	if err != nil || !m.Verified {
		t.Errorf("verified %v, %v", m.Verified, err)
	}
	_, err = b.LookUpInvitation(t.Context(), made.Token, home)
	refused(t, "the other link", err, fault.NotFound, "")
}

func TestLinkOfTheInviterProvesNothing(t *testing.T) {
	b := setup(t)
	made, err := b.mailing.Invite(b.scope(t), b.owner, "ada@example.org", person.Editor)
	if err != nil {
		t.Fatal(err)
	}
	session, err := b.Accept(t.Context(), person.Acceptance{Token: made.Token, Name: "Ada", Password: password, Client: home})
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.Find(t.Context(), person.Proof{Token: session.Token, Client: home})
	if err != nil || m.Verified {
		t.Errorf("verified %v, %v", m.Verified, err)
	}
}

func TestMailedLinkTakesOverAnUnverifiedAccount(t *testing.T) {
	b := setup(t)
	squatter := b.squat(t)
	if _, err := b.mailing.Invite(b.scope(t), b.owner, victim, person.Admin); err != nil {
		t.Fatal(err)
	}
	token := b.link(t, victim)
	session, err := b.Accept(t.Context(), person.Acceptance{Token: token, Name: "Victim", Password: another, Client: home})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := b.Find(t.Context(), person.Proof{Token: session.Token, Client: home}); err != nil || m.Name != "Victim" {
		t.Errorf("the name is %q, %v", m.Name, err)
	}
	if role := b.roleOf(t, session.Token); role != person.Admin {
		t.Errorf("the role is %q", role)
	}
	if got := b.workspaces(t, session.Person); !slices.Equal(got, []uuid.UUID{b.workspace}) {
		t.Errorf("the account belongs to %v, want only the workspace that it joined", got)
	}
	_, err = b.Find(t.Context(), person.Proof{Token: squatter.Token, Client: home})
	refused(t, "the session from before", err, fault.Unauthorized, "invalid_session")
	_, err = b.SignIn(t.Context(), person.Credentials{Email: victim, Password: password, Client: home})
	refused(t, "the password from before", err, fault.Unauthorized, "invalid_credentials")
	var recorded []string
	rows, err := b.pool.Query(t.Context(), "SELECT action FROM audit_events WHERE subject_id = $1 ORDER BY id", session.Person.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var action string
		if err := rows.Scan(&action); err != nil {
			t.Fatal(err)
		}
		recorded = append(recorded, action)
	}
	if want := []string{"member.joined", "password.changed", "email.verified", "member.removed", "member.joined"}; !slices.Equal(recorded, want) {
		t.Errorf("the audit logs have %q, want %q", recorded, want)
	}
}

// workspaces returns the workspaces of a person.
func (b *bench) workspaces(t *testing.T, of person.Person) (ids []uuid.UUID) {
	t.Helper()
	current, err := b.Current(t.Context(), of, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range current.Workspaces {
		ids = append(ids, w.ID)
	}
	return ids
}

// The only owner stays an owner, because a workspace without an owner can't be managed. The
// invitations of an account that loses its membership are revoked.
func TestReclaimedAccountLosesItsMembershipsUnlessItIsTheOnlyOwner(t *testing.T) {
	for alone, want := range map[bool]int{false: 1, true: 2} {
		b := setup(t)
		scope, mallory := b.elsewhere(t, "mallory@example.org")
		made, err := b.Invite(scope, mallory, victim, person.Owner)
		if err != nil {
			t.Fatal(err)
		}
		squatter, err := b.Accept(t.Context(), person.Acceptance{Token: made.Token, Name: "x", Password: password, Client: home})
		if err != nil {
			t.Fatal(err)
		}
		as := person.Member{Person: squatter.Person, WorkspaceID: mallory.WorkspaceID, Role: person.Owner}
		open, err := b.Invite(scope, as, "carol@example.org", person.Viewer)
		if err != nil {
			t.Fatal(err)
		}
		if alone {
			if _, err := b.Remove(scope, as, mallory.ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.mailing.Invite(b.scope(t), b.owner, victim, person.Viewer); err != nil {
			t.Fatal(err)
		}
		session, err := b.Accept(t.Context(), person.Acceptance{Token: b.link(t, victim), Name: "Victim", Password: another, Client: home})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.workspaces(t, session.Person); len(got) != want {
			t.Errorf("only owner %v: the account belongs to %d workspaces, want %d", alone, len(got), want)
		}
		if _, err := b.LookUpInvitation(t.Context(), open.Token, home); (err == nil) != alone {
			t.Errorf("only owner %v: the account's invitation: %v", alone, err)
		}
	}
}

func TestMailedLinkDoesNotReplaceThePasswordOfAVerifiedAccount(t *testing.T) {
	b := setup(t)
	scope, by := b.elsewhere(t, "mallory@example.org")
	if _, err := b.mailing.Invite(scope, by, b.owner.Email, person.Editor); err != nil {
		t.Fatal(err)
	}
	token := b.link(t, b.owner.Email)
	_, err := b.Accept(t.Context(), person.Acceptance{Token: token, Name: "Eve", Password: another, Client: home})
	refused(t, "another password", err, fault.Unauthorized, "invalid_credentials")
	b.signIn(t, b.owner.Email, password)
}

func TestMailedLinkDoesNotEnableADisabledAccount(t *testing.T) {
	b := setup(t)
	b.squat(t)
	b.exec(t, "UPDATE users SET disabled_at = now() WHERE email = $1", victim)
	if _, err := b.mailing.Invite(b.scope(t), b.owner, victim, person.Admin); err != nil {
		t.Fatal(err)
	}
	_, err := b.Accept(t.Context(), person.Acceptance{Token: b.link(t, victim), Name: "Victim", Password: another, Client: home})
	refused(t, "a disabled account", err, fault.Unauthorized, "invalid_credentials")
}

func TestInvitationStaysValidIfTheMailIsRejected(t *testing.T) {
	b := setup(t)
	b.mail.Refuse()
	made, err := b.mailing.Invite(b.scope(t), b.owner, "ada@example.org", person.Editor)
	if err != nil || made.Mailed {
		t.Fatalf("mailed %v, %v", made.Mailed, err)
	}
	if err := b.enter(t, made); err != nil {
		t.Error(err)
	}
}

func TestMailsOfAWorkspaceAreLimited(t *testing.T) {
	b := setup(t)
	mailed := 0
	for i := range 25 {
		made, err := b.mailing.Invite(b.scope(t), b.owner, fmt.Sprintf("u%d@example.org", i), person.Viewer)
		if err != nil {
			t.Fatal(err)
		}
		if made.Mailed {
			mailed++
		}
	}
	if mailed != 20 || b.mail.Received() != 20 {
		t.Errorf("%d were mailed, %d arrived", mailed, b.mail.Received())
	}
}

func TestMailContainsNoFreeTextOfTheInviter(t *testing.T) {
	b := setup(t)
	b.exec(t, "UPDATE users SET name = 'Win a prize at https://evil.example' WHERE id = $1", b.owner.ID)
	if _, err := b.mailing.Invite(b.scope(t), b.owner, "ada@example.org", person.Editor); err != nil {
		t.Fatal(err)
	}
	if m := b.mail.Next(t); strings.Contains(m.Text+m.Subject, "evil.example") {
		t.Errorf("%s\n%s", m.Subject, m.Text)
	}
}

func TestOperatorVerifiesAnAddressWithANewPassword(t *testing.T) {
	b := setup(t)
	b.squat(t)
	if _, err := person.SetPassword(t.Context(), b.pool, victim, another, true); err != nil {
		t.Fatal(err)
	}
	made := b.invite(t, b.owner, victim, person.Editor)
	if _, err := b.Accept(t.Context(), person.Acceptance{Token: made.Token, Name: "x", Password: another, Client: home}); err != nil {
		t.Error(err)
	}
}
