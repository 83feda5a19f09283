package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
)

const (
	dueAtOnce = 500
	// behindEvery is how often the sweep looks for runs whose folds were lost, of how many
	// executions, and behindAfter how long a fold may be on its way before it counts as that.
	behindEvery  = 2 * time.Second
	behindAtOnce = 5_000
	behindAfter  = time.Second
)

// Sweeper folds the runs that nobody else does: those whose timers are due, and those
// whose folds were lost with a process. One process sweeps at a time. It goes through what
// there is in parts, and begins again after the last one.
type Sweeper struct {
	engine *Engine
	due    time.Time // of the last run that was due
	again  time.Time // when to look for lost folds
	behind uuid.UUID // the last execution that was looked at for them
}

// NewSweeper makes a sweeper.
func NewSweeper(e *Engine) *Sweeper { return &Sweeper{engine: e} }

// Sweep is to be called about every second. Failures are logged: the next call comes
// soon.
func (w *Sweeper) Sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.sweep(ctx); err != nil && ctx.Err() == nil && !postgres.Unavailable(err) {
		w.engine.Log.WarnContext(ctx, "runs were not swept", "error", err)
	}
}

func (w *Sweeper) sweep(ctx context.Context) error {
	if err := w.wakeDue(ctx); err != nil {
		return fmt.Errorf("list runs that are due: %w", err)
	}
	if time.Now().Before(w.again) {
		return nil
	}
	w.again = time.Now().Add(behindEvery)
	if err := w.wakeBehind(ctx); err != nil {
		return fmt.Errorf("list runs that are behind: %w", err)
	}
	return nil
}

func (w *Sweeper) wakeDue(ctx context.Context) error {
	e := w.engine
	rows, err := db.New().RunListDue(ctx, e.System, db.RunListDueParams{After: w.due, MaxRows: dueAtOnce})
	if err != nil {
		return err
	}
	w.due = time.Time{}
	for _, row := range rows {
		e.folder.wake(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID})
	}
	if len(rows) == dueAtOnce {
		w.due = rows[len(rows)-1].WakeAt
	}
	return nil
}

func (w *Sweeper) wakeBehind(ctx context.Context) error {
	e := w.engine
	rows, err := db.New().RunListBehind(ctx, e.System, db.RunListBehindParams{After: w.behind, Grace: behindAfter, MaxRows: behindAtOnce})
	if err != nil {
		return err
	}
	w.behind = uuid.Nil
	for _, row := range rows {
		if row.Behind {
			e.folder.wake(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.RunID})
		}
	}
	if len(rows) == behindAtOnce {
		w.behind = rows[len(rows)-1].ExecutionID
	}
	return nil
}
