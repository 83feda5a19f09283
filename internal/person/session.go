package person

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/attempt"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/timestamp"
)

// SessionLife is how long a session lasts.
const SessionLife = 14 * 24 * time.Hour

const tokenBytes = 32

// newToken makes the secret of a session or an invitation, and what is stored of
// it.
func newToken() (token string, hash []byte) {
	random := make([]byte, tokenBytes)
	rand.Read(random) //nolint:errcheck // crypto/rand ends the program rather than fail
	token = base64.RawURLEncoding.EncodeToString(random)
	return token, hashOf(token)
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Session is a session that has just begun. Token exists here only: it is shown
// once and never stored.
type Session struct {
	Token     string
	ExpiresAt time.Time
	Person    Person
}

// LogValue keeps the token out of logs.
func (s Session) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Format keeps it out of everything else that prints values.
func (s Session) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

func (s Session) String() string { return "session of " + s.Person.ID.String() }

// Credentials are what somebody signs in with, and from where.
type Credentials struct {
	Email, Password string
	Client          netip.Addr
}

const wrongCredentials = "The e-mail address or the password is not right."

// SignIn begins a session. A wrong password and an address that nobody has are
// one and the same UNAUTHORIZED, in the answer and in the work; too many of them
// from a client or at an account are RATE_LIMITED.
func (s *Service) SignIn(ctx context.Context, c Credentials) (Session, error) {
	email := address(c.Email)
	var person proven
	err := s.attempt(c.Client, email, func() (ok bool, err error) {
		person, ok, err = s.prove(ctx, email, c.Password)
		return ok, err
	})
	if err != nil {
		if fault.CodeOf(err) == fault.Unauthorized && s.accounts.Wait(email) > 0 && s.tales.Take(email) == 0 {
			// Behind the answer: how long it takes says whether there is an account.
			s.book.Later(ctx, func(ctx context.Context) error { return s.tellOfLimit(ctx, email) })
		}
		return Session{}, err
	}
	return begin(ctx, s.system, person)
}

// tellOfLimit writes into the audit logs of the workspaces that a person belongs to
// that signing in failed so often that attempts are limited from now on.
func (s *Service) tellOfLimit(ctx context.Context, email string) error {
	user, err := queries.UserGetByEmail(ctx, s.system, email)
	if postgres.NotFound(err) {
		return nil // nobody's business
	}
	if err != nil {
		return fmt.Errorf("look up user: %w", err)
	}
	return tellAll(ctx, s.system, user.ID, "sign_in.limited", map[string]any{"email": email})
}

// attempt makes an attempt to prove who somebody is, unless too many failed. What
// neither failed nor succeeded is not counted.
func (s *Service) attempt(client netip.Addr, email string, prove func() (bool, error)) error {
	const message = "Too many attempts to sign in. Wait and try again."
	client = attempt.Subscriber(client)
	if wait := s.addresses.Take(client); wait > 0 {
		return tooMany("sign_in_attempts", message, wait)
	}
	if wait := s.accounts.Take(email); wait > 0 {
		s.addresses.Return(client)
		return tooMany("sign_in_attempts", message, wait)
	}
	ok, err := prove()
	if ok || err != nil {
		s.addresses.Return(client)
		s.accounts.Return(email)
	}
	if err == nil && !ok {
		return unauthorized("invalid_credentials", wrongCredentials)
	}
	return err
}

// proven is somebody who knew the password that is stored so.
type proven struct {
	Person
	passwordHash string
}

// prove says whose password it is, if it is that of the account.
func (s *Service) prove(ctx context.Context, email, password string) (proven, bool, error) {
	user, err := queries.UserGetByEmail(ctx, s.system, email)
	if err != nil && !postgres.NotFound(err) {
		return proven{}, false, fmt.Errorf("look up user: %w", err)
	}
	ok, err := s.hasher.matches(ctx, user.PasswordHash, password) // none of an unknown user
	if err != nil || !ok || user.DisabledAt != nil {
		return proven{}, false, err
	}
	return proven{Person{ID: user.ID, Email: user.Email, Name: user.Name}, user.PasswordHash}, true, nil
}

// begin stores a new session. UNAUTHORIZED when the password was changed since it
// was proven.
func begin(ctx context.Context, conn postgres.DB, of proven) (Session, error) {
	token, hash := newToken()
	expires, err := queries.SessionInsert(ctx, conn, db.SessionInsertParams{
		TokenHash: hash, UserID: of.ID, PasswordHash: of.passwordHash, Life: SessionLife,
	})
	switch {
	case postgres.NotFound(err):
		return Session{}, unauthorized("invalid_credentials", wrongCredentials)
	case err != nil:
		return Session{}, fmt.Errorf("insert session: %w", err)
	}
	return Session{Token: token, ExpiresAt: expires, Person: of.Person}, nil
}

// Proof is what a request shows of its session, and the workspace that it is about.
type Proof struct {
	Token       string // "" if the request has none
	Client      netip.Addr
	WorkspaceID *uuid.UUID // nil: about none
}

// Find says who sends a request. UNAUTHORIZED for a token that is missing,
// unknown, expired or signed out, RATE_LIMITED for a client with too many of
// those; NOT_FOUND for a workspace that the person does not belong to.
func (s *Service) Find(ctx context.Context, p Proof) (Member, error) {
	client := attempt.Subscriber(p.Client)
	if wait := s.tokens.Wait(client); wait > 0 {
		return Member{}, tooMany("failed_authentications", "Too many failed authentications from this address.", wait)
	}
	if p.Token == "" {
		return Member{}, unauthorized("missing_session", "Sign in first: send the token of a session, as Authorization: Bearer or as the cookie that signing in sets.")
	}
	hash := hashOf(p.Token)
	var workspaceID uuid.UUID
	if p.WorkspaceID != nil {
		workspaceID = *p.WorkspaceID
	}
	row, err := queries.SessionGet(ctx, s.system, db.SessionGetParams{TokenHash: hash, WorkspaceID: workspaceID})
	switch {
	case postgres.NotFound(err):
		s.tokens.Count(client)
		return Member{}, unauthorized("invalid_session", "Sign in first. This session is not valid.")
	case err != nil:
		return Member{}, fmt.Errorf("look up session: %w", err)
	}
	if row.Unseen {
		// For who looks into the table: nothing rests on it, and a database that is
		// read only serves those who read.
		_ = queries.SessionTouch(ctx, s.system, hash)
	}
	m := Member{Person: Person{ID: row.ID, Email: row.Email, Name: row.Name}, ExpiresAt: row.ExpiresAt}
	if p.WorkspaceID == nil {
		return m, nil
	}
	if row.Role == nil {
		return Member{}, noWorkspace()
	}
	m.WorkspaceID, m.Role = workspaceID, Role(*row.Role)
	return m, nil
}

// SignOut ends a session, at once and on every server.
func (s *Service) SignOut(ctx context.Context, token string) error {
	if err := queries.SessionDelete(ctx, s.system, hashOf(token)); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

// Current describes a session: who, until when, and where they belong.
func (s *Service) Current(ctx context.Context, person Person, expires time.Time) (api.CurrentSession, error) {
	rows, err := queries.MemberListOfUser(ctx, s.system, person.ID)
	if err != nil {
		return api.CurrentSession{}, fmt.Errorf("list memberships: %w", err)
	}
	c := api.CurrentSession{ExpiresAt: timestamp.Of(expires), User: person.wire(), Workspaces: make([]api.Membership, len(rows))}
	for i, row := range rows {
		c.Workspaces[i] = api.Membership{ID: row.ID, Name: row.Name, Role: api.Role(row.Role)}
	}
	return c, nil
}
