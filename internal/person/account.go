package person

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/postgres"
)

// Account says whom to make an account for.
type Account struct {
	Email, Name, Password string
}

// check judges all of it and brings the e-mail address into its one spelling.
func (a *Account) check() error {
	given := a.Email
	if a.Email = address(given); a.Email == "" {
		return fault.Invalid("/email", "this is not an e-mail address")
	}
	if err := checkName(a.Name); err != nil {
		return err
	}
	return checkPassword(a.Password)
}

// Known says whether an account has this password. It is for whoever reaches the
// database: it neither limits attempts nor hides what it finds.
func Known(ctx context.Context, conn postgres.DB, email, password string) bool {
	user, err := queries.UserGetByEmail(ctx, conn, address(email))
	return err == nil && user.DisabledAt == nil && compare(user.PasswordHash, password)
}

// CreateOwner makes an account and an owner of the workspace, for whoever reaches
// the database. Whoever has an account already gets this password, and every
// session of theirs ends. INVALID_INPUT for a bad address, name or password.
func CreateOwner(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, a Account) (Person, error) {
	if err := a.check(); err != nil {
		return Person{}, err
	}
	id, err := newID()
	if err != nil {
		return Person{}, err
	}
	stored := encode(a.Password)
	person := Person{ID: id, Email: a.Email, Name: a.Name}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		made, err := queries.UserInsert(ctx, tx, db.UserInsertParams{ID: id, Email: a.Email, Name: a.Name, PasswordHash: stored})
		if err != nil {
			return err
		}
		if made == 0 {
			user, err := queries.UserGetByEmail(ctx, tx, a.Email)
			if err != nil {
				return err
			}
			person.ID, person.Name = user.ID, user.Name
			if err := queries.UserSetPassword(ctx, tx, db.UserSetPasswordParams{ID: user.ID, PasswordHash: stored}); err != nil {
				return err
			}
			if err := queries.SessionDeleteOfUser(ctx, tx, user.ID); err != nil {
				return err
			}
		}
		if err := queries.MemberPut(ctx, tx, db.MemberPutParams{WorkspaceID: workspaceID, UserID: person.ID, Role: string(Owner)}); err != nil {
			return err
		}
		return tellOfMember(ctx, tx, workspaceID, person.ID, "added", map[string]any{"email": a.Email, "role": Owner, "newPassword": made == 0})
	})
	if err != nil {
		return Person{}, fmt.Errorf("make an owner: %w", err)
	}
	return person, nil
}
