package cli_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
)

func TestDoctorReportsWhatTheLastAuditFound(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	environ := []string{"DATABASE_URL=" + dsn}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("INSERT INTO installation (place, timeline) VALUES (place_of_database(), timeline_of_database())")
	run(t, environ, "", "keys", "create", "--new-workspace", "--workspace=shop", "--plan=growth").check(t, 0, "", "The secret is not shown again")
	for _, c := range []struct {
		change string
		audit  int // exit code of the audit; -1: no audit
		wants  []string
	}{
		{"UPDATE credit_accounts SET paid = paid + 1", 1, []string{"the last audit found 1 wrong row"}},
		{"UPDATE credit_accounts SET paid = paid - 1", 0, []string{"the last complete audit is 0s old"}},
		{"UPDATE workspaces SET billing_stopped_at = now()", -1, []string{"the billing of 1 workspace is stopped"}},
	} {
		exec(c.change)
		if c.audit >= 0 {
			run(t, environ, "", "audit").check(t, c.audit, "", "")
		}
		got := doctor(t, environ, "--addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--data-dir="+t.TempDir())
		for _, want := range c.wants {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("after %s the output of doctor lacks %q:\n%s", c.change, want, got.stdout)
			}
		}
	}
}
