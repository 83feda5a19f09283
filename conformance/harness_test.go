package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/internal/app"
	"github.com/weft-automation/weft/internal/auth"
	"github.com/weft-automation/weft/internal/billing"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/person"
	"github.com/weft-automation/weft/internal/plan"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/postgres/pgtest"
	"github.com/weft-automation/weft/internal/workspace"
)

// TestMain stops what the tests booted.
func TestMain(m *testing.M) {
	code := m.Run()
	if deployment.stop != nil {
		deployment.stop()
	}
	os.Exit(code)
}

// deployment is the one under test: that of CONFORMANCE_URL, or one that the
// first test boots for all of them.
var deployment struct {
	once   sync.Once
	target *probe.Target
	pool   *pgxpool.Pool // nil if it was not booted here
	stop   func()
}

// target is the deployment under test.
func target(t *testing.T) *probe.Target {
	t.Helper()
	deployment.once.Do(func() {
		if address := os.Getenv("CONFORMANCE_URL"); address != "" {
			deployment.target = reach(t, address)
			return
		}
		deployment.target = boot(t)
	})
	if deployment.target == nil {
		t.Fatal("there is no deployment to test")
	}
	return deployment.target
}

// reach is a deployment that runs already.
func reach(t *testing.T, address string) *probe.Target {
	t.Helper()
	credentials, err := probe.ReadCredentials(os.Getenv("CONFORMANCE_CREDENTIALS"))
	if err != nil {
		t.Fatalf("CONFORMANCE_CREDENTIALS: %v", err)
	}
	credentials.BaseURL = address
	target, err := probe.Reach(credentials)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// lasting is a test's TB whose clean-ups wait for the end of the process.
type lasting struct {
	testing.TB
	cleanups []func()
}

func (l *lasting) Cleanup(cleanup func())   { l.cleanups = append(l.cleanups, cleanup) }
func (l *lasting) Context() context.Context { return context.Background() }

func (l *lasting) end() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
}

// schedule is that of the booted deployment: short, so that a case sees its end.
var schedule = []time.Duration{0, 300 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond}

// boot starts a whole service on a database of its own.
func boot(t *testing.T) *probe.Target {
	t.Helper()
	ctx := context.Background()
	life := &lasting{TB: t}
	deployment.stop = life.end
	dsn := pgtest.DSN(life)
	authority, err := probe.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	running := node(t, dsn, authority)
	life.Cleanup(func() { running.Stop(ctx) })
	pool, err := postgres.Open(ctx, dsn, "conformance", postgres.Owner, 4)
	if err != nil {
		t.Fatal(err)
	}
	life.Cleanup(pool.Close)
	deployment.pool = pool

	own, _ := makeKey(t, ctx, pool, running.URL(), makeWorkspace(t, ctx, pool, "conformance"))
	foreign, _ := makeKey(t, ctx, pool, running.URL(), makeWorkspace(t, ctx, pool, "foreign"))
	makeOwner(t, ctx, pool, &own, "owner@conformance.example")
	makeOwner(t, ctx, pool, &foreign, "owner@foreign.example")
	viewer := probe.Credentials{BaseURL: own.BaseURL, WorkspaceID: own.WorkspaceID}
	makeOwner(t, ctx, pool, &viewer, "viewer@conformance.example")
	if _, err := pool.Exec(ctx, "UPDATE members SET role = 'viewer' FROM users WHERE users.id = user_id AND email = $1", viewer.AdminEmail); err != nil {
		t.Fatal(err)
	}
	target, err := probe.NewTarget(own)
	if err != nil {
		t.Fatal(err)
	}
	target.Viewer = &viewer
	poor := makePoor(t, ctx, pool, running.URL())
	target.Poor = &poor
	target.Foreign, target.Authority, target.Near, target.Forwarded, target.Schedule = &foreign, authority, true, true, schedule
	target.NewKey = func(ctx context.Context) (probe.Credentials, func(context.Context) error, error) {
		return newKey(ctx, pool, own)
	}
	// One pair of people for all of them: a password takes long to hash.
	customers := probe.Credentials{BaseURL: running.URL(), WorkspaceID: makeWorkspace(t, ctx, pool, "customers").String()}
	makeOwner(t, ctx, pool, &customers, "viewer@customers.example")
	if _, err := pool.Exec(ctx, "UPDATE members SET role = 'viewer' WHERE workspace_id = $1", customers.WorkspaceID); err != nil {
		t.Fatal(err)
	}
	makeOwner(t, ctx, pool, &customers, "owner@customers.example")
	target.NewWorkspace = func(ctx context.Context, terms probe.Terms) (probe.Credentials, error) {
		return newWorkspace(ctx, pool, customers, terms)
	}
	target.Grant = func(ctx context.Context, workspaceID string, credits int) error {
		_, err := billing.Books{}.Grant(ctx, pool, billing.Grant{
			WorkspaceID: uuid.MustParse(workspaceID), Amount: credit.Credits(int64(credits)), Reference: uuid.NewString(),
		})
		return err
	}
	return target
}

