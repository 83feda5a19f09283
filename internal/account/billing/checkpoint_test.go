package billing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// postings inserts n grants of one credit each and adds them to the account. They are spread
// over the last 30 days; the newest is older than the interval age.
func (d *desk) postings(id uuid.UUID, n int, age string) {
	d.t.Helper()
	for first := 1; first <= n; first += 200_000 {
		err := d.tx(func(tx pgx.Tx) error {
			// Only the audit must stay within the statement timeout: on a busy disk, this may take longer.
			if _, err := tx.Exec(d.t.Context(), "SET LOCAL statement_timeout = 0"); err != nil {
				return err
			}
			_, err := tx.Exec(d.t.Context(), `INSERT INTO credit_postings (workspace_id, id, kind, reference, paid, granted, created_at)
			SELECT $1, (left(least_id(at)::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, 'GRANT', 'many ' || at || n, 1000000, -1000000, at
			FROM (SELECT n, now() - $3::interval - CASE WHEN $3::interval > '0' THEN interval '30 days' * n / $2::integer ELSE '0' END AS at
				FROM generate_series($4::integer, LEAST($2::integer, $4::integer + 199999)) AS n) AS made`, id, n, age, first)
			return err
		})
		if err != nil {
			d.t.Fatal(err)
		}
	}
	d.exec("UPDATE credit_accounts SET paid = paid + $2::bigint * 1000000 WHERE workspace_id = $1", id, n)
}

func (d *desk) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.pool.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatal(err)
	}
}

// tamper changes postings without their protecting trigger, as the owner of the database
// could.
func (d *desk) tamper(sql string, args ...any) {
	d.t.Helper()
	d.exec("ALTER TABLE credit_postings DISABLE TRIGGER USER")
	d.exec(sql, args...)
	d.exec("ALTER TABLE credit_postings ENABLE TRIGGER USER")
}

// recent runs an hourly audit and returns its drifts, one on a line.
func (d *desk) recent() string {
	d.t.Helper()
	drifts, _, err := billing.AuditRecent(d.t.Context(), d.pool)
	if err != nil {
		d.t.Fatal(err)
	}
	var all []string
	for _, drift := range drifts {
		all = append(all, drift.String())
	}
	return strings.Join(all, "\n")
}

func TestAuditReadsOnlyPostingsAfterTheCheckpoint(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, 0)
	d.postings(id, 5000, "1 hour")
	if found := d.recent(); found != "" {
		t.Fatalf("right books: %s", found)
	}
	if got := d.text("SELECT count(*) || ' of ' || sum(postings) || ' with ' || sum(paid) FROM credit_checkpoints WHERE workspace_id = $1", id); got != "1 of 5000 with 5000000000" {
		t.Errorf("checkpoints: %s", got)
	}
	// The audit uses the sums of the checkpoint: if they are wrong, so is the account.
	d.exec("UPDATE credit_checkpoints SET paid = paid + 1 WHERE workspace_id = $1", id)
	if found := d.recent(); !strings.Contains(found, "account "+id.String()) {
		t.Errorf("with a wrong checkpoint: %s", found)
	}
	d.exec("UPDATE credit_checkpoints SET paid = paid - 1 WHERE workspace_id = $1", id)
	// Later postings are read, and join the checkpoint once they are old enough.
	d.postings(id, 7, "0")
	d.exec("UPDATE credit_accounts SET paid = paid + 1 WHERE workspace_id = $1", id)
	if found := d.recent(); !strings.Contains(found, "has 5007.000001 paid credits, but its postings sum to 5007") {
		t.Errorf("an account that became wrong later: %s", found)
	}
}

func TestTheMonthsUsageIsAuditedAcrossCheckpoints(t *testing.T) {
	t.Parallel()
	d := newDesk(t, time.Now().UTC().Format(time.RFC3339))
	id := d.open("a", plan.Growth, 0)
	// Usage of this month and of the last, older than the margin.
	d.exec(`INSERT INTO credit_postings (workspace_id, id, kind, reference, plan, allowance, usage, created_at)
		SELECT $1, (left(least_id(now() - interval '1 day')::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, 'RUN', 'week ' || n, -2, -3, 5,
		       date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + CASE WHEN n > 4 THEN interval '1 minute' ELSE interval '-1 day' END
		FROM generate_series(1, 10) AS n`, id)
	d.exec(`INSERT INTO credit_postings (workspace_id, id, kind, reference, plan, released, created_at)
		VALUES ($1, least_id(now() - interval '2 days'), 'RELEASE', 'test', 100, -100, now() - interval '2 days')`, id)
	d.exec("UPDATE credit_accounts SET plan = plan + 80, plan_used = plan_used + 12, allowance_used = allowance_used + 18 WHERE workspace_id = $1", id)
	for range 2 { // first all postings are read, then the checkpoint is used
		found := d.recent()
		for line := range strings.Lines(found) {
			if strings.Contains(line, "account ") {
				t.Errorf("right books: %s", line)
			}
		}
	}
	d.exec("UPDATE credit_accounts SET plan_used = plan_used + 1 WHERE workspace_id = $1", id)
	if found := d.recent(); !strings.Contains(found, "of the month's plan credits") {
		t.Errorf("wrong usage: %s", found)
	}
}

