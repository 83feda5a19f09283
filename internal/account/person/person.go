// Package person manages the people who use Weft: their accounts and passwords, their sessions,
// their roles in workspaces, and invitations (decisions 9.2).
//
// It doesn't depend on routes, except for the link of an invitation, and doesn't use API keys. The
// database holds only hashes of passwords, sessions and invitations. A caller who doesn't have the
// secret of a session or an invitation can't find out whether it exists.
package person

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/revocation"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/mail"
	"github.com/weft-automation/weft/internal/platform/throttle"
	"github.com/weft-automation/weft/internal/secret/seal"
)

var queries = db.New()

// Role is what a member may do in a workspace.
type Role string

// The roles of members.
const (
	Owner  Role = "owner"
	Admin  Role = "admin"
	Editor Role = "editor"
	Viewer Role = "viewer"
)

// Roles returns all roles, from the most to the least powerful.
func Roles() []Role { return []Role{Owner, Admin, Editor, Viewer} }

// Reaches reports whether the role includes the rights of needed. It is false if either role
// doesn't exist.
func (r Role) Reaches(needed Role) bool {
	for _, at := range Roles() {
		switch {
		case r == at:
			return needed.known()
		case needed == at:
			return false
		}
	}
	return false
}

// mayAssign reports whether a member with the role r may invite, change and remove members with
// the given role.
func (r Role) mayAssign(role Role) bool { return r.Reaches(Admin) && r.Reaches(role) }

func (r Role) known() bool {
	for _, role := range Roles() {
		if r == role {
			return true
		}
	}
	return false
}

// Person is a person who signed in.
type Person struct {
	ID          uuid.UUID
	Email, Name string
}

// Member is a person who acts in a workspace. For requests without a workspace, WorkspaceID is
// zero and Role is empty.
type Member struct {
	Person
	WorkspaceID uuid.UUID
	Role        Role
	Verified    bool      // whether the e-mail address is verified
	ExpiresAt   time.Time // of the session
}

// Service manages people. It is safe for concurrent use.
type Service struct {
	system   *pgxpool.Pool // authenticates people, across workspaces
	scoped   *pgxpool.Pool // works within the workspace of postgres.Scope
	keyring  *seal.Keyring // seals device cookies; nil: none are issued
	hasher   *hasher
	throttle *signInLimits
	book     *audit.Book                       // records audit events after the response
	tokens   *throttle.Limiter[netip.Addr]     // unknown session tokens of an address
	readers  *throttle.Limiter[netip.Addr]     // requests of an address that look up a session or an invitation
	sessions *throttle.Limiter[string]         // requests with one session
	recorded *throttle.Limiter[string]         // audit events about limited sign-ins, by e-mail address
	watched  *revocation.Watch[watchedSession] // with open streams

	mail      *mail.Sender              // nil: invitations are not mailed
	publicURL string                    // of the service, in mailed links
	mails     *throttle.Limiter[string] // mailed invitations, by workspace and by e-mail address
	log       *slog.Logger
}

// Options of a Service. A zero value means the default.
type Options struct {
	Now     func() time.Time
	Keyring *seal.Keyring // seals device cookies; nil: none are issued

	Mail      *mail.Sender // for invitations; nil: they are not mailed
	PublicURL string       // of the service, in mailed links; required with Mail
	Log       *slog.Logger
}

// NewService returns a Service. The pool system has the role postgres.System, and scoped has
// postgres.API. book records events after the response.
func NewService(system, scoped *pgxpool.Pool, book *audit.Book, opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{
		system: system, scoped: scoped, book: book, hasher: newHasher(), keyring: opts.Keyring, throttle: newSignInLimits(opts.Now),
		mail: opts.Mail, publicURL: opts.PublicURL, log: opts.Log,
		// Tokens can't be guessed. The following three limits protect the database from
		// look-ups.
		tokens:   throttle.NewLimiter[netip.Addr](100, 10, opts.Now),
		readers:  throttle.NewLimiter[netip.Addr](2000, 500, opts.Now),
		sessions: throttle.NewLimiter[string](1000, 200, opts.Now),
		// An invitation every three minutes is enough even for a growing workspace.
		mails: throttle.NewLimiter[string](20, 1./180, opts.Now),
		// Once an hour, so that persistent attackers don't fill the database.
		recorded: throttle.NewLimiter[string](1, 1./3600, opts.Now),
		watched:  watchSessions(system),
	}
}

// Limits of names and e-mail addresses.
const (
	minEmail, maxEmail = 3, 254
	maxName            = 200
)

// address returns the stored form of an e-mail address, or "" if the address is invalid.
func address(email string) string {
	email = strings.ToLower(strings.TrimSpace(email))
	local, domain, found := strings.Cut(email, "@")
	invisible := func(r rune) bool { return r <= ' ' || r > '~' }
	if !found || local == "" || domain == "" || len(email) < minEmail || len(email) > maxEmail || strings.ContainsFunc(email, invisible) {
		return ""
	}
	return email
}

// checkName returns INVALID_INPUT for an invalid name.
func checkName(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxName:
		return fault.Invalid("/name", "the name must have 1 to %d characters", maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fault.Invalid("/name", "the name must not have control characters")
	}
	return nil
}

func checkPassword(password string) error {
	if length := utf8.RuneCountInString(password); length < MinPassword || length > MaxPassword {
		return fault.Invalid("/password", "the password must have %d to %d characters", MinPassword, MaxPassword)
	}
	return nil
}

func unauthorized(reason, message string) *fault.Error {
	return &fault.Error{
		Code: fault.Unauthorized, Reason: reason, Message: message,
		Header: map[string]string{"WWW-Authenticate": "Bearer"},
	}
}

func conflict(reason, message string) *fault.Error {
	return &fault.Error{Code: fault.Conflict, Reason: reason, Message: message}
}

// NotAllowed returns the error for a member whose role is insufficient.
func NotAllowed(needed Role) *fault.Error {
	message := "Only an owner may do this."
	switch needed {
	case Admin:
		message = "Only an admin or an owner may do this."
	case Editor:
		message = "Only an editor, an admin or an owner may do this."
	}
	return &fault.Error{Code: fault.Forbidden, Reason: "role_not_allowed", Message: message}
}

func tooMany(reason, message string, wait time.Duration) *fault.Error {
	return &fault.Error{Code: fault.RateLimited, Reason: reason, Message: message, RetryAfter: wait}
}

// newID returns a new ID.
func newID() (uuid.UUID, error) {
	id, err := uuid7.New()
	if err != nil {
		return id, fmt.Errorf("generate an ID: %w", err)
	}
	return id, nil
}

var errBusy = errors.New("too many passwords are being checked at once")

func (p Person) wire() api.User { return api.User{ID: p.ID, Email: p.Email, Name: p.Name} }
