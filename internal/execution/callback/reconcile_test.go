package callback

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

func TestStrandedCallbacksAreRequeuedForWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{idle: true})
	r := b.receiver(t, nil)
	finals := b.accept(t, wish{url: r.url}, wish{url: r.url}, wish{url: r.url}, wish{url: r.url})
	b.finish(t, false, finals...)
	lost, discarded, taken, waiting := finals[0], finals[1], finals[2], finals[3]
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("DELETE FROM river.river_job WHERE id = $1", *b.row(t, lost).JobID)
	exec("UPDATE river.river_job SET state = 'discarded', finalized_at = now() WHERE id = $1", *b.row(t, discarded).JobID)
	exec("UPDATE river.river_job SET state = 'running', attempted_at = now() - interval '1 hour' WHERE id = $1", *b.row(t, taken).JobID)
	exec("DELETE FROM river.river_job WHERE id = $1", *b.row(t, waiting).JobID)
	exec("UPDATE callbacks SET due_at = now() + interval '1 hour' WHERE execution_id = $1", waiting.ID)
	b.deliverer.Sweep(t.Context())
	var transactions int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(DISTINCT xmin::text) FROM callbacks").Scan(&transactions); err != nil || transactions != 1 {
		t.Errorf("they were requeued in %d transactions, %v, want 1", transactions, err)
	}
	b.start(t)
	b.await(t, 3)
	for _, f := range finals[:3] {
		if row := b.row(t, f); row.State != "DELIVERED" || row.AttemptCount != 1 {
			t.Errorf("%+v", row)
		}
	}
	row := b.row(t, waiting)
	var in float64
	if err := b.pool.QueryRow(t.Context(), "SELECT extract(epoch FROM scheduled_at - now()) FROM river.river_job WHERE id = $1", *row.JobID).Scan(&in); err != nil || in < 3500 {
		t.Errorf("the one that waits is due in %.0f s, %v", in, err)
	}
	if n := len(r.all()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestSecretsAreErasedWhenNoDeliveryNeedsThem(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{idle: true})
	secret := "s"
	now := time.Now()
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		age       time.Duration
		state     string
		delivered time.Duration // ago; 0: never
		erased    bool
	}{
		"delivered long ago":     {5 * day, "DELIVERED", 4 * day, true},
		"delivered lately":       {5 * day, "DELIVERED", 2 * day, false},
		"exhausted lately":       {5 * day, "EXHAUSTED", 0, false},
		"exhausted long ago":     {31 * day, "EXHAUSTED", 0, true},
		"queued, however old":    {31 * day, "QUEUED", 0, false},
		"queued for a replay":    {31 * day, "QUEUED", 30 * day, false},
		"just delivered":         {time.Hour, "DELIVERED", time.Minute, false},
		"long unfinished":        {31 * day, "PENDING", 0, false},
		"delivered after a week": {12 * day, "DELIVERED", 5 * day, true},
	} {
		f := b.accept(t, wish{url: "https://example.com/", secret: &secret})[0]
		id := cursor.LeastID(now.Add(-c.age))
		copy(id[8:], f.ID[8:])
		var at *time.Time
		if c.delivered > 0 {
			at = new(now.Add(-c.delivered))
		}
		err := b.rename(t, f, id.String(), c.state, at)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.deliverer.erase(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		row, err := db.New().CallbackGet(t.Context(), b.pool, db.CallbackGetParams{WorkspaceID: b.workspace, ExecutionID: id})
		if err != nil || (row.Sealed == nil) != c.erased {
			t.Errorf("%s: erased is %v, %v", name, row.Sealed == nil, err)
		}
	}
}

// A replay needs its secrets even if it starts while they are about to be erased.
func TestSecretsOfAReplayThatStartsMeanwhileAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{idle: true})
	secret := "s"
	f := b.accept(t, wish{url: "https://example.com/", secret: &secret})[0]
	now := time.Now()
	id := cursor.LeastID(now.Add(-5 * 24 * time.Hour))
	if err := b.rename(t, f, id.String(), "DELIVERED", new(now.Add(-4*24*time.Hour))); err != nil {
		t.Fatal(err)
	}
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // the transaction has finished by then
	if _, err := tx.Exec(t.Context(), "UPDATE callbacks SET state = 'QUEUED' WHERE execution_id = $1", id); err != nil {
		t.Fatal(err)
	}
	erased := make(chan error, 1)
	go func() { erased <- b.deliverer.erase(t.Context(), now) }()
	waittest.Until(t, "the erasure waits for the row", func() (waits bool) {
		if err := b.pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	if err := errors.Join(tx.Commit(t.Context()), <-erased); err != nil {
		t.Fatal(err)
	}
	row, err := db.New().CallbackGet(t.Context(), b.pool, db.CallbackGetParams{WorkspaceID: b.workspace, ExecutionID: id})
	if err != nil || row.Sealed == nil {
		t.Errorf("the secret of a replay was erased, %v", err)
	}
}

// rename changes the ID of a callback, so that it has a different creation time.
func (b *bench) rename(t *testing.T, f Final, id, state string, deliveredAt *time.Time) error {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), `WITH e AS (
			INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, job_id, created_at, updated_at)
			VALUES ($1, $2, 'X', 'CREATED', '', 1, 0, now(), now()))
		UPDATE callbacks SET execution_id = $2, state = $3, body = '{}', job_id = 0, delivered_at = $4 WHERE execution_id = $5`,
		b.workspace, id, state, deliveredAt, f.ID)
	return err
}

func TestTheFinishingProcessDelivers(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{idle: true})
	r := b.receiver(t, nil)
	finals := b.accept(t, wish{url: r.url}, wish{url: r.url})
	b.finish(t, true, finals...)
	b.await(t, 2)
	for _, f := range finals {
		if row := b.row(t, f); row.State != "DELIVERED" || row.AttemptCount != 1 {
			t.Errorf("%+v", row)
		}
	}
	if n := b.jobsLeft(t); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

func TestInterruptedDeliveriesReturnToTheQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{idle: true})
	entered := make(chan struct{})
	release := make(chan struct{})
	r := b.receiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			close(entered)
			<-release
		}
	})
	f := b.accept(t, wish{url: r.url})[0]
	b.finish(t, true, f)
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.deliverer.Drain(ctx)
	close(release)
	row := b.row(t, f)
	var in float64
	err := b.pool.QueryRow(t.Context(), "SELECT extract(epoch FROM scheduled_at - now()) FROM river.river_job WHERE id = $1 AND state = 'available'", *row.JobID).Scan(&in)
	if err != nil || row.State != stateQueued || row.AttemptCount != 0 || in > 2 {
		t.Errorf("state %s, %d attempts, due in %.1f s, %v", row.State, row.AttemptCount, in, err)
	}
}
