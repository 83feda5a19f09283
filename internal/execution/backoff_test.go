package execution_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// recordAttempts makes the database record when each pause was written and when it ends, and when
// each attempt after the first starts.
func (b *bench) recordAttempts(t *testing.T) {
	t.Helper()
	b.exec(t, `CREATE TABLE attempt_times (attempt integer, at timestamptz, due timestamptz, started timestamptz)`)
	b.exec(t, `CREATE FUNCTION record_attempt() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		INSERT INTO attempt_times VALUES (NEW.attempt, now(), NEW.not_before, NEW.attempt_started_at); RETURN NULL; END $$`)
	b.exec(t, `CREATE TRIGGER record_start AFTER UPDATE ON component_executions
		FOR EACH ROW WHEN (NEW.attempt > OLD.attempt AND NEW.attempt > 1) EXECUTE FUNCTION record_attempt()`)
	b.exec(t, `CREATE TRIGGER record_pause AFTER UPDATE ON component_executions
		FOR EACH ROW WHEN (OLD.not_before IS NULL AND NEW.not_before IS NOT NULL) EXECUTE FUNCTION record_attempt()`)
}

// checkBackOff checks the recorded times. The n-th pause lasts 1 s x 2^(n-1), plus or minus 20 %
// (decisions 4.2), and the next attempt does not start before the pause ends. How much later the
// attempt starts depends on the machine.
func (b *bench) checkBackOff(t *testing.T, attempts int) {
	t.Helper()
	type moment struct {
		Attempt int
		At      time.Time
		Due     *time.Time
		Started time.Time
	}
	rows, _ := b.pool.Query(t.Context(), `SELECT attempt, at, due, started FROM attempt_times ORDER BY attempt, due NULLS FIRST`)
	moments, err := pgx.CollectRows(rows, pgx.RowToStructByPos[moment])
	if err != nil {
		t.Fatal(err)
	}
	if len(moments) != 2*(attempts-1) {
		t.Fatalf("the database recorded %+v, want %d pauses and as many starts", moments, attempts-1)
	}
	for n := 1; n < attempts; n++ {
		pause, next := moments[2*n-2], moments[2*n-1]
		if pause.Due == nil || pause.Attempt != n || next.Due != nil || next.Attempt != n+1 {
			t.Fatalf("the database recorded %+v, want pauses and starts in turn", moments)
		}
		planned := time.Second << (n - 1)
		// The attempt ended between its start and the write of the pause.
		if pause.Due.Sub(pause.Started) < planned*8/10 || pause.Due.Sub(pause.At) > planned*12/10 {
			t.Errorf("attempt %d started at %s, paused at %s and is due at %s, planned %s", n, pause.Started, pause.At, pause.Due, planned)
		}
		if early := pause.Due.Sub(next.At); early > 0 {
			t.Errorf("attempt %d started %s before it was due", n+1, early)
		}
	}
}
