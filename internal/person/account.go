package person

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/audit"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/postgres"
)

// Account says whom to make an account for.
type Account struct {
	Email, Name, Password string
}

// check judges name and password; the address is judged before.
func (a *Account) check() error {
	if err := checkName(a.Name); err != nil {
		return err
	}
	return checkPassword(a.Password)
}

// HasAccount says whether somebody has an account with this address, to whoever
// reaches the database. INVALID_INPUT for what is no address.
func HasAccount(ctx context.Context, conn postgres.DB, email string) (bool, error) {
	at, err := spelling(email)
	if err != nil {
		return false, err
	}
	_, err = queries.UserGetByEmail(ctx, conn, at)
	if postgres.NotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// spelling is the one in which addresses are stored.
func spelling(email string) (string, error) {
	if at := address(email); at != "" {
		return at, nil
	}
	return "", fault.Invalid("/email", "this is not an e-mail address")
}

// Known says whether an account has this password. It is for whoever reaches the
// database: it neither limits attempts nor hides what it finds.
func Known(ctx context.Context, conn postgres.DB, email, password string) bool {
	return Recognise(ctx, conn, email, password, "") != ""
}

// Recognise is Known for who asks again and again: it gives a mark, "" if the account
// does not have the password, and takes the last one, with which it has nothing to hash.
func Recognise(ctx context.Context, conn postgres.DB, email, password, last string) (mark string) {
	user, err := queries.UserGetByEmail(ctx, conn, address(email))
	if err != nil || user.DisabledAt != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(user.PasswordHash + "\n" + password)) // of what has a salt
	if mark = hex.EncodeToString(sum[:]); mark == last || compare(user.PasswordHash, password) {
		return mark
	}
	return ""
}

// CreateOwner makes an account and an owner of the workspace, for whoever reaches
// the database. Whoever has an account already keeps its name and its password, and
// needs none here. INVALID_INPUT for a bad address, or a new account's bad name or
// password.
func CreateOwner(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, a Account) (person Person, err error) {
	if a.Email, err = spelling(a.Email); err != nil {
		return Person{}, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := a.insert(ctx, tx); err != nil {
			return err
		}
		user, err := queries.UserGetByEmail(ctx, tx, a.Email)
		if err != nil {
			return err
		}
		person = Person{ID: user.ID, Email: user.Email, Name: user.Name}
		return makeOwner(ctx, tx, workspaceID, person)
	})
	if err != nil {
		return Person{}, fmt.Errorf("make an owner: %w", err)
	}
	return person, nil
}

// insert makes the account if the address has none.
func (a *Account) insert(ctx context.Context, tx pgx.Tx) error {
	if has, err := HasAccount(ctx, tx, a.Email); err != nil || has {
		return err
	}
	if err := a.check(); err != nil {
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	_, err = queries.UserInsert(ctx, tx, db.UserInsertParams{ID: id, Email: a.Email, Name: a.Name, PasswordHash: encode(a.Password)})
	return err
}

// makeOwner makes an owner of who is a member of another role, or none.
func makeOwner(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, person Person) error {
	before, err := hold(ctx, tx, workspaceID, person.ID)
	if err != nil || before == Owner {
		return err
	}
	if err := queries.MemberPut(ctx, tx, db.MemberPutParams{WorkspaceID: workspaceID, UserID: person.ID, Role: string(Owner)}); err != nil {
		return err
	}
	if before == "" {
		return tellOfMember(ctx, tx, workspaceID, person.ID, "added", map[string]any{"email": person.Email, "role": Owner})
	}
	return tellOfMember(ctx, tx, workspaceID, person.ID, "changed", map[string]any{"email": person.Email, "role": Owner, "before": before})
}

// SetPassword gives an account another password, for whoever reaches the database.
// Every session of the person ends and an account that was disabled is none any
// more; the roles stay, and each of the person's workspaces is told. NOT_FOUND for
// an address that has no account, INVALID_INPUT for a bad password.
func SetPassword(ctx context.Context, conn postgres.DB, email, password string) (person Person, err error) {
	if err := checkPassword(password); err != nil {
		return Person{}, err
	}
	stored := encode(password)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if person, err = replacePassword(ctx, tx, address(email), stored); err != nil {
			return err
		}
		return tellOfPassword(ctx, tx, person)
	})
	return person, err
}

// replacePassword does it, and ends what began with the old one.
func replacePassword(ctx context.Context, tx pgx.Tx, email, stored string) (Person, error) {
	user, err := queries.UserGetByEmail(ctx, tx, email)
	switch {
	case postgres.NotFound(err):
		return Person{}, fault.New(fault.NotFound, "Nobody has an account with this e-mail address.")
	case err != nil:
		return Person{}, fmt.Errorf("look up user: %w", err)
	}
	if err := queries.UserSetPassword(ctx, tx, db.UserSetPasswordParams{ID: user.ID, PasswordHash: stored}); err != nil {
		return Person{}, fmt.Errorf("set password: %w", err)
	}
	if err := queries.SessionDeleteOfUser(ctx, tx, user.ID); err != nil {
		return Person{}, fmt.Errorf("end sessions: %w", err)
	}
	return Person{ID: user.ID, Email: user.Email, Name: user.Name}, nil
}

// tellOfPassword writes into the audit logs of the workspaces that a person belongs
// to that there is another password, and that the sessions ended.
func tellOfPassword(ctx context.Context, tx pgx.Tx, person Person) error {
	return tellAll(ctx, tx, person.ID, "password.changed", map[string]any{"email": person.Email})
}

// tellAll writes an event of a person into the audit logs of all their workspaces.
func tellAll(ctx context.Context, conn postgres.DB, userID uuid.UUID, action string, details map[string]any) error {
	memberships, err := queries.MemberListOfUser(ctx, conn, userID)
	if err != nil {
		return fmt.Errorf("list memberships: %w", err)
	}
	for _, m := range memberships {
		err := audit.RecordTx(ctx, conn, audit.Event{
			WorkspaceID: m.ID, Action: action, SubjectKind: "user", SubjectID: userID.String(), Details: details,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
