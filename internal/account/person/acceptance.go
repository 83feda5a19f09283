package person

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/throttle"
)

// Acceptance is the request to accept an invitation.
type Acceptance struct {
	Token, Name, Password string
	Client                netip.Addr
}

func noInvitation() error {
	return fault.New(fault.NotFound, "This invitation does not exist, was already used, or is no longer valid. Ask for a new one.")
}

func errUnverified() error {
	return conflict("email_not_verified", "The e-mail address of this account is not verified, so the account belongs to one workspace only. "+
		"Open the link that was sent to the address by e-mail, if there is one, or ask the operator of the service to verify it.")
}

// Offer is the content of an invitation, for the person who opens its link.
type Offer struct {
	WorkspaceID      uuid.UUID
	Workspace, Email string
	Role             Role
	By               api.User
	ExpiresAt        timestamp.Time
	Mailed           bool // the token was sent to the address only
}

// LookUpInvitation returns the invitation of a token. It returns NOT_FOUND for a token that
// is unknown or no longer valid, and RATE_LIMITED after too many look-ups.
func (s *Service) LookUpInvitation(ctx context.Context, token string, from netip.Addr) (Offer, error) {
	row, err := s.findInvitation(ctx, token, from)
	if err != nil {
		return Offer{}, err
	}
	if row.InvitedBy == nil || row.ByEmail == nil || row.ByName == nil {
		return Offer{}, noInvitation()
	}
	return Offer{
		WorkspaceID: row.WorkspaceID, Workspace: row.WorkspaceName, Email: row.Email, Role: Role(row.Role), ExpiresAt: timestamp.Of(row.ExpiresAt),
		By: api.User{ID: *row.InvitedBy, Email: *row.ByEmail, Name: *row.ByName}, Mailed: row.Mailed,
	}, nil
}

// Accept makes the holder of an invitation's token a member, and signs them in. A new account gets
// the name and the password. An existing account must have this password, unless the token was
// mailed and the address is unverified: then the person reclaims the account. The name and the
// password replace the old ones, and the old sessions and memberships end.
//
// It returns INVALID_INPUT for an invalid name or password, NOT_FOUND for a token that is
// unknown or no longer valid, CONFLICT for an unverified account that belongs to another
// workspace, and otherwise the errors of SignIn. An existing member keeps the role.
func (s *Service) Accept(ctx context.Context, a Acceptance) (Session, error) {
	if err := checkName(a.Name); err != nil {
		return Session{}, err
	}
	if err := checkPassword(a.Password); err != nil {
		return Session{}, err
	}
	invited, err := s.findInvitation(ctx, a.Token, a.Client)
	if err != nil {
		return Session{}, err
	}
	j, err := s.identify(ctx, invited, a)
	if err != nil {
		return Session{}, err
	}
	var session Session
	err = s.join(ctx, invited, j, func(tx pgx.Tx) (err error) {
		session, err = startSession(ctx, tx, j.proven)
		return err
	})
	session.Device = s.newDevice(invited.Email)
	return session, err
}

// AcceptSignedIn makes the person of a session a member, without a password. It returns
// FORBIDDEN if the invitation is for another address, and otherwise the errors of Accept.
func (s *Service) AcceptSignedIn(ctx context.Context, token string, by Person, client netip.Addr) error {
	invited, err := s.findInvitation(ctx, token, client)
	if err != nil {
		return err
	}
	if invited.Email != by.Email {
		return &fault.Error{
			Code: fault.Forbidden, Reason: "other_address",
			Message: fmt.Sprintf("The invitation is for %s, but you are signed in as %s.", invited.Email, by.Email),
		}
	}
	return s.join(ctx, invited, joiner{proven: proven{Person: by}}, func(pgx.Tx) error { return nil })
}

// joiner is the person who accepts an invitation.
type joiner struct {
	proven
	isNew  bool
	claims bool // takes over an unverified account with the mailed token; passwordHash replaces its password
}

// identify finds or prepares the account that accepts an invitation.
func (s *Service) identify(ctx context.Context, invited db.InvitationGetByTokenRow, a Acceptance) (j joiner, err error) {
	user, err := queries.UserGetByEmail(ctx, s.system, invited.Email)
	j.isNew = postgres.NotFound(err)
	if err != nil && !j.isNew {
		return j, fmt.Errorf("look up user: %w", err)
	}
	j.claims = !j.isNew && invited.Mailed && user.VerifiedAt == nil && user.DisabledAt == nil
	if j.isNew || j.claims {
		return s.prepareAccount(ctx, j, user, invited.Email, a)
	}
	from := s.throttle.identify(a.Client, "", invited.Email)
	err = s.attempt(from, invited.Email, func() (ok bool, err error) {
		j.proven, ok, err = s.prove(ctx, from, invited.Email, a.Password)
		return ok, err
	})
	if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Code == fault.Unauthorized {
		failure.Message = "An account with this e-mail address exists, and it has another password. If the account is not yours, ask the operator of the service for help."
	}
	return j, err
}

// prepareAccount hashes the password of an account that is created or claimed.
func (s *Service) prepareAccount(ctx context.Context, j joiner, user db.UserGetByEmailRow, email string, a Acceptance) (_ joiner, err error) {
	j.Person = Person{ID: user.ID, Email: email, Name: strings.TrimSpace(a.Name)}
	if j.isNew {
		if j.ID, err = newID(); err != nil {
			return j, err
		}
	}
	from := s.throttle.identify(a.Client, "", email)
	err = s.attempt(from, email, func() (_ bool, err error) {
		j.passwordHash, err = s.hasher.hash(ctx, from, a.Password)
		return err == nil, err
	})
	return j, err
}

