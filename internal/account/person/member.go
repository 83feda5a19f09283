package person

import (
	"context"
	"encoding/binary"
	"fmt"
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

// Page selects one page of a list.
type Page struct {
	Limit  int
	Cursor string // "" for the first page
}

func noWorkspace() error { return fault.New(fault.NotFound, "There is no workspace with this ID.") }

func noMember() error { return fault.New(fault.NotFound, "There is no member with this ID.") }

// Members returns one page of the members of a workspace, newest first. It returns INVALID_INPUT
// for an invalid cursor.
func (s *Service) Members(ctx context.Context, workspaceID uuid.UUID, p Page) (api.MemberPage, error) {
	page := api.MemberPage{Data: []api.Member{}}
	before, id := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), uuid.Max
	if p.Cursor != "" {
		raw, err := cursor.Decode(p.Cursor, 24)
		if err != nil {
			return page, err
		}
		before, id = time.UnixMicro(int64(binary.BigEndian.Uint64(raw))&(1<<55-1)), uuid.UUID(raw[8:])
	}
	rows, err := queries.MemberList(ctx, s.scoped, db.MemberListParams{
		WorkspaceID: workspaceID, BeforeTime: before, BeforeID: id, MaxRows: int32(p.Limit) + 1,
	})
	if err != nil {
		return page, fmt.Errorf("list members: %w", err)
	}
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		last := rows[p.Limit-1]
		page.HasMore = true
		place := binary.BigEndian.AppendUint64(nil, uint64(last.CreatedAt.UnixMicro()))
		page.NextCursor = cursor.Encode(append(place, last.UserID[:]...))
	}
	for _, row := range rows {
		page.Data = append(page.Data, memberRecord(db.MemberGetRow(row)))
	}
	return page, nil
}

func memberRecord(row db.MemberGetRow) api.Member {
	return api.Member{UserID: row.UserID, Email: row.Email, EmailVerified: row.Verified, Name: row.Name, Role: api.Role(row.Role), CreatedAt: timestamp.Of(row.CreatedAt)}
}

// SetRole changes the role of a member. It returns NOT_FOUND for a user who isn't a member,
// FORBIDDEN if the old or the new role is owner and the actor isn't one, and CONFLICT for the
// last owner.
func (s *Service) SetRole(ctx context.Context, actor Member, userID uuid.UUID, role Role) (record api.Member, err error) {
	record, err = s.change(ctx, actor, userID, role, func(tx pgx.Tx, was api.Member) error {
		err := queries.MemberSetRole(ctx, tx, db.MemberSetRoleParams{WorkspaceID: actor.WorkspaceID, UserID: userID, Role: string(role)})
		if err != nil || Role(was.Role) == role {
			return err
		}
		return recordMember(ctx, tx, actor.WorkspaceID, userID, "changed", map[string]any{"email": was.Email, "role": role, "before": was.Role})
	})
	record.Role = api.Role(role)
	return record, err
}

// Remove removes a member from the workspace. Its errors are the same as those of SetRole.
func (s *Service) Remove(ctx context.Context, actor Member, userID uuid.UUID) (api.Member, error) {
	return s.change(ctx, actor, userID, "", func(tx pgx.Tx, was api.Member) error {
		return remove(ctx, tx, actor.WorkspaceID, userID, was.Email, Role(was.Role))
	})
}

// remove deletes a membership and records it in the audit log.
func remove(ctx context.Context, tx pgx.Tx, workspaceID, userID uuid.UUID, email string, role Role) error {
	if err := queries.MemberDelete(ctx, tx, db.MemberDeleteParams{WorkspaceID: workspaceID, UserID: userID}); err != nil {
		return fmt.Errorf("delete member: %w", err)
	}
	return recordMember(ctx, tx, workspaceID, userID, "removed", map[string]any{"email": email, "role": role})
}

