package person_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	"golang.org/x/crypto/argon2"

	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/mail"
	"github.com/weft-automation/weft/internal/platform/mail/mailtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const password = "correct horse battery staple"

var home = netip.MustParseAddr("192.0.2.1")

// bench is a service with its own database, a workspace and its owner.
type bench struct {
	*person.Service
	book      *audit.Book
	pool      *pgxpool.Pool // as the owner of the tables
	workspace uuid.UUID
	owner     person.Member
	options   person.Options
	mail      *mailtest.Server
	mailing   *person.Service // mails invitations; otherwise like Service

	mu  sync.Mutex
	now time.Time // clock of the limiters
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{now: time.Unix(1_800_000_000, 0)}
	dsn := pgtest.DSN(t)
	open := func(role postgres.Role) *pgxpool.Pool {
		pool, err := postgres.Open(t.Context(), dsn, "test", role, 8)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	b.pool = open(postgres.Owner)
	system, scoped := open(postgres.System), open(postgres.API)
	b.book = audit.NewBook(system, scoped, func() { t.Error("an event was lost") }, slog.New(slog.DiscardHandler))
	b.mail = mailtest.Start(t)
	sender, err := mail.NewSender(mail.Options{URL: b.mail.URL, From: "weft@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	key := seal.Key{ID: "test"}
	ring, err := seal.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	b.options = person.Options{Keyring: ring, Now: func() time.Time {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.now
	}}
	b.Service = person.NewService(system, scoped, b.book, b.options)
	b.options.Mail, b.options.PublicURL = sender, "https://weft.example.org"
	b.mailing = person.NewService(system, scoped, b.book, b.options)
	if b.workspace, err = workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "Acme", Plan: plan.Starter}); err != nil {
		t.Fatal(err)
	}
	made, err := person.CreateOwner(t.Context(), b.pool, b.workspace, person.Account{Email: "Grace@Example.org", Name: "Grace", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	b.owner = person.Member{Person: made, WorkspaceID: b.workspace, Role: person.Owner}
	return b
}

// cheapen stores the owner's password with a hash that is cheap to compute, for tests with many
// attempts. Every stored hash contains its cost.
func (b *bench) cheapen(t *testing.T) {
	t.Helper()
	salt, text := []byte("saltsaltsaltsalt"), base64.RawStdEncoding.EncodeToString
	hash := argon2.IDKey([]byte(password), salt, 1, 8, 1, 32)
	b.exec(t, "UPDATE users SET password_hash = $1 WHERE id = $2", "$argon2id$v=19$m=8,t=1,p=1$"+text(salt)+"$"+text(hash), b.owner.ID)
}

// wait advances the clock of the limiters.
func (b *bench) wait(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// scope returns the context of a request about the workspace.
func (b *bench) scope(t *testing.T) context.Context { return postgres.Scope(t.Context(), b.workspace) }

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// signIn starts a session and returns its token.
func (b *bench) signIn(t *testing.T, email, password string) string {
	t.Helper()
	session, err := b.SignIn(t.Context(), person.Credentials{Email: email, Password: password, Client: home})
	if err != nil {
		t.Fatal(err)
	}
	return session.Token
}

// events returns the audit events of the workspace with these actions, oldest first. Each event
// is formatted as action, subject and details.
func (b *bench) events(t *testing.T, actions ...string) (events []string) {
	t.Helper()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	b.book.Run(done) // writes the queued events
	rows, err := b.pool.Query(t.Context(), `SELECT action || ' ' || subject_id || ' ' || details FROM audit_events
		WHERE workspace_id = $1 AND action = ANY($2) ORDER BY id`, b.workspace, actions)
	if err != nil {
		t.Fatal(err)
	}
	if events, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	return events
}

// waiting returns once a statement in this database waits for a lock.
func (b *bench) waiting(t *testing.T) {
	t.Helper()
	const blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for n := 0; n == 0; {
		if err := b.pool.QueryRow(t.Context(), blocked).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}

// member adds a member with the role through an invitation by the owner.
func (b *bench) member(t *testing.T, email string, role person.Role) person.Member {
	t.Helper()
	made, err := b.Invite(b.scope(t), b.owner, email, role)
	if err != nil {
		t.Fatal(err)
	}
	session, err := b.Accept(t.Context(), person.Acceptance{Token: made.Token, Name: "Ada", Password: password, Client: home})
	if err != nil {
		t.Fatal(err)
	}
	return person.Member{Person: session.Person, WorkspaceID: b.workspace, Role: role}
}

// refused checks that err has the code and the reason.
func refused(t *testing.T, what string, err error, code fault.Code, reason string) {
	t.Helper()
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok || failure.Code != code || failure.Reason != reason {
		t.Errorf("%s: %v, want %s %s", what, err, code, reason)
	}
}
