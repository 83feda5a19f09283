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

// InvitationLife is how long the link of an invitation is valid.
const InvitationLife = 7 * 24 * time.Hour

// Invited is a new invitation. Token is shown once and never stored.
type Invited struct {
	api.Invitation
	Token  string
	Mailed bool // a link with a different token was sent to the address
}

// LogValue keeps the token out of logs.
func (i Invited) LogValue() slog.Value { return slog.StringValue(i.String()) }

// Format keeps the token out of everything else that prints values.
func (i Invited) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, i.String()) }

func (i Invited) String() string { return "invitation " + i.ID.String() }

// Invite creates an invitation, which replaces an open invitation to the same address. It
// returns FORBIDDEN if the new or the replaced invitation is for an owner and the actor isn't
// one, and CONFLICT if the address belongs to a member.
func (s *Service) Invite(ctx context.Context, actor Member, email string, role Role) (Invited, error) {
	id, err := newID()
	if err != nil {
		return Invited{}, err
	}
	return s.InviteAs(ctx, actor, id, email, role)
}

// InviteAs is Invite with an ID for the invitation. It returns CONFLICT if an invitation with
// the ID exists, which makes repeated requests harmless.
func (s *Service) InviteAs(ctx context.Context, actor Member, id uuid.UUID, email string, role Role) (Invited, error) {
	invitee := address(email)
	if invitee == "" {
		return Invited{}, fault.Invalid("/email", "this is not a valid e-mail address")
	}
	token, hash := newToken()
	mailedToken, mailedHash := s.mailToken(actor.WorkspaceID, invitee)
	by := actor.wire()
	made := Invited{Token: token, Invitation: api.Invitation{ID: id, Email: invitee, Role: api.Role(role), InvitedBy: &by}}
	err := postgres.BeginFunc(ctx, s.scoped, func(tx pgx.Tx) error {
		has, err := lockRole(ctx, tx, actor.WorkspaceID, actor.ID)
		if err != nil {
			return err
		}
		if err := checkMayAssign(has, role); err != nil {
			return err
		}
		if err := queries.LockName(ctx, tx, "invitation "+actor.WorkspaceID.String()+" "+invitee); err != nil {
			return fmt.Errorf("lock invitations: %w", err)
		}
		found, err := queries.MemberHasEmail(ctx, tx, db.MemberHasEmailParams{WorkspaceID: actor.WorkspaceID, Email: invitee})
		switch {
		case err != nil:
			return fmt.Errorf("check for the member: %w", err)
		case found:
			return conflict("already_member", "A person with this e-mail address is already a member.")
		}
		if err := replace(ctx, tx, actor.WorkspaceID, invitee, has); err != nil {
			return err
		}
		if err := checkOpen(ctx, tx, actor.WorkspaceID); err != nil {
			return err
		}
		row, err := queries.InvitationInsert(ctx, tx, db.InvitationInsertParams{
			WorkspaceID: actor.WorkspaceID, ID: id, Email: invitee, Role: string(role), TokenHash: hash, MailedHash: mailedHash, InvitedBy: &actor.ID, Life: InvitationLife,
		})
		switch {
		case postgres.Taken(err):
			return conflict("already_made", "This invitation was already created, and its link was shown once. If you didn't save it, revoke the invitation and create another one.")
		case err != nil:
			return fmt.Errorf("insert invitation: %w", err)
		}
		made.CreatedAt, made.ExpiresAt = timestamp.Of(row.CreatedAt), timestamp.Of(row.ExpiresAt)
		return recordInvitation(ctx, tx, actor.WorkspaceID, made.Invitation, "created")
	})
	if err == nil && mailedToken != "" {
		made.Mailed = s.mailInvitation(ctx, mailedToken)
	}
	return made, err
}

// maxOpen limits the open invitations of a workspace.
const maxOpen = 1_000

// checkOpen returns CONFLICT if a workspace has as many open invitations as it can have.
func checkOpen(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID) error {
	if err := queries.LockName(ctx, tx, "invitations "+workspaceID.String()); err != nil {
		return fmt.Errorf("lock the number of invitations: %w", err)
	}
	count, err := queries.InvitationCount(ctx, tx, workspaceID)
	switch {
	case err != nil:
		return fmt.Errorf("count invitations: %w", err)
	case count >= maxOpen:
		return conflict("too_many_invitations", "A workspace can have at most 1,000 open invitations. Revoke one first.")
	}
	return nil
}

