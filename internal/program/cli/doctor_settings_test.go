package cli_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
)

func TestDoctorNamesSettingsThatHarmSilently(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, setting := range []string{"track_activities = off", "track_counts = off", "zero_damaged_pages = on", "ignore_checksum_failure = on"} {
		if _, err := conn.Exec(t.Context(), "ALTER DATABASE "+conn.Config().Database+" SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	got := doctor(t, []string{"DATABASE_URL=" + dsn}, "--addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--data-dir="+t.TempDir())
	for _, want := range []string{"track_activities is off", "track_counts is off", "zero_damaged_pages is on", "ignore_checksum_failure is on"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the output of doctor lacks %q:\n%s", want, got.stdout)
		}
	}
}
