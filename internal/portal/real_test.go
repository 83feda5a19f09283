package portal_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/app"
	"github.com/weft-automation/weft/internal/auth"
	"github.com/weft-automation/weft/internal/browsertest"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/plan"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/postgres/pgtest"
	"github.com/weft-automation/weft/internal/telemetry"
	"github.com/weft-automation/weft/internal/workspace"
)

// One browser looks at every page and sends requests from them to a real service. The
// reference alone takes seconds of a processor to draw, so it is drawn once.
func TestPagesAndTheirRequestsWorkInARealBrowser(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	cfg, err := app.ConfigFromEnv([]string{
		"DATABASE_URL=" + dsn, "WEFT_MASTER_KEY=3lbbMEpWSSOAvTGlSBeSRb1l9hAFgRtPBTOFsSwsmw8=",
		"WEFT_ADDR=127.0.0.1:0", "WEFT_OPS_ADDR=127.0.0.1:0", "WEFT_DRAIN_DELAY=0s",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Work = true
	var log strings.Builder
	running, err := app.Start(t.Context(), cfg, telemetry.NewLogger(&log, slog.LevelDebug))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		running.Stop(context.Background())
		if t.Failed() {
			t.Log(log.String())
		}
	})
	pool, err := postgres.Open(t.Context(), dsn, "test", postgres.Owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	id, err := workspace.Create(t.Context(), pool, workspace.CreateParams{Name: "Acme", Plan: plan.Enterprise, Paid: credit.Credits(1_000)})
	if err != nil {
		t.Fatal(err)
	}
	key, err := auth.NewKeys(pool).Create(t.Context(), auth.CreateParams{WorkspaceID: id, Label: "docs"})
	if err != nil {
		t.Fatal(err)
	}
	browsertest.Run(t, "testdata/browser.mjs", "BASE_URL="+running.URL(), "API_KEY="+key.APIKey, "API_SECRET="+key.APISecret)
}
