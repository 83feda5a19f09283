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
	// Existing means that the caller expects the address to have an account. If the address is
	// unverified, Password is required and replaces the account's password.
	Existing bool
}

// check validates the name and the password.
func (a *Account) check() error {
	if err := checkName(a.Name); err != nil {
		return err
	}
	return checkPassword(a.Password)
}

// HasAccount reports whether the address has an account, and whether the address is verified. It
// is for callers with access to the database. It returns INVALID_INPUT for a string that is not
// an e-mail address.
func HasAccount(ctx context.Context, conn postgres.DB, email string) (exists, verified bool, err error) {
	at, err := parseEmail(email)
	if err != nil {
		return false, false, err
	}
	user, err := queries.UserGetByEmail(ctx, conn, at)
	if postgres.NotFound(err) {
		return false, false, nil
	}
	return err == nil, user.VerifiedAt != nil, err
}

// parseEmail returns the address in its stored form, or INVALID_INPUT.
func parseEmail(email string) (string, error) {
	if at := address(email); at != "" {
		return at, nil
	}
	return "", fault.Invalid("/email", "this is not a valid e-mail address")
}

// PasswordMatches reports whether the account has this password. It is for callers with access
// to the database: it doesn't limit attempts, and its duration reveals whether an account exists.
func PasswordMatches(ctx context.Context, conn postgres.DB, email, password string) bool {
	return Recognise(ctx, conn, email, password, "") != ""
}

// Recognise is PasswordMatches for callers that check the same password repeatedly. It returns a
// mark, or "" if the password doesn't match. previous is the mark of the previous call: it avoids
// hashing the password again.
func Recognise(ctx context.Context, conn postgres.DB, email, password, previous string) (mark string) {
	user, err := queries.UserGetByEmail(ctx, conn, address(email))
	if err != nil || user.DisabledAt != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(user.PasswordHash + "\n" + password)) // the stored hash is salted
	if mark = hex.EncodeToString(sum[:]); mark == previous || compare(user.PasswordHash, password) {
		return mark
	}
	return ""
}

// CreateOwner creates an account and makes it an owner of the workspace. It is for callers
// with access to the database: they vouch for the address, so the account is verified.
//
// An existing account is used only if a.Existing is set. It keeps its name, and if its address
// is verified also its password. An unverified account gets a.Password and loses its sessions,
// because it is unknown who chose the old password.
//
// It returns CONFLICT if the account exists and a.Existing is not set, NOT_FOUND if it doesn't
// exist and a.Existing is set, and INVALID_INPUT for an invalid address, name or password.
func CreateOwner(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, a Account) (person Person, err error) {
	if a.Email, err = parseEmail(a.Email); err != nil {
		return Person{}, err
	}
	err = postgres.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
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
		return Person{}, fmt.Errorf("create an owner: %w", err)
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
		return Person{}, fault.New(fault.Conflict, "An account with this e-mail address already exists.")
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

// claim verifies the address of an account, replaces its name and password, and deletes its
// sessions.
func claim(ctx context.Context, tx pgx.Tx, person Person, passwordHash string) error {
	if err := queries.UserVerify(ctx, tx, db.UserVerifyParams{ID: person.ID, Name: person.Name, PasswordHash: passwordHash}); err != nil {
		return fmt.Errorf("verify user: %w", err)
	}
	if err := queries.SessionDeleteOfUser(ctx, tx, person.ID); err != nil {
		return fmt.Errorf("delete sessions: %w", err)
	}
	if err := recordPassword(ctx, tx, person); err != nil {
		return err
	}
	return recordVerified(ctx, tx, person)
}

func noAccount() error {
	return fault.New(fault.NotFound, "No account has this e-mail address.")
}

// makeOwner adds the person as an owner, or changes the role of an existing member to owner.
func makeOwner(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, person Person) error {
	before, err := lockRole(ctx, tx, workspaceID, person.ID)
	if err != nil || before == Owner {
		return err
	}
	if err := queries.MemberUpsert(ctx, tx, db.MemberUpsertParams{WorkspaceID: workspaceID, UserID: person.ID, Role: string(Owner)}); err != nil {
		return err
	}
	if before == "" {
		return recordMember(ctx, tx, workspaceID, person.ID, "added", map[string]any{"email": person.Email, "role": Owner})
	}
	return recordMember(ctx, tx, workspaceID, person.ID, "changed", map[string]any{"email": person.Email, "role": Owner, "before": before})
}

// SetPassword replaces the password of an account, deletes the person's sessions, and enables
// the account if it was disabled. Roles don't change. The change is recorded in the audit logs
// of all workspaces of the person. If verified is set, the address also becomes verified.
//
// It is for callers with access to the database, who vouch that the person who receives the
// password owns the address. It returns NOT_FOUND for an address without an account, and
// INVALID_INPUT for an invalid password.
func SetPassword(ctx context.Context, conn postgres.DB, email, password string, verified bool) (person Person, err error) {
	if err := checkPassword(password); err != nil {
		return Person{}, err
	}
	stored := encode(password)
	err = postgres.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
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
			return fmt.Errorf("delete sessions: %w", err)
		}
		if err := recordPassword(ctx, tx, person); err != nil || !verified || user.VerifiedAt != nil {
			return err
		}
		return recordVerified(ctx, tx, person)
	})
	return person, err
}

// recordPassword records in the audit logs of the person's workspaces that the password
// changed and the sessions were deleted.
func recordPassword(ctx context.Context, tx pgx.Tx, person Person) error {
	return recordInWorkspaces(ctx, tx, person.ID, "password.changed", map[string]any{"email": person.Email})
}

// recordVerified records in the audit logs of the person's workspaces that the e-mail address was
// verified.
func recordVerified(ctx context.Context, tx pgx.Tx, person Person) error {
	return recordInWorkspaces(ctx, tx, person.ID, "email.verified", map[string]any{"email": person.Email})
}

// recordInWorkspaces records an event about a person in the audit logs of all their workspaces.
func recordInWorkspaces(ctx context.Context, conn postgres.DB, userID uuid.UUID, action string, details map[string]any) error {
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