// findInvitation reads the invitation of a token. Guesses are limited in the same way as
// attempts to sign in.
func (s *Service) findInvitation(ctx context.Context, token string, from netip.Addr) (db.InvitationGetByTokenRow, error) {
	client := throttle.Subscriber(from).String()
	if wait := max(s.throttle.addresses.Wait(client), s.readers.Take(throttle.Subscriber(from))); wait > 0 {
		return db.InvitationGetByTokenRow{}, tooManyAttempts(wait)
	}
	invited, err := queries.InvitationGetByToken(ctx, s.system, hashOf(token))
	if postgres.NotFound(err) {
		s.throttle.addresses.Count(client)
		return invited, noInvitation()
	}
	if err != nil {
		return invited, fmt.Errorf("find invitation: %w", err)
	}
	return invited, nil
}

// join creates the account or checks that it may join, adds the member, calls fn, and marks the
// invitation as accepted, all in one transaction. The inviter must still be allowed to invite. The
// lock order is the same as elsewhere: members before invitations, and the account before its
// memberships.
func (s *Service) join(ctx context.Context, invited db.InvitationGetByTokenRow, j joiner, fn func(pgx.Tx) error) error {
	return postgres.BeginFunc(ctx, s.system, func(tx pgx.Tx) error {
		if err := useInvitation(ctx, tx, invited); err != nil {
			return err
		}
		// Nobody is signed in yet, so the joining person is the actor.
		ctx := audit.By(ctx, audit.Actor{Kind: audit.User, ID: j.ID})
		verified, err := j.prepare(ctx, tx, invited)
		if err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		joined, err := queries.MemberInsert(ctx, tx, db.MemberInsertParams{WorkspaceID: invited.WorkspaceID, UserID: j.ID, Role: invited.Role})
		if err != nil {
			return fmt.Errorf("insert member: %w", err)
		}
		if joined == 0 {
			return nil // already a member: the role stays
		}
		return recordMember(ctx, tx, invited.WorkspaceID, j.ID, "joined", map[string]any{
			"email": j.Email, "role": invited.Role, "invitationId": invited.ID, "emailVerified": verified,
		})
	})
}

// prepare creates the account, or locks it and checks that it may join the workspace. It
// reports whether the address is verified now.
func (j joiner) prepare(ctx context.Context, tx pgx.Tx, invited db.InvitationGetByTokenRow) (verified bool, err error) {
	if j.isNew {
		made, err := queries.UserInsert(ctx, tx, db.UserInsertParams{
			ID: j.ID, Email: j.Email, Name: j.Name, PasswordHash: j.passwordHash, Verified: invited.Mailed,
		})
		switch {
		case err != nil:
			return false, fmt.Errorf("insert user: %w", err)
		case made == 0: // another invitation created the account meanwhile: a retry finds it
			return false, fault.New(fault.Unavailable, "An account with this e-mail address is being created right now. Try again.")
		}
		return invited.Mailed, nil
	}
	user, err := queries.UserLock(ctx, tx, j.Email)
	if err != nil {
		return false, fmt.Errorf("lock user: %w", err)
	}
	if j.claims {
		if user.VerifiedAt != nil || user.DisabledAt != nil {
			return false, fault.New(fault.Unavailable, "This account has just changed. Try again.")
		}
		if err := claim(ctx, tx, j.Person, j.passwordHash); err != nil {
			return false, err
		}
		return true, leaveOthers(ctx, tx, j.Person, invited.WorkspaceID)
	}
	if user.VerifiedAt != nil {
		return true, nil
	}
	elsewhere, err := queries.UserBelongsElsewhere(ctx, tx, db.UserBelongsElsewhereParams{UserID: j.ID, WorkspaceID: invited.WorkspaceID})
	switch {
	case err != nil:
		return false, fmt.Errorf("check for other memberships: %w", err)
	case elsewhere:
		return false, errUnverified()
	}
	return false, nil
}

// leaveOthers removes the person from all workspaces but one, because somebody else may have joined
// them in the person's name. The person stays in a workspace as its only owner, because nobody else
// could manage that workspace.
func leaveOthers(ctx context.Context, tx pgx.Tx, person Person, stay uuid.UUID) error {
	memberships, err := queries.MemberListOfUser(ctx, tx, person.ID)
	if err != nil {
		return fmt.Errorf("list memberships: %w", err)
	}
	for _, m := range memberships {
		if m.ID == stay {
			continue
		}
		roles, onlyOwner, err := lockMembers(ctx, tx, m.ID, person.ID, person.ID)
		if err != nil {
			return err
		}
		if onlyOwner || roles[person.ID] == "" {
			continue
		}
		if err := remove(ctx, tx, m.ID, person.ID, person.Email, roles[person.ID]); err != nil {
			return err
		}
		if err := revokeBeyond(ctx, tx, m.ID, person.ID, ""); err != nil {
			return err
		}
	}
	return nil
}

// useInvitation marks an invitation as accepted. It returns NOT_FOUND if the invitation is no
// longer valid, or if its inviter may no longer invite to this role.
func useInvitation(ctx context.Context, tx pgx.Tx, invited db.InvitationGetByTokenRow) error {
	if invited.InvitedBy == nil {
		return noInvitation()
	}
	has, err := lockRole(ctx, tx, invited.WorkspaceID, *invited.InvitedBy)
	switch {
	case err != nil:
		return err
	case !has.mayAssign(Role(invited.Role)):
		return noInvitation()
	}
	used, err := queries.InvitationAccept(ctx, tx, db.InvitationAcceptParams{WorkspaceID: invited.WorkspaceID, ID: invited.ID})
	switch {
	case err != nil:
		return fmt.Errorf("accept invitation: %w", err)
	case used == 0:
		return noInvitation()
	}
	return nil
}
