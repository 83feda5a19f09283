package run

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
)

const (
	sweepAtOnce = 500
	// behindEvery is how often the sweep looks for runs whose folds were lost, and
	// behindAfter how long a fold may be on its way before it counts as that.
	behindEvery = 2 * time.Second
	behindAfter = time.Second
)

// Sweeper folds the runs that nobody else does: those whose timers are due, and those
// whose folds were lost with a process. One process sweeps at a time.
type Sweeper struct {
	service *Service
	due     time.Time // when to look for lost folds
	walked  notify.Key
}

// NewSweeper makes a sweeper.
func NewSweeper(s *Service) *Sweeper { return &Sweeper{service: s} }

// Sweep is to be called about every second. Failures are logged: the next call comes
// soon.
func (w *Sweeper) Sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.sweep(ctx); err != nil && ctx.Err() == nil && !postgres.Unavailable(err) {
		w.service.Log.WarnContext(ctx, "runs were not swept", "error", err)
	}
}

func (w *Sweeper) sweep(ctx context.Context) error {
	s := w.service
	due, err := db.New().RunListDue(ctx, s.System, sweepAtOnce)
	if err != nil {
		return err
	}
	for _, row := range due {
		s.folder.wake(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID})
	}
	if time.Now().Before(w.due) {
		return nil
	}
	w.due = time.Now().Add(behindEvery)
	behind, err := db.New().RunListBehind(ctx, s.System, db.RunListBehindParams{
		AfterWorkspaceID: w.walked.WorkspaceID, After: w.walked.ID, Grace: behindAfter, MaxRows: sweepAtOnce,
	})
	if err != nil {
		return err
	}
	w.walked = notify.Key{WorkspaceID: uuid.Nil}
	for _, row := range behind {
		key := notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		s.folder.wake(key)
		if len(behind) == sweepAtOnce {
			w.walked = key
		}
	}
	return nil
}

// Changed is the notify.Relay's check: which of the keys ended, or changed within the
// given time.
func Changed(conn postgres.DB) func(context.Context, []notify.Key, time.Duration) ([]notify.Key, error) {
	return func(ctx context.Context, keys []notify.Key, within time.Duration) ([]notify.Key, error) {
		p := db.RunChangedSinceParams{Since: within}
		for _, key := range keys {
			p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, key.WorkspaceID), append(p.Ids, key.ID)
		}
		rows, err := db.New().RunChangedSince(ctx, conn, p)
		changed := make([]notify.Key, len(rows))
		for i, row := range rows {
			changed[i] = notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		}
		return changed, err
	}
}
