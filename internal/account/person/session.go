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

// SessionLife is how long a session is valid.
const SessionLife = 14 * 24 * time.Hour

// maxSessions bounds the stored sessions of one person.
const maxSessions = 200

const tokenBytes = 32

// newToken returns a new token of a session or an invitation, and the token's stored hash.
func newToken() (token string, hash []byte) {
	random := make([]byte, tokenBytes)
	rand.Read(random) //nolint:errcheck // crypto/rand aborts the program instead of failing
	token = base64.RawURLEncoding.EncodeToString(random)
	return token, hashOf(token)
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Session is a new session. Token is shown once and never stored.
type Session struct {
	Token     string
	ExpiresAt time.Time
	Person    Person
	Device    string // the value of the device cookie; may be empty
}

// LogValue keeps the token out of logs.
func (s Session) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Format keeps the token out of everything else that prints values.
func (s Session) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

func (s Session) String() string { return "session of " + s.Person.ID.String() }

// Credentials are the credentials and the client of an attempt to sign in.
type Credentials struct {
	Email, Password string
	Client          netip.Addr
	Device          string // the value of DeviceCookie
}

const wrongCredentials = "The e-mail address or the password is not right."

// SignIn starts a session. It returns UNAUTHORIZED both for a wrong password and for an unknown
// address, with the same response and the same work. It returns RATE_LIMITED after too many
// attempts of the client, or too many failures for the account (see signInLimits).
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
		if fault.CodeOf(err) == fault.Unauthorized && s.throttle.limited(from, email) && s.recorded.Take(email) == 0 {
			// Record the limit after the response, because the duration would reveal whether an
			// account exists.
			s.book.Later(ctx, func(ctx context.Context) error { return s.recordLimit(ctx, email) })
		}
		return Session{}, err
	}
	s.throttle.remember(c.Client, email)
	session, err := startSession(ctx, s.system, person)
	if session.Device = c.Device; device == "" {
		session.Device = s.newDevice(email)
	}
	return session, err
}

// StartSession starts a session of an account without its password. It returns UNAUTHORIZED if the
// account does not exist or is disabled. Only weft dev calls it, for its own user.
func (s *Service) StartSession(ctx context.Context, email string) (Session, error) {
	user, err := queries.UserGetByEmail(ctx, s.system, address(email))
	if postgres.NotFound(err) || err == nil && user.DisabledAt != nil {
		return Session{}, unauthorized("invalid_credentials", wrongCredentials)
	}
	if err != nil {
		return Session{}, fmt.Errorf("look up user: %w", err)
	}
	return startSession(ctx, s.system, proven{Person{ID: user.ID, Email: user.Email, Name: user.Name}, user.PasswordHash})
}

// recordLimit records in the audit logs of the person's workspaces that attempts to sign in are
// now limited, because too many failed.
func (s *Service) recordLimit(ctx context.Context, email string) error {
	user, err := queries.UserGetByEmail(ctx, s.system, email)
	if postgres.NotFound(err) {
		return nil // no account, so there is no audit log
	}
	if err != nil {
		return fmt.Errorf("look up user: %w", err)
	}
	return recordInWorkspaces(ctx, s.system, user.ID, "sign_in.limited", map[string]any{"email": email})
}

// attempt calls prove, unless there were too many attempts. An attempt that returns an error
// doesn't count as a failure.
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

// proven is a person whose password was verified against passwordHash.
type proven struct {
	Person
	passwordHash string
}

// prove verifies the password of an account and returns its owner.
func (s *Service) prove(ctx context.Context, from caller, email, password string) (proven, bool, error) {
	user, err := queries.UserGetByEmail(ctx, s.system, email)
	if err != nil && !postgres.NotFound(err) {
		return proven{}, false, fmt.Errorf("look up user: %w", err)
	}
	ok, err := s.hasher.matches(ctx, from, user.PasswordHash, password) // the hash is empty for an unknown user
	if err != nil || !ok || user.DisabledAt != nil {
		return proven{}, false, err
	}
	return proven{Person{ID: user.ID, Email: user.Email, Name: user.Name}, user.PasswordHash}, true, nil
}

// startSession stores a new session. It returns UNAUTHORIZED if the password was changed after it
// was verified.
func startSession(ctx context.Context, conn postgres.DB, of proven) (Session, error) {
	if err := queries.SessionTrim(ctx, conn, db.SessionTrimParams{UserID: of.ID, Kept: maxSessions - 1}); err != nil {
		return Session{}, fmt.Errorf("delete old sessions: %w", err)
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

// Proof is the session token of a request, and the workspace that the request is about.
type Proof struct {
	Token       string // "" if the request has none
	Client      netip.Addr
	WorkspaceID *uuid.UUID // nil if the request isn't about a workspace
}

// Find authenticates a request and returns the person and their role. It returns UNAUTHORIZED for
// a token that is missing, unknown, expired or signed out; RATE_LIMITED for a client with too many
// such tokens, and for too many requests with one session or from one address; and NOT_FOUND for a
// workspace that the person doesn't belong to.
func (s *Service) Find(ctx context.Context, p Proof) (Member, error) {
	client := throttle.Subscriber(p.Client)
	if wait := s.tokens.Wait(client); wait > 0 {
		return Member{}, tooMany("failed_authentications", "Too many failed authentications from this address.", wait)
	}
	if p.Token == "" {
		return Member{}, unauthorized("missing_session", "Sign in first. Send the token of a session as Authorization: Bearer, or as the cookie that signing in sets.")
	}
	hash := hashOf(p.Token)
	wait := s.sessions.Take(string(hash))
	if wait == 0 { // requests that exceed the limit of the session don't count for the address
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
		// The time of last use is informational, so an error is ignored: reading must also work
		// in a read-only database.
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

// SignOut deletes a session. The session is invalid at once, on every server.
func (s *Service) SignOut(ctx context.Context, token string) error {
	if err := queries.SessionDelete(ctx, s.system, hashOf(token)); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

// Current describes a session: its person, its expiry, and the person's workspaces.
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
