package person

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/throttle"
)

// SessionLife is how long a session lasts.
const SessionLife = 14 * 24 * time.Hour

// maxSessions bounds what the sessions of one person store.
const maxSessions = 200

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
	Device    string // the value of the device's cookie; "" for none
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
	Device          string // the value of DeviceCookie
}

const wrongCredentials = "The e-mail address or the password is not right."

// SignIn starts a session. A wrong password and an address that nobody has are
// one and the same UNAUTHORIZED, in the answer and in the work. It returns RATE_LIMITED
// after too many attempts of the client, or failures at the account (see signInLimits).
func (s *Service) SignIn(ctx context.Context, c Credentials) (Session, error) {
	email := address(c.Email)
	device := s.device(email, c.Device)
	from := s.throttle.identify(c.Client, device, email)
	var person proven
	err := s.attempt(from, email, func() (ok bool, err error) {
		person, ok, err = s.prove(ctx, from, email, c.Password)
		return ok, err
	})
	if err != nil {
		if fault.CodeOf(err) == fault.Unauthorized && s.throttle.limited(from, email) && s.tales.Take(email) == 0 {
			// Behind the answer: how long it takes says whether there is an account.
			s.book.Later(ctx, func(ctx context.Context) error { return s.tellOfLimit(ctx, email) })
		}
		return Session{}, err
	}
	s.throttle.remember(c.Client, email)
	session, err := begin(ctx, s.system, person)
	if session.Device = c.Device; device == "" {
		session.Device = s.newDevice(email)
	}
	return session, err
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

// attempt makes an attempt to prove who somebody is, unless there were too many. An attempt
// that ends in an error does not count as a failure.
func (s *Service) attempt(from caller, email string, prove func() (bool, error)) error {
	done, wait := s.throttle.enter(from, email)
	if wait > 0 {
		return tooManyAttempts(wait)
	}
	ok, err := false, errors.New("the attempt was not finished")
	defer func() { done(!ok && err == nil) }()
	if ok, err = prove(); err == nil && !ok {
		return unauthorized("invalid_credentials", wrongCredentials)
	}
	return err
}

func tooManyAttempts(wait time.Duration) error {
	return tooMany("sign_in_attempts", "Too many attempts to sign in. Wait and try again.", wait)
}

// proven is somebody who knew the password that is stored so.
type proven struct {
	Person
	passwordHash string
}

// prove says whose password it is, if it is that of the account.
func (s *Service) prove(ctx context.Context, from caller, email, password string) (proven, bool, error) {
	user, err := queries.UserGetByEmail(ctx, s.system, email)
	if err != nil && !postgres.NotFound(err) {
		return proven{}, false, fmt.Errorf("look up user: %w", err)
	}
	ok, err := s.hasher.matches(ctx, from, user.PasswordHash, password) // none of an unknown user
	if err != nil || !ok || user.DisabledAt != nil {
		return proven{}, false, err
	}
	return proven{Person{ID: user.ID, Email: user.Email, Name: user.Name}, user.PasswordHash}, true, nil
}

// begin stores a new session. UNAUTHORIZED when the password was changed since it
// was proven.
func begin(ctx context.Context, conn postgres.DB, of proven) (Session, error) {
	if err := queries.SessionTrim(ctx, conn, db.SessionTrimParams{UserID: of.ID, Kept: maxSessions - 1}); err != nil {
		return Session{}, fmt.Errorf("end old sessions: %w", err)
	}
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
// those, and for too many requests with one session or from one address; NOT_FOUND for a
// workspace that the person does not belong to.
func (s *Service) Find(ctx context.Context, p Proof) (Member, error) {
	client := throttle.Subscriber(p.Client)
	if wait := s.tokens.Wait(client); wait > 0 {
		return Member{}, tooMany("failed_authentications", "Too many failed authentications from this address.", wait)
	}
	if p.Token == "" {
		return Member{}, unauthorized("missing_session", "Sign in first: send the token of a session, as Authorization: Bearer or as the cookie that signing in sets.")
	}
	hash := hashOf(p.Token)
	wait := s.sessions.Take(string(hash))
	if wait == 0 { // what one session is refused does not count for the others of the address
		wait = s.readers.Take(client)
	}
	if wait > 0 {
		return Member{}, tooMany("session_requests", "Too many requests with this session or from this address.", wait)
	}
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
	m := Member{Person: Person{ID: row.ID, Email: row.Email, Name: row.Name}, Verified: row.Verified, ExpiresAt: row.ExpiresAt}
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