// newWorkspace makes a workspace of its own with a key, and with the members of
// another.
func newWorkspace(ctx context.Context, pool *pgxpool.Pool, like probe.Credentials, terms probe.Terms) (probe.Credentials, error) {
	id, err := workspace.Create(ctx, pool, workspace.CreateParams{
		Name: uuid.NewString(), Plan: plan.Name(terms.Plan), Paid: credit.Credits(int64(terms.Paid)),
	})
	if err != nil {
		return probe.Credentials{}, fmt.Errorf("make workspace: %w", err)
	}
	if err := agree(ctx, pool, id, terms); err != nil {
		return probe.Credentials{}, err
	}
	key, err := auth.NewKeys(pool).Create(ctx, auth.CreateParams{WorkspaceID: id, Label: "limits"})
	if err != nil {
		return probe.Credentials{}, fmt.Errorf("make key: %w", err)
	}
	_, err = pool.Exec(ctx, "INSERT INTO members (workspace_id, user_id, role) SELECT $1, user_id, role FROM members WHERE workspace_id = $2", id, like.WorkspaceID)
	if err != nil {
		return probe.Credentials{}, fmt.Errorf("make members: %w", err)
	}
	like.WorkspaceID, like.APIKey, like.APISecret = id.String(), key.APIKey, key.APISecret
	return like, nil
}

// agree sets what the terms say beyond the plan.
func agree(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID, terms probe.Terms) error {
	var books billing.Books
	if !terms.Then.IsZero() {
		books.Now = func() time.Time { return terms.Then }
	}
	if terms.RPS != nil || terms.RPH != nil || terms.Credits != nil || terms.UsageLimit != nil {
		err := books.SetPlan(ctx, pool, billing.Plan{
			WorkspaceID: id, Name: plan.Name(terms.Plan), RPS: terms.RPS, RPH: terms.RPH,
			Credits: amount(terms.Credits), UsageLimit: amount(terms.UsageLimit),
		})
		if err != nil {
			return err
		}
	}
	if terms.Spent == 0 {
		return nil
	}
	price := credit.Credits(int64(terms.Spent))
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		refusals, _, err := books.DecideTx(ctx, tx, []billing.Want{{WorkspaceID: id, Amount: price}})
		if err = errors.Join(append(refusals, err)...); err != nil {
			return fmt.Errorf("spend: %w", err)
		}
		_, err = books.SettleTx(ctx, tx, []billing.Charge{{WorkspaceID: id, ExecutionID: uuid.Must(uuid.NewV7()), Amount: price, Reserved: price}})
		return err
	})
}

func amount(credits *int) *credit.Amount {
	if credits == nil {
		return nil
	}
	return new(credit.Credits(int64(*credits)))
}

// node starts one process's worth of a service, on a database.
func node(t *testing.T, dsn string, authority *probe.Authority) *app.App {
	t.Helper()
	cfg, err := app.ConfigFromEnv([]string{
		"DATABASE_URL=" + dsn,
		"WEFT_MASTER_KEY=3lbbMEpWSSOAvTGlSBeSRb1l9hAFgRtPBTOFsSwsmw8=",
		"WEFT_ADDR=127.0.0.1:0", "WEFT_OPS_ADDR=127.0.0.1:0",
		"WEFT_ALLOW_NETWORKS=127.0.0.1/32", "WEFT_TRUSTED_PROXIES=127.0.0.1/32",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.LimiterPatience = 10 * time.Second // the cases are about what the database decides, however busy it is
	cfg.Work, cfg.EgressRoots, cfg.CallbackSchedule = true, authority.Pool, schedule
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	running, err := app.Start(context.Background(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	return running
}

func makeWorkspace(t *testing.T, ctx context.Context, pool *pgxpool.Pool, name string) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workspace.Create(ctx, pool, workspace.CreateParams{ID: id, Name: name, Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)}); err != nil {
		t.Fatalf("make workspace %s: %v", name, err)
	}
	return id
}

// makePoor makes a workspace that can pay for two executions.
func makePoor(t *testing.T, ctx context.Context, pool *pgxpool.Pool, baseURL string) probe.Credentials {
	t.Helper()
	id, err := workspace.Create(ctx, pool, workspace.CreateParams{Name: "poor", Plan: plan.Enterprise, Paid: credit.Credits(2)})
	if err != nil {
		t.Fatalf("make the poor workspace: %v", err)
	}
	poor, _ := makeKey(t, ctx, pool, baseURL, id)
	return poor
}

func makeKey(t *testing.T, ctx context.Context, pool *pgxpool.Pool, baseURL string, workspaceID uuid.UUID) (probe.Credentials, uuid.UUID) {
	t.Helper()
	key, err := auth.NewKeys(pool).Create(ctx, auth.CreateParams{WorkspaceID: workspaceID, Label: "conformance"})
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return probe.Credentials{BaseURL: baseURL, WorkspaceID: workspaceID.String(), APIKey: key.APIKey, APISecret: key.APISecret}, key.KeyID
}

// makeOwner makes somebody the owner of the workspace of the credentials.
func makeOwner(t *testing.T, ctx context.Context, pool *pgxpool.Pool, c *probe.Credentials, email string) {
	t.Helper()
	c.AdminEmail, c.AdminPassword = email, rand.Text()
	_, err := person.CreateOwner(ctx, pool, uuid.MustParse(c.WorkspaceID), person.Account{Email: email, Name: "Owner", Password: c.AdminPassword})
	if err != nil {
		t.Fatalf("make the owner: %v", err)
	}
}

// newKey makes another key of a workspace, that can be revoked.
func newKey(ctx context.Context, pool *pgxpool.Pool, own probe.Credentials) (probe.Credentials, func(context.Context) error, error) {
	workspaceID, err := uuid.Parse(own.WorkspaceID)
	if err != nil {
		return own, nil, err
	}
	keys := auth.NewKeys(pool)
	key, err := keys.Create(ctx, auth.CreateParams{WorkspaceID: workspaceID, Label: "revoked"})
	if err != nil {
		return own, nil, fmt.Errorf("make key: %w", err)
	}
	own.APIKey, own.APISecret = key.APIKey, key.APISecret
	return own, func(ctx context.Context) error {
		_, err := keys.Revoke(ctx, workspaceID, key.KeyID)
		return err
	}, nil
}
