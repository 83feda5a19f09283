package callback

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
)

// The statement that freezes callbacks inserts the jobs that River would insert.
func TestFrozenCallbacksGetTheJobsOfRiver(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{idle: true})
	for name, c := range map[string]struct {
		kept bool
		due  time.Time
	}{
		"through the queue": {false, time.Time{}},
		"as a safety net":   {true, time.Now().Add(time.Hour)},
	} {
		f := b.accept(t, wish{url: "https://example.com"})[0]
		tx, err := b.pool.Begin(t.Context()) // never committed: no worker fetches the jobs
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		rows, err := db.New().CallbackFreezeMany(t.Context(), tx, db.CallbackFreezeManyParams{
			WorkspaceIds: []uuid.UUID{f.WorkspaceID}, ExecutionIds: []uuid.UUID{f.ID}, Bodies: [][]byte{[]byte(`{}`)}, Kept: []bool{c.kept},
			Queue: Queue, SafetyNet: time.Hour, MaxRuns: maxRuns,
		})
		if err != nil || len(rows) != 1 || rows[0].ExecutionID != f.ID {
			t.Fatalf("%s: %v, %v", name, rows, err)
		}
		rivers, err := enqueueManyTx(t.Context(), tx, b.jobs, []Args{{WorkspaceID: f.WorkspaceID, ExecutionID: f.ID}}, c.due)
		if err != nil {
			t.Fatal(err)
		}
		if ours, theirs := jobIn(t, tx, rows[0].JobID), jobIn(t, tx, rivers[0]); ours != theirs {
			t.Errorf("%s:\nours:    %s\nRiver's: %s", name, ours, theirs)
		}
	}
}

// jobIn returns a job without its ID and with times to the minute.
func jobIn(t *testing.T, tx pgx.Tx, id int64) (row string) {
	t.Helper()
	err := tx.QueryRow(t.Context(), `SELECT ((to_jsonb(j) - 'id' - 'created_at' - 'scheduled_at') ||
		jsonb_build_object('delay', date_trunc('minute', j.scheduled_at - now() + interval '30 s')))::text FROM river.river_job j WHERE id = $1`, id).Scan(&row)
	if err != nil {
		t.Fatal(err)
	}
	return row
}
