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

// Page is which part of a list is asked for.
type Page struct {
	Limit  int
	Cursor string // "" for the first page
}

func noWorkspace() error { return fault.New(fault.NotFound, "There is no workspace with this id.") }

func noMember() error { return fault.New(fault.NotFound, "There is no member with this id.") }

// Members is a page of who belongs to a workspace, newest first. INVALID_INPUT
// for a cursor that no page gave out.
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

// SetRole gives a member another role. NOT_FOUND for who is none, FORBIDDEN when
// an owner is made or changed by somebody who is no owner, CONFLICT for the last
// owner.
func (s *Service) SetRole(ctx context.Context, actor Member, userID uuid.UUID, role Role) (record api.Member, err error) {
	record, err = s.change(ctx, actor, userID, role, func(tx pgx.Tx, was api.Member) error {
		err := queries.MemberSetRole(ctx, tx, db.MemberSetRoleParams{WorkspaceID: actor.WorkspaceID, UserID: userID, Role: string(role)})
		if err != nil || Role(was.Role) == role {
			return err
		}
		return tellOfMember(ctx, tx, actor.WorkspaceID, userID, "changed", map[string]any{"email": was.Email, "role": role, "before": was.Role})
	})
	record.Role = api.Role(role)
	return record, err
}

// Remove takes a member out of the workspace; refusals are those of SetRole.
func (s *Service) Remove(ctx context.Context, actor Member, userID uuid.UUID) (api.Member, error) {
	return s.change(ctx, actor, userID, "", func(tx pgx.Tx, was api.Member) error {
		if err := queries.MemberDelete(ctx, tx, db.MemberDeleteParams{WorkspaceID: actor.WorkspaceID, UserID: userID}); err != nil {
			return err
		}
		return tellOfMember(ctx, tx, actor.WorkspaceID, userID, "removed", map[string]any{"email": was.Email, "role": was.Role})
	})
}

// tellOfMember writes into the audit log what became of a member, with the deed.
func tellOfMember(ctx context.Context, tx pgx.Tx, workspaceID, userID uuid.UUID, what string, details map[string]any) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "member." + what, SubjectKind: "user", SubjectID: userID.String(), Details: details,
	})
}

// change does something to a member and gives the record as it was before. All
// owners are locked for it, so that two changes at once cannot take the last two,
// and who acts, so that a role taken away this moment does nothing any more. What
// the member could not invite to with the role that it gets is no longer open.
func (s *Service) change(ctx context.Context, actor Member, userID uuid.UUID, to Role, do func(pgx.Tx, api.Member) error) (was api.Member, err error) {
	err = pgx.BeginFunc(ctx, s.scoped, func(tx pgx.Tx) error {
		rows, err := queries.MemberLock(ctx, tx, db.MemberLockParams{WorkspaceID: actor.WorkspaceID, UserID: userID, ActorID: actor.ID})
		if err != nil {
			return fmt.Errorf("lock members: %w", err)
		}
		owners, roles := 0, map[uuid.UUID]Role{}
		for _, row := range rows {
			roles[row.UserID] = Role(row.Role)
			if Role(row.Role) == Owner {
				owners++
			}
		}
		is, found := roles[userID]
		if err := mayGive(roles[actor.ID], is, to); err != nil {
			return err
		}
		if !found {
			return noMember()
		}
		if is == Owner && to != Owner && owners == 1 {
			return conflict("last_owner", "A workspace needs at least one owner.")
		}
		row, err := queries.MemberGet(ctx, tx, db.MemberGetParams{WorkspaceID: actor.WorkspaceID, UserID: userID})
		if err != nil {
			return fmt.Errorf("read member: %w", err)
		}
		was = memberRecord(row)
		if err := do(tx, was); err != nil {
			return err
		}
		return revokeBeyond(ctx, tx, actor.WorkspaceID, userID, to)
	})
	return was, err
}

// mayGive refuses who has the role is in a workspace, "" for none, what only
// another one may do with members of these roles; "" is of nobody.
func mayGive(is Role, roles ...Role) error {
	switch {
	case is == "":
		return noWorkspace()
	case !is.Reaches(Admin):
		return NotAllowed(Admin)
	}
	for _, role := range roles {
		if role != "" && !is.gives(role) {
			return NotAllowed(Owner)
		}
	}
	return nil
}

// MayManage judges in tx whether a member may make keys, at this moment and until tx
// ends: NOT_FOUND for who was removed meanwhile, FORBIDDEN for a role that does not reach.
func (m Member) MayManage(ctx context.Context, tx pgx.Tx) error {
	has, err := hold(ctx, tx, m.WorkspaceID, m.ID)
	if err != nil {
		return err
	}
	return mayGive(has)
}

// hold is the role that somebody has at this moment, and until tx ends; "" for who
// is no member.
func hold(ctx context.Context, tx pgx.Tx, workspaceID, userID uuid.UUID) (Role, error) {
	role, err := queries.MemberGetForShare(ctx, tx, db.MemberGetForShareParams{WorkspaceID: workspaceID, UserID: userID})
	if err != nil && !postgres.NotFound(err) {
		return "", fmt.Errorf("lock member: %w", err)
	}
	return Role(role), nil
}
