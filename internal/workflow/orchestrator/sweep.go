package orchestrator

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	dueBatch = 500
	// Every behindEvery, the sweep checks for runs whose advances were lost, in batches of
	// behindAtOnce executions. An advance counts as lost behindAfter after the execution finished.
	behindEvery  = 5 * time.Second
	behindAtOnce = 5_000
	behindAfter  = time.Second
)

// Sweeper wakes runs that no process advances: runs with a due timer, and runs whose advances were lost
// with a process. One process sweeps at a time. Each sweep reads the batch after that of the
// previous sweep, and starts over after the last row.
type Sweeper struct {
	// Schedule is called every second for each schedule that is due. It must return immediately. If
	// it is nil, schedules are ignored.
	Schedule func(notify.Key)

	o         *Orchestrator
	due       mark      // last due run of the previous batch
	schedules mark      // last due schedule of the previous batch
	waiting   mark      // last schedule of the previous batch with a waiting run
	again     time.Time // when to check for lost advances next
	behind    uuid.UUID // last execution that was checked for a lost advance
}

// NewSweeper returns a Sweeper for the orchestrator.
func NewSweeper(o *Orchestrator) *Sweeper { return &Sweeper{o: o} }

// Sweep wakes the runs and schedules that are due. Call it about once a second. It logs failures
// and leaves them to the next call.
func (w *Sweeper) Sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.sweep(ctx); err != nil && ctx.Err() == nil && !postgres.Unavailable(err) {
		w.o.Log.WarnContext(ctx, "failed to sweep runs; the next sweep retries", "error", err)
	}
}

func (w *Sweeper) sweep(ctx context.Context) error {
	if err := w.wakeDue(ctx); err != nil {
		return fmt.Errorf("list due runs: %w", err)
	}
	if time.Now().Before(w.again) {
		return nil
	}
	w.again = time.Now().Add(behindEvery)
	if err := w.wakeBehind(ctx); err != nil {
		return fmt.Errorf("list runs whose advances were lost: %w", err)
	}
	return nil
}

// wakeDue wakes the next batch of runs and schedules that are due.
func (w *Sweeper) wakeDue(ctx context.Context) error {
	rows, err := db.New().RunListDue(ctx, w.o.System, db.RunListDueParams{
		After: w.due.at, SchedulesAfter: w.schedules.at, SchedulesAfterID: w.schedules.id, WaitingAfter: w.waiting.id, MaxRows: dueBatch,
	})
	if err != nil {
		return err
	}
	var runs, schedules, waiting page
	for _, row := range rows {
		key := notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		switch row.Kind {
		case "run":
			w.o.dispatcher.wake(key)
			runs.add(mark{row.At, row.ID})
			continue
		case "schedule":
			schedules.add(mark{row.At, row.ID})
		case "waiting":
			waiting.add(mark{id: row.ID})
		}
		if w.Schedule != nil {
			w.Schedule(key)
		}
	}
	w.due, w.schedules, w.waiting = runs.next(), schedules.next(), waiting.next()
	return nil
}

// mark is a position in the list of due rows, which is ordered by time, then ID.
type mark struct {
	at time.Time
	id uuid.UUID
}

func (m mark) compare(other mark) int {
	return cmp.Or(m.at.Compare(other.at), bytes.Compare(m.id[:], other.id[:]))
}

// page counts the rows of a batch and holds the position of the last one.
type page struct {
	rows int
	last mark
}

func (p *page) add(m mark) {
	p.rows++
	if m.compare(p.last) > 0 {
		p.last = m
	}
}

// next returns the position after which the next sweep starts. The position is zero if the batch
// was not full.
func (p *page) next() mark {
	if p.rows < dueBatch {
		return mark{}
	}
	return p.last
}

// wakeBehind wakes runs whose executions have finished without an advance.
func (w *Sweeper) wakeBehind(ctx context.Context) error {
	rows, err := db.New().RunListStageExecutions(ctx, w.o.System, db.RunListStageExecutionsParams{After: w.behind, Grace: behindAfter, MaxRows: behindAtOnce})
	if err != nil {
		return err
	}
	w.behind = uuid.Nil
	for _, row := range rows {
		if row.Behind {
			w.o.dispatcher.wake(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.RunID})
		}
	}
	if len(rows) == behindAtOnce {
		w.behind = rows[len(rows)-1].ExecutionID
	}
	return nil
}