// Old postings that were changed together with the account are found when their
// checkpoint is verified.
func TestChangedPostingsBelowACheckpointAreFound(t *testing.T) {
	t.Parallel()
	for what, change := range map[string][]string{
		"changed": {"UPDATE credit_postings SET paid = paid + 1, granted = granted - 1 WHERE id = $1", "UPDATE credit_accounts SET paid = paid + 1"},
		"deleted": {"DELETE FROM credit_postings WHERE id = $1", "UPDATE credit_accounts SET paid = paid - 1000000"},
		"swapped": {"UPDATE credit_postings SET reference = 'another' WHERE id = $1", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, noon)
			id := d.open("a", plan.Starter, 0)
			d.postings(id, 100, "1 hour")
			if found := d.recent(); found != "" {
				t.Fatalf("right books: %s", found)
			}
			victim := d.text("SELECT id::text FROM credit_postings WHERE workspace_id = $1 ORDER BY id OFFSET 50 LIMIT 1", id)
			d.tamper(change[0], victim)
			if change[1] != "" {
				d.exec(change[1])
			}
			if found := d.recent(); !strings.Contains(found, "changed since their checkpoint") {
				t.Errorf("an hourly audit found %q", found)
			}
			drifts, _, err := billing.Audit(t.Context(), d.pool, id)
			if err != nil || len(drifts) == 0 {
				t.Errorf("a full audit found %v, %v", drifts, err)
			}
			if now, err := billing.Stop(t.Context(), d.pool, drifts); err != nil || len(now) != 1 {
				t.Errorf("stopped %v, %v", now, err)
			}
			// The operator has resolved the differences.
			if err := billing.RenewCheckpoints(t.Context(), d.pool, id); err != nil {
				t.Fatal(err)
			}
			found := d.recent()
			if what == "swapped" && found != "" || strings.Contains(found, "checkpoint") {
				t.Errorf("with new checkpoints: %s", found)
			}
		})
	}
}

// Each hourly audit verifies one checkpoint: the one that was verified longest ago.
func TestHourlyAuditsVerifyCheckpointsInTurns(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, 0)
	d.postings(id, 300, "1 hour")
	if found := d.recent(); found != "" {
		t.Fatal(found)
	}
	// Replace the checkpoint with three.
	d.exec("UPDATE credit_checkpoints SET workspace_id = gen_random_uuid()")
	d.exec(`WITH ids AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM credit_postings WHERE workspace_id = $1),
		bounds AS (SELECT COALESCE(lag(id) OVER (ORDER BY n), '00000000-0000-0000-0000-000000000000') AS after, id AS upto FROM ids WHERE n % 100 = 0),
		made AS (SELECT $1::uuid AS workspace_id, b.after, b.upto, 100 AS postings, 0 AS plan, 100000000 AS paid, c.month, 0 AS plan_used, 0 AS allowance_used,
			'wrong' AS checksum, c.made_at, now() - interval '1 day' * row_number() OVER (ORDER BY b.after) AS verified_at FROM bounds b CROSS JOIN credit_checkpoints c)
		INSERT INTO credit_checkpoints SELECT * FROM made`, id)
	third := d.text("SELECT after::text FROM credit_checkpoints WHERE workspace_id = $1 ORDER BY after DESC LIMIT 1", id)
	if found := d.recent(); strings.Count(found, "changed since") != 1 || !strings.Contains(found, "postings after "+third) {
		t.Errorf("found %s", found)
	}
}

func TestOnlyCompleteAuditsAreRecorded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	d.open("a", plan.Starter, 0)
	d.exec("INSERT INTO installation (place, timeline, audited_at) VALUES ('here', 1, now() - interval '3 hours')")
	conn := &failing{DB: d.pool, fails: 1}
	if _, _, err := billing.AuditRecent(t.Context(), conn); err == nil {
		t.Fatal("the audit did not fail")
	}
	if got := d.text("SELECT (now() - audited_at > interval '2 hours')::text FROM installation"); got != "true" {
		t.Error("an incomplete audit was recorded")
	}
	if found := d.recent(); found != "" {
		t.Fatal(found)
	}
	if got := d.text("SELECT (now() - audited_at < interval '2 hours')::text FROM installation"); got != "true" {
		t.Error("a complete audit was not recorded")
	}
}

// The account of a workspace with many postings is audited in parts, each of which stays
// far below the statement timeout of a minute.
func TestLE09ManyPostingsAreAudited(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/account/billing.TestAuditReadsOnlyPostingsAfterTheCheckpoint", "internal/account/billing.TestChangedPostingsBelowACheckpointAreFound") {
		return
	}
	t.Parallel()
	const n = 10_000_000
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, 0)
	started := time.Now()
	took := func() string {
		since := time.Since(started)
		started = time.Now()
		return since.Round(time.Millisecond).String()
	}
	d.postings(id, n, "1 hour")
	inserted := took()
	if found := d.recent(); found != "" {
		t.Fatalf("right books: %s", found)
	}
	first := took()
	if got := d.text("SELECT count(*) || ' ' || sum(postings) || ' ' || max(postings) FROM credit_checkpoints"); got != fmt.Sprint((n+199_999)/200_000, " ", n, " 200000") {
		t.Errorf("checkpoints: %s", got)
	}
	if found := d.recent(); found != "" {
		t.Errorf("right books: %s", found)
	}
	hourly := took()
	d.exec("UPDATE credit_accounts SET paid = paid + 1")
	if found := d.recent(); !strings.Contains(found, "account "+id.String()) {
		t.Errorf("a wrong account: %s", found)
	}
	d.exec("UPDATE credit_accounts SET paid = paid - 1")
	took()
	if drifts, _, err := billing.Audit(t.Context(), d.pool, uuid.Nil); err != nil || len(drifts) > 0 {
		t.Errorf("a full audit: %v, %v", drifts, err)
	}
	t.Logf("%d postings: inserted in %s, the first audit took %s, an hourly one %s, a full one %s", n, inserted, first, hourly, took())
}
