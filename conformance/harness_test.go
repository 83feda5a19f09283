package conformance

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/program/app"
	"github.com/weft-automation/weft/internal/program/conformseed"
)

// TestMain stops what the tests booted.
func TestMain(m *testing.M) {
	code := m.Run()
	if deployment.stop != nil {
		deployment.stop()
	}
	os.Exit(code)
}

// deployment is the deployment under test. It is the deployment at CONFORMANCE_URL or, if that is
// not set, a deployment that the first test starts for all tests.
var deployment struct {
	once   sync.Once
	target *probe.Target
	pool   *pgxpool.Pool // nil if the deployment was not booted by this test
	stop   func()
}

// target returns the deployment under test.
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

// reach returns a running deployment.
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

// lasting is a testing.TB whose cleanups run at the end of the process.
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

// schedule is the callback schedule of the started deployment. The schedule is short, so that a
// case can wait until it is exhausted. One of its delays is long enough for a replay.
var schedule = []time.Duration{0, 300 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond, 5 * time.Second}

// boot starts a complete service on a new database.
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

	target, err := probe.NewTarget(makeTenant(t, ctx, pool, running.URL(), "conformance"))
	if err != nil {
		t.Fatal(err)
	}
	target.Unhurried = !waittest.Timed()
	target.Authority, target.Near, target.Forwarded, target.Schedule = authority, true, true, schedule
	if err := conformseed.Offer(ctx, pool, target); err != nil {
		t.Fatal(err)
	}
	return target
}

// node starts one node of a service on a database.
func node(t *testing.T, dsn string, authority *probe.Authority) *app.App {
	t.Helper()
	cfg, err := app.ConfigFromEnv([]string{
		"DATABASE_URL=" + dsn,
		"WEFT_MASTER_KEY=3lbbMEpWSSOAvTGlSBeSRb1l9hAFgRtPBTOFsSwsmw8=",
		"WEFT_ADDR=127.0.0.1:0", "WEFT_OPS_ADDR=127.0.0.1:0", "WEFT_DRAIN_DELAY=0s",
		"WEFT_ALLOW_NETWORKS=127.0.0.1/32", "WEFT_TRUSTED_PROXIES=127.0.0.1/32",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.LimiterPatience = 10 * time.Second // the cases are about what the database decides, however busy it is
	cfg.Work, cfg.EgressRoots, cfg.CallbackSchedule = true, authority.Pool, schedule
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	running, err := app.Start(context.Background(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	return running
}

// makeTenant creates a workspace with a key.
func makeTenant(t *testing.T, ctx context.Context, pool *pgxpool.Pool, baseURL, name string) probe.Credentials {
	t.Helper()
	id, err := workspace.Create(ctx, pool, workspace.CreateParams{Name: name, Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)})
	if err != nil {
		t.Fatalf("make the workspace: %v", err)
	}
	key, err := auth.NewKeys(pool).Create(ctx, auth.CreateParams{WorkspaceID: id, Label: "conformance"})
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	return probe.Credentials{BaseURL: baseURL, WorkspaceID: id.String(), APIKey: key.APIKey, APISecret: key.APISecret}
}
