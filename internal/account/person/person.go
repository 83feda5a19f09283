// Package person manages the people who use Weft: their accounts and passwords, their sessions,
// their roles in workspaces, and invitations (decisions 9.2).
//
// It knows one route, the link of an invitation, and nothing of API keys. The one invariant: the
// database holds only hashes of passwords, sessions and invitations, and a caller without the
// secret cannot find out whether it exists.
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
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/mail"
	"github.com/weft-automation/weft/internal/platform/throttle"
	"github.com/weft-automation/weft/internal/secret/seal"
)

var queries = db.New()

// Role is what a member may do in a workspace.
type Role string

// The roles.
const (
	Owner  Role = "owner"
	Admin  Role = "admin"
	Editor Role = "editor"
	Viewer Role = "viewer"
)

// Roles are all of them, from most to least.
func Roles() []Role { return []Role{Owner, Admin, Editor, Viewer} }

// Reaches says whether the role may do what needed may do. No role reaches
// nothing, and nothing reaches a role that does not exist.
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

// gives says whether a member of that role may make, change and invite members of
// role.
func (r Role) gives(role Role) bool { return r.Reaches(Admin) && r.Reaches(role) }

func (r Role) known() bool {
	for _, role := range Roles() {
		if r == role {
			return true
		}
	}
	return false
}

// Person is somebody who signed in.
type Person struct {
	ID          uuid.UUID
	Email, Name string
}

// Member is a person who acts in a workspace. Where a request is about none,
// WorkspaceID is zero and Role is empty.
type Member struct {
	Person
	WorkspaceID uuid.UUID
	Role        Role
	Verified    bool      // whether the e-mail address is
	ExpiresAt   time.Time // of the session
}

// Service is what can be done with people. It is safe for concurrent use.
type Service struct {
	system   *pgxpool.Pool // proves who asks, across workspaces
	scoped   *pgxpool.Pool // works within the workspace of postgres.Scope
	keyring  *seal.Keyring // nil: no device is known
	hasher   *hasher
	throttle *signInLimits
	book     *audit.Book                   // of what is told behind the answers
	tokens   *throttle.Limiter[netip.Addr] // that sent sessions which are none
	readers  *throttle.Limiter[netip.Addr] // requests of an address that look up a session or an invitation
	sessions *throttle.Limiter[string]     // requests with one session
	tales    *throttle.Limiter[string]     // e-mail addresses that the audit log was told of

	mail      *mail.Sender              // nil: invitations are not mailed
	publicURL string                    // of the service, in mailed links
	mails     *throttle.Limiter[string] // mailed invitations, by workspace and by e-mail address
	log       *slog.Logger
}

// Options of a Service. A zero value means the default.
type Options struct {
	Now     func() time.Time
	Keyring *seal.Keyring // proves devices; nil: none is known

	Mail      *mail.Sender // of invitations; nil: they are not mailed
	PublicURL string       // at which people reach the service; needed with Mail
	Log       *slog.Logger
}

// NewService makes a Service. The pool system has the rights of postgres.System,
// scoped those of postgres.API; book tells what nobody waits for.
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
		// Tokens are beyond guessing. These three guard the look-up.
		tokens:   throttle.NewLimiter[netip.Addr](100, 10, opts.Now),
		readers:  throttle.NewLimiter[netip.Addr](2000, 500, opts.Now),
		sessions: throttle.NewLimiter[string](1000, 200, opts.Now),
		// An invitation every three minutes is enough for a workspace that fills.
		mails: throttle.NewLimiter[string](20, 1./180, opts.Now),
		// Once an hour: who goes on trying fills no database.
		tales: throttle.NewLimiter[string](1, 1./3600, opts.Now),
	}
}

// Limits of what people are called.
const (
	minEmail, maxEmail = 3, 254
	maxName            = 200
)

// address is the one spelling of an e-mail address, "" for what is none.
func address(email string) string {
	email = strings.ToLower(strings.TrimSpace(email))
	local, domain, found := strings.Cut(email, "@")
	invisible := func(r rune) bool { return r <= ' ' || r > '~' }
	if !found || local == "" || domain == "" || len(email) < minEmail || len(email) > maxEmail || strings.ContainsFunc(email, invisible) {
		return ""
	}
	return email
}

// checkName judges what a person is to be called.
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

// NotAllowed is the refusal of a member whose role does not reach.
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

// newID makes the id of something new.
func newID() (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fmt.Errorf("make an id: %w", err)
	}
	return id, nil
}

var errBusy = errors.New("too many passwords are being checked at once")

func (p Person) wire() api.User { return api.User{ID: p.ID, Email: p.Email, Name: p.Name} }
