package app

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// setForDatabase changes settings of the database of dsn, for sessions that start later.
func setForDatabase(t *testing.T, dsn string, settings ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, setting := range settings {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET %s", conn.Config().Database, setting)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAProcessWorksWhateverAnAdministratorSetsForTheDatabase(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(cfg *Config) {
		setForDatabase(t, cfg.DatabaseURL, "default_transaction_isolation = 'repeatable read'", "row_security = off", "search_path = other",
			"idle_session_timeout = '500ms'", "client_encoding = LATIN1", "synchronous_commit = off", "exit_on_error = on", "datestyle = 'German, DMY'", "bytea_output = escape",
			"intervalstyle = iso_8601", "standard_conforming_strings = off", "transform_null_equals = on", "array_nulls = off", "quote_all_identifiers = on", "statement_timeout = '1ms'")
	})
	for range 3 {
		executeOnce(t, w)
	}
	if code, body := readiness(t, w); code != http.StatusOK {
		t.Errorf("not ready: %s", body)
	}
	if answer := w.get(t, w.app.OpsURL()+"/metrics"); !strings.Contains(answer, "weft_") {
		t.Error("no metrics")
	}
}

func TestAProcessNamesTheSettingWithWhichItDoesNotStart(t *testing.T) {
	t.Parallel()
	cfg := Config{DatabaseURL: pgtest.DSN(t), Addr: "127.0.0.1:0", OpsAddr: "127.0.0.1:0", Work: true, Workers: 2}
	setForDatabase(t, cfg.DatabaseURL, "session_replication_role = replica")
	ring, err := keyring(goodKey, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Keyring = ring
	if a, err := Start(t.Context(), cfg, telemetry.NewLogger(io.Discard, slog.LevelError)); err == nil {
		a.Stop(t.Context())
		t.Error("it started without triggers")
	} else if !strings.Contains(err.Error(), "session_replication_role") {
		t.Errorf("got %v", err)
	}
}
