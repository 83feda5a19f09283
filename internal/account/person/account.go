package person

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Account describes the account that CreateOwner creates or finds.
type Account struct {
	Email, Name, Password string
	// Existing says that the address has an account already, and that the caller means that
	// account. Password then replaces its password, and is needed, if the address is unverified.
	Existing bool
}

// check judges name and password; the address is judged before.
func (a *Account) check() error {
	if err := checkName(a.Name); err != nil {
		return err
	}
	return checkPassword(a.Password)
}

// HasAccount reports whether the address has an account, and whether the address is
// verified. It is for callers that may use the database. It returns INVALID_INPUT for a
// string that is not an e-mail address.
func HasAccount(ctx context.Context, conn postgres.DB, email string) (exists, verified bool, err error) {
	at, err := spelling(email)
	if err != nil {
		return false, false, err
	}
	user, err := queries.UserGetByEmail(ctx, conn, at)
	if postgres.NotFound(err) {
		return false, false, nil
	}
	return err == nil, user.VerifiedAt != nil, err
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

// CreateOwner creates an account and makes it an owner of the workspace. It is for callers
// that may use the database: they vouch for the address, so the account is verified.
//
// An account that exists already is used only if a.Existing says so. It keeps its name, and
// its password too if its address is verified. An unverified one gets a.Password and loses
// its sessions, because nobody knows who chose the old password.
//
// It returns CONFLICT for an address that has an account and a.Existing is not set, NOT_FOUND
// for the reverse, and INVALID_INPUT for a bad address, name or password.
func CreateOwner(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, a Account) (person Person, err error) {
	if a.Email, err = spelling(a.Email); err != nil {
		return Person{}, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if a.Existing {
			person, err = a.adopt(ctx, tx)
		} else {
			person, err = a.insert(ctx, tx)
		}
		if err != nil {
			return err
		}
		return makeOwner(ctx, tx, workspaceID, person)
	})
	if err != nil {
		return Person{}, fmt.Errorf("make an owner: %w", err)
	}
	return person, nil
}

// insert creates the account.
func (a *Account) insert(ctx context.Context, tx pgx.Tx) (Person, error) {
	if err := a.check(); err != nil {
		return Person{}, err
	}
	id, err := newID()
	if err != nil {
		return Person{}, err
	}
	made, err := queries.UserInsert(ctx, tx, db.UserInsertParams{ID: id, Email: a.Email, Name: a.Name, PasswordHash: encode(a.Password), Verified: true})
	switch {
	case err != nil:
		return Person{}, fmt.Errorf("insert user: %w", err)
	case made == 0:
		return Person{}, fault.New(fault.Conflict, "There is an account with this e-mail address already.")
	}
	return Person{ID: id, Email: a.Email, Name: a.Name}, nil
}

// adopt locks and returns the existing account. An account with an unverified address gets
// a.Password and loses its sessions.
func (a *Account) adopt(ctx context.Context, tx pgx.Tx) (Person, error) {
	user, err := queries.UserLock(ctx, tx, a.Email)
	switch {
	case postgres.NotFound(err):
		return Person{}, noAccount()
	case err != nil:
		return Person{}, fmt.Errorf("lock user: %w", err)
	}
	person := Person{ID: user.ID, Email: user.Email, Name: user.Name}
	if user.VerifiedAt != nil {
		return person, nil
	}
	if err := checkPassword(a.Password); err != nil {
		return Person{}, err
	}
	return person, claim(ctx, tx, person, encode(a.Password))
}

// claim verifies the address of an account, replaces its password and its name by that of
// person, and ends its sessions.
func claim(ctx context.Context, tx pgx.Tx, person Person, passwordHash string) error {
	if err := queries.UserVerify(ctx, tx, db.UserVerifyParams{ID: person.ID, Name: person.Name, PasswordHash: passwordHash}); err != nil {
		return fmt.Errorf("verify user: %w", err)
	}
	if err := queries.SessionDeleteOfUser(ctx, tx, person.ID); err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	if err := tellOfPassword(ctx, tx, person); err != nil {
		return err
	}
	return tellOfVerified(ctx, tx, person)
}

func noAccount() error {
	return fault.New(fault.NotFound, "Nobody has an account with this e-mail address.")
}

// makeOwner makes an owner of who is a member of another role, or none.
func makeOwner(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, person Person) error {
	before, err := hold(ctx, tx, workspaceID, person.ID)
	if err != nil || before == Owner {
		return err
	}
	if err := queries.MemberUpsert(ctx, tx, db.MemberUpsertParams{WorkspaceID: workspaceID, UserID: person.ID, Role: string(Owner)}); err != nil {
		return err
	}
	if before == "" {
		return tellOfMember(ctx, tx, workspaceID, person.ID, "added", map[string]any{"email": person.Email, "role": Owner})
	}
	return tellOfMember(ctx, tx, workspaceID, person.ID, "changed", map[string]any{"email": person.Email, "role": Owner, "before": before})
}

// SetPassword replaces the password of an account. It is for callers that may use the
// database. With verified, they also vouch that the person who gets the password owns the
// address. All sessions of the person end and a disabled account is enabled again. The roles
// stay, and the audit log of each of the person's workspaces records it. It returns NOT_FOUND
// for an address without an account, and INVALID_INPUT for a bad password.
func SetPassword(ctx context.Context, conn postgres.DB, email, password string, verified bool) (person Person, err error) {
	if err := checkPassword(password); err != nil {
		return Person{}, err
	}
	stored := encode(password)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		user, err := queries.UserLock(ctx, tx, address(email))
		switch {
		case postgres.NotFound(err):
			return noAccount()
		case err != nil:
			return fmt.Errorf("look up user: %w", err)
		}
		person = Person{ID: user.ID, Email: user.Email, Name: user.Name}
		if err := queries.UserSetPassword(ctx, tx, db.UserSetPasswordParams{ID: user.ID, PasswordHash: stored, Verified: verified}); err != nil {
			return fmt.Errorf("set password: %w", err)
		}
		if err := queries.SessionDeleteOfUser(ctx, tx, user.ID); err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		if err := tellOfPassword(ctx, tx, person); err != nil || !verified || user.VerifiedAt != nil {
			return err
		}
		return tellOfVerified(ctx, tx, person)
	})
	return person, err
}

// tellOfPassword writes into the audit logs of the workspaces that a person belongs
// to that there is another password, and that the sessions ended.
func tellOfPassword(ctx context.Context, tx pgx.Tx, person Person) error {
	return tellAll(ctx, tx, person.ID, "password.changed", map[string]any{"email": person.Email})
}

// tellOfVerified records in the same audit logs that the address is verified.
func tellOfVerified(ctx context.Context, tx pgx.Tx, person Person) error {
	return tellAll(ctx, tx, person.ID, "email.verified", map[string]any{"email": person.Email})
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
