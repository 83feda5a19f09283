// Package pagetest starts a Weft for tests of pages, and signs in to it as a browser does.
package pagetest

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/program/app"
)

// The owner of the workspace.
const (
	Email    = "owner@example.org"
	Password = "correct horse battery staple"
)

// Service is a running Weft with a workspace and its owner.
type Service struct {
	URL         string
	WorkspaceID uuid.UUID
	Pool        *pgxpool.Pool // connected as the owner of the tables
	Log         *strings.Builder
	Stop        func()
}

// Start starts a Weft until the test ends.
func Start(t *testing.T) *Service {
	t.Helper()
	s := &Service{Log: &strings.Builder{}}
	dsn := pgtest.DSN(t)
	cfg, err := app.ConfigFromEnv([]string{
		"DATABASE_URL=" + dsn, "WEFT_MASTER_KEY=3lbbMEpWSSOAvTGlSBeSRb1l9hAFgRtPBTOFsSwsmw8=",
		"WEFT_ADDR=127.0.0.1:0", "WEFT_OPS_ADDR=127.0.0.1:0", "WEFT_DRAIN_DELAY=0s", "WEFT_ALLOW_NETWORKS=127.0.0.0/8", "WEFT_TRUSTED_PROXIES=127.0.0.0/8",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Work = true
	running, err := app.Start(t.Context(), cfg, telemetry.NewLogger(s.Log, slog.LevelDebug))
	if err != nil {
		t.Fatal(err)
	}
	s.Stop = func() { running.Stop(context.Background()) }
	t.Cleanup(s.Stop)
	pool, err := postgres.Open(t.Context(), dsn, "test", postgres.Owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	id, err := workspace.Create(t.Context(), pool, workspace.CreateParams{Name: "Acme", Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := person.CreateOwner(t.Context(), pool, id, person.Account{Email: Email, Name: "Grace Hopper", Password: Password}); err != nil {
		t.Fatal(err)
	}
	s.Pool, s.URL, s.WorkspaceID = pool, running.URL(), id
	return s
}
