package person

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// InvitationLife is how long the link of an invitation works.
const InvitationLife = 7 * 24 * time.Hour

// Invited is a new invitation. Token exists here only: it is shown once and never
// stored.
type Invited struct {
	api.Invitation
	Token  string
	Mailed bool // a link with another token was sent to the address
}

// LogValue keeps the token out of logs.
func (i Invited) LogValue() slog.Value { return slog.StringValue(i.String()) }

// Format keeps it out of everything else that prints values.
func (i Invited) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, i.String()) }

func (i Invited) String() string { return "invitation " + i.ID.String() }

// Invite makes an invitation, in the place of an earlier one to the same address
// that is still open. FORBIDDEN when an owner is invited, or was, and the actor is
// none; CONFLICT for who is a member already.
func (s *Service) Invite(ctx context.Context, actor Member, email string, role Role) (Invited, error) {
	id, err := newID()
	if err != nil {
		return Invited{}, err
	}
	return s.InviteAs(ctx, actor, id, email, role)
}

// InviteAs is Invite with the id of the invitation, so that a repeat is known as
// one: CONFLICT, and what was made stays as it is.
func (s *Service) InviteAs(ctx context.Context, actor Member, id uuid.UUID, email string, role Role) (Invited, error) {
	given := address(email)
	if given == "" {
		return Invited{}, fault.Invalid("/email", "this is not an e-mail address")
	}
	token, hash := newToken()
	mailedToken, mailedHash := s.mailToken(actor.WorkspaceID, given)
	by := actor.wire()
	made := Invited{Token: token, Invitation: api.Invitation{ID: id, Email: given, Role: api.Role(role), InvitedBy: &by}}
	err := pgx.BeginFunc(ctx, s.scoped, func(tx pgx.Tx) error {
		has, err := hold(ctx, tx, actor.WorkspaceID, actor.ID)
		if err != nil {
			return err
		}
		if err := mayGive(has, role); err != nil {
			return err
		}
		if err := queries.LockName(ctx, tx, "invitation "+actor.WorkspaceID.String()+" "+given); err != nil {
			return fmt.Errorf("lock invitations: %w", err)
		}
		found, err := queries.MemberHasEmail(ctx, tx, db.MemberHasEmailParams{WorkspaceID: actor.WorkspaceID, Email: given})
		switch {
		case err != nil:
			return fmt.Errorf("look for the member: %w", err)
		case found:
			return conflict("already_member", "Somebody with this e-mail address is a member already.")
		}
		if err := replace(ctx, tx, actor.WorkspaceID, given, has); err != nil {
			return err
		}
		row, err := queries.InvitationInsert(ctx, tx, db.InvitationInsertParams{
			WorkspaceID: actor.WorkspaceID, ID: id, Email: given, Role: string(role), TokenHash: hash, MailedHash: mailedHash, InvitedBy: &actor.ID, Life: InvitationLife,
		})
		switch {
		case postgres.Taken(err):
			return conflict("already_made", "This was done already: the link was made, and shown that once. If nobody kept it, revoke the invitation and make another.")
		case err != nil:
			return fmt.Errorf("insert invitation: %w", err)
		}
		made.CreatedAt, made.ExpiresAt = timestamp.Of(row.CreatedAt), timestamp.Of(row.ExpiresAt)
		return tellOfInvitation(ctx, tx, actor.WorkspaceID, made.Invitation, "created")
	})
	if err == nil && mailedToken != "" {
		made.Mailed = s.mailInvitation(ctx, mailedToken)
	}
	return made, err
}

// replace ends what is open for an address, for a member of the role has.
func replace(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, email string, has Role) error {
	rows, err := queries.InvitationReplace(ctx, tx, db.InvitationReplaceParams{WorkspaceID: workspaceID, Email: email})
	if err != nil {
		return fmt.Errorf("replace invitation: %w", err)
	}
	for _, row := range rows {
		if err := mayGive(has, Role(row.Role)); err != nil {
			return err
		}
		if err := tellOfRevoked(ctx, tx, workspaceID, row); err != nil {
			return err
		}
	}
	return nil
}

// revokeBeyond ends what somebody invited to and could not any more with that role.
func revokeBeyond(ctx context.Context, tx pgx.Tx, workspaceID, userID uuid.UUID, role Role) error {
	var beyond []string
	for _, other := range Roles() {
		if !role.gives(other) {
			beyond = append(beyond, string(other))
		}
	}
	rows, err := queries.InvitationRevokeOf(ctx, tx, db.InvitationRevokeOfParams{WorkspaceID: workspaceID, InvitedBy: &userID, Roles: beyond})
	if err != nil {
		return fmt.Errorf("revoke invitations: %w", err)
	}
	for _, row := range rows {
		if err := tellOfRevoked(ctx, tx, workspaceID, db.InvitationReplaceRow(row)); err != nil {
			return err
		}
	}
	return nil
}