// recordMember records a change of a member in the audit log, in the same transaction.
func recordMember(ctx context.Context, tx pgx.Tx, workspaceID, userID uuid.UUID, what string, details map[string]any) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "member." + what, SubjectKind: "user", SubjectID: userID.String(), Details: details,
	})
}

// change calls fn for a member and returns the member's record from before. It locks the member,
// the actor and all owners: two concurrent changes can't remove the last two owners, and an actor
// who has just lost the role can't change anything. Open invitations that the member may not issue
// under the new role are revoked.
func (s *Service) change(ctx context.Context, actor Member, userID uuid.UUID, to Role, fn func(pgx.Tx, api.Member) error) (was api.Member, err error) {
	err = postgres.BeginFunc(ctx, s.scoped, func(tx pgx.Tx) error {
		roles, onlyOwner, err := lockMembers(ctx, tx, actor.WorkspaceID, userID, actor.ID)
		if err != nil {
			return err
		}
		is, found := roles[userID]
		if err := checkMayAssign(roles[actor.ID], is, to); err != nil {
			return err
		}
		if !found {
			return noMember()
		}
		if onlyOwner && to != Owner {
			return conflict("last_owner", "A workspace needs at least one owner.")
		}
		row, err := queries.MemberGet(ctx, tx, db.MemberGetParams{WorkspaceID: actor.WorkspaceID, UserID: userID})
		if err != nil {
			return fmt.Errorf("read member: %w", err)
		}
		was = memberRecord(row)
		if err := fn(tx, was); err != nil {
			return err
		}
		return revokeBeyond(ctx, tx, actor.WorkspaceID, userID, to)
	})
	return was, err
}

// lockMembers locks a member, the actor and all owners, and returns their roles. onlyOwner reports
// whether the member is the only owner.
func lockMembers(ctx context.Context, tx pgx.Tx, workspaceID, userID, actorID uuid.UUID) (roles map[uuid.UUID]Role, onlyOwner bool, err error) {
	rows, err := queries.MemberLock(ctx, tx, db.MemberLockParams{WorkspaceID: workspaceID, UserID: userID, ActorID: actorID})
	if err != nil {
		return nil, false, fmt.Errorf("lock members: %w", err)
	}
	owners := 0
	roles = map[uuid.UUID]Role{}
	for _, row := range rows {
		roles[row.UserID] = Role(row.Role)
		if Role(row.Role) == Owner {
			owners++
		}
	}
	return roles, owners == 1 && roles[userID] == Owner, nil
}

// checkMayAssign returns an error unless an actor with the role actorRole may assign the given
// roles, and change members who have these roles. If actorRole is empty, the actor isn't a member.
// Empty values in roles are ignored.
func checkMayAssign(actorRole Role, roles ...Role) error {
	switch {
	case actorRole == "":
		return noWorkspace()
	case !actorRole.Reaches(Admin):
		return NotAllowed(Admin)
	}
	for _, role := range roles {
		if role != "" && !actorRole.mayAssign(role) {
			return NotAllowed(Owner)
		}
	}
	return nil
}

// MayManage checks that the member may manage keys, and locks the role until tx ends. It returns
// NOT_FOUND for a member who was removed in the meantime, and FORBIDDEN for an insufficient role.
func (m Member) MayManage(ctx context.Context, tx pgx.Tx) error {
	has, err := lockRole(ctx, tx, m.WorkspaceID, m.ID)
	if err != nil {
		return err
	}
	return checkMayAssign(has)
}

// lockRole returns the present role of a user in a workspace, "" if the user isn't a member. The
// role is locked until tx ends.
func lockRole(ctx context.Context, tx pgx.Tx, workspaceID, userID uuid.UUID) (Role, error) {
	role, err := queries.MemberGetForShare(ctx, tx, db.MemberGetForShareParams{WorkspaceID: workspaceID, UserID: userID})
	if err != nil && !postgres.NotFound(err) {
		return "", fmt.Errorf("lock member: %w", err)
	}
	return Role(role), nil
}