// replace revokes the open invitations to an address. It returns an error if actorRole may not assign
// the role of one of them.
func replace(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, email string, actorRole Role) error {
	rows, err := queries.InvitationReplace(ctx, tx, db.InvitationReplaceParams{WorkspaceID: workspaceID, Email: email})
	if err != nil {
		return fmt.Errorf("replace invitation: %w", err)
	}
	for _, row := range rows {
		if err := checkMayAssign(actorRole, Role(row.Role)); err != nil {
			return err
		}
		if err := recordRevoked(ctx, tx, workspaceID, row); err != nil {
			return err
		}
	}
	return nil
}

// revokeBeyond revokes the user's invitations to roles that the user may no longer assign with the invitee role.
func revokeBeyond(ctx context.Context, tx pgx.Tx, workspaceID, userID uuid.UUID, role Role) error {
	var beyond []string
	for _, other := range Roles() {
		if !role.mayAssign(other) {
			beyond = append(beyond, string(other))
		}
	}
	rows, err := queries.InvitationRevokeOf(ctx, tx, db.InvitationRevokeOfParams{WorkspaceID: workspaceID, InvitedBy: &userID, Roles: beyond})
	if err != nil {
		return fmt.Errorf("revoke invitations: %w", err)
	}
	for _, row := range rows {
		if err := recordRevoked(ctx, tx, workspaceID, db.InvitationReplaceRow(row)); err != nil {
			return err
		}
	}
	return nil
}

func recordRevoked(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, row db.InvitationReplaceRow) error {
	return recordInvitation(ctx, tx, workspaceID, api.Invitation{ID: row.ID, Email: row.Email, Role: api.Role(row.Role)}, "revoked")
}

// Invitations returns one page of the invitations to a workspace, newest first. It returns
// INVALID_INPUT for an invalid cursor.
func (s *Service) Invitations(ctx context.Context, workspaceID uuid.UUID, p Page) (api.InvitationPage, error) {
	return s.invitations(ctx, workspaceID, p, false)
}

// OpenInvitations is like Invitations, but returns only invitations that can still be accepted.
func (s *Service) OpenInvitations(ctx context.Context, workspaceID uuid.UUID, p Page) (api.InvitationPage, error) {
	return s.invitations(ctx, workspaceID, p, true)
}

func (s *Service) invitations(ctx context.Context, workspaceID uuid.UUID, p Page, open bool) (page api.InvitationPage, err error) {
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("invitations", p.Limit, p.Cursor, func(before uuid.UUID, maxRows int32) ([]db.InvitationListRow, error) {
		return queries.InvitationList(ctx, s.scoped, db.InvitationListParams{WorkspaceID: workspaceID, Before: before, OnlyOpen: open, MaxRows: maxRows})
	}, func(row db.InvitationListRow) (uuid.UUID, api.Invitation, error) {
		return row.ID, invitationRecord(db.InvitationGetForUpdateRow(row)), nil
	})
	return page, err
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

// RevokeInvitation revokes an invitation; revoking it again changes nothing. It returns
// NOT_FOUND for an unknown invitation, FORBIDDEN if it is for an owner and the actor isn't one,
// and CONFLICT if it was accepted.
func (s *Service) RevokeInvitation(ctx context.Context, actor Member, id uuid.UUID) (record api.Invitation, err error) {
	err = postgres.BeginFunc(ctx, s.scoped, func(tx pgx.Tx) error {
		has, err := lockRole(ctx, tx, actor.WorkspaceID, actor.ID)
		if err != nil {
			return err
		}
		if err := checkMayAssign(has); err != nil {
			return err
		}
		row, err := queries.InvitationGetForUpdate(ctx, tx, db.InvitationGetForUpdateParams{WorkspaceID: actor.WorkspaceID, ID: id})
		switch {
		case postgres.NotFound(err):
			return fault.New(fault.NotFound, "There is no invitation with this ID.")
		case err != nil:
			return fmt.Errorf("read invitation: %w", err)
		case !has.mayAssign(Role(row.Role)):
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
		return recordInvitation(ctx, tx, actor.WorkspaceID, record, "revoked")
	})
	return record, err
}

// recordInvitation records a change of an invitation in the audit log, in the same transaction.
func recordInvitation(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, of api.Invitation, what string) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "invitation." + what, SubjectKind: "invitation", SubjectID: of.ID.String(),
		Details: map[string]any{"email": of.Email, "role": of.Role},
	})
}