func tellOfRevoked(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, row db.InvitationReplaceRow) error {
	return tellOfInvitation(ctx, tx, workspaceID, api.Invitation{ID: row.ID, Email: row.Email, Role: api.Role(row.Role)}, "revoked")
}

// Invitations is a page of the invitations to a workspace, newest first.
// INVALID_INPUT for a cursor that no page gave out.
func (s *Service) Invitations(ctx context.Context, workspaceID uuid.UUID, p Page) (api.InvitationPage, error) {
	return s.invitations(ctx, workspaceID, p, false)
}

// OpenInvitations is a page of those that can still be accepted.
func (s *Service) OpenInvitations(ctx context.Context, workspaceID uuid.UUID, p Page) (api.InvitationPage, error) {
	return s.invitations(ctx, workspaceID, p, true)
}

func (s *Service) invitations(ctx context.Context, workspaceID uuid.UUID, p Page, open bool) (api.InvitationPage, error) {
	page := api.InvitationPage{Data: []api.Invitation{}}
	before, err := cursor.Before(p.Cursor)
	if err != nil {
		return page, err
	}
	rows, err := queries.InvitationList(ctx, s.scoped, db.InvitationListParams{
		WorkspaceID: workspaceID, Before: before, OnlyOpen: open, MaxRows: int32(p.Limit) + 1,
	})
	if err != nil {
		return page, fmt.Errorf("list invitations: %w", err)
	}
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		page.HasMore = true
		page.NextCursor = cursor.Encode(rows[p.Limit-1].ID[:])
	}
	for _, row := range rows {
		page.Data = append(page.Data, invitationRecord(db.InvitationGetForUpdateRow(row)))
	}
	return page, nil
}

func invitationRecord(row db.InvitationGetForUpdateRow) api.Invitation {
	record := api.Invitation{
		ID: row.ID, Email: row.Email, Role: api.Role(row.Role), CreatedAt: timestamp.Of(row.CreatedAt), ExpiresAt: timestamp.Of(row.ExpiresAt),
		AcceptedAt: timestamp.OfPointer(row.AcceptedAt), RevokedAt: timestamp.OfPointer(row.RevokedAt),
	}
	if row.InvitedBy != nil && row.ByEmail != nil && row.ByName != nil {
		record.InvitedBy = &api.User{ID: *row.InvitedBy, Email: *row.ByEmail, Name: *row.ByName}
	}
	return record
}

// Disinvite ends an invitation; again is the same. NOT_FOUND for an unknown one,
// FORBIDDEN for that of an owner by somebody who is none, CONFLICT for one that
// was accepted.
func (s *Service) Disinvite(ctx context.Context, actor Member, id uuid.UUID) (record api.Invitation, err error) {
	err = pgx.BeginFunc(ctx, s.scoped, func(tx pgx.Tx) error {
		has, err := hold(ctx, tx, actor.WorkspaceID, actor.ID)
		if err != nil {
			return err
		}
		if err := mayGive(has); err != nil {
			return err
		}
		row, err := queries.InvitationGetForUpdate(ctx, tx, db.InvitationGetForUpdateParams{WorkspaceID: actor.WorkspaceID, ID: id})
		switch {
		case postgres.NotFound(err):
			return fault.New(fault.NotFound, "There is no invitation with this id.")
		case err != nil:
			return fmt.Errorf("read invitation: %w", err)
		case !has.gives(Role(row.Role)):
			return NotAllowed(Owner)
		case row.AcceptedAt != nil:
			return conflict("invitation_accepted", "The invitation was accepted: remove the member instead.")
		}
		again := row.RevokedAt != nil
		row.RevokedAt, err = queries.InvitationRevoke(ctx, tx, db.InvitationRevokeParams{WorkspaceID: actor.WorkspaceID, ID: id})
		record = invitationRecord(row)
		if err != nil || again {
			return err
		}
		return tellOfInvitation(ctx, tx, actor.WorkspaceID, record, "revoked")
	})
	return record, err
}

// tellOfInvitation writes into the audit log what became of an invitation, with the
// deed.
func tellOfInvitation(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, of api.Invitation, what string) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "invitation." + what, SubjectKind: "invitation", SubjectID: of.ID.String(),
		Details: map[string]any{"email": of.Email, "role": of.Role},
	})
}
