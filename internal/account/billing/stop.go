package billing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// ReasonStopped is the reason of a 503.
const ReasonStopped = "books_stopped"

func stopped() error {
	return &fault.Error{
		Code: fault.Unavailable, Reason: ReasonStopped, RetryAfter: time.Minute,
		Message: "An audit found the credits of this workspace wrong: what costs something is not accepted until they are right. What was accepted before goes on, and everything can be read.",
	}
}

// Stop has acceptance refuse what costs something to the workspaces of rows that are
// wrong, after a second look at each; what was accepted goes on to its charge. A wrong
// count stops nobody. It returns the workspaces that were not stopped before.
func Stop(ctx context.Context, conn postgres.DB, broken []Drift) (now []uuid.UUID, err error) {
	var suspects []uuid.UUID
	for _, drift := range broken {
		if !drift.counts && !slices.Contains(suspects, drift.WorkspaceID) {
			suspects = append(suspects, drift.WorkspaceID)
		}
	}
	for _, id := range suspects {
		changed, failed := judge(ctx, conn, id, false)
		if changed {
			now = append(now, id)
		}
		err = errors.Join(err, failed)
	}
	return now, err
}

// Resume lets a workspace go on, or all for the zero id, whose books were stopped and
// are right again. It returns those.
func Resume(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID) (now []uuid.UUID, err error) {
	stopped, err := db.New().WorkspaceListStopped(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("list workspaces whose books are stopped: %w", err)
	}
	for _, id := range stopped {
		if workspaceID != uuid.Nil && workspaceID != id {
			continue
		}
		changed, failed := judge(ctx, conn, id, true)
		if changed {
			now = append(now, id)
		}
		err = errors.Join(err, failed)
	}
	return now, err
}

// judge looks at the books of a workspace: right ones let it go on, wrong ones stop
// it, whichever of both is asked for.
func judge(ctx context.Context, conn postgres.DB, id uuid.UUID, resume bool) (changed bool, err error) {
	found, err := auditOne(ctx, conn, id)
	if err != nil {
		return false, err
	}
	wrong := slices.DeleteFunc(found, func(d Drift) bool { return d.counts })
	if resume != (len(wrong) == 0) {
		return false, nil
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		event := audit.Event{WorkspaceID: id, Action: "billing.resumed"}
		change := db.New().AccountResume
		if !resume {
			change = db.New().AccountStop
			event.Action = "billing.stopped"
			event.Details = map[string]any{"rows": len(wrong), "first": wrong[0].Row + " " + wrong[0].Problem}
		}
		// Both changes take the workspace before it, and SetPlan takes it after.
		if _, err := db.New().AccountLock(ctx, tx, id); err != nil {
			return err
		}
		n, err := change(ctx, tx, id)
		if err != nil || n == 0 {
			return err
		}
		changed = true
		return audit.RecordTx(ctx, tx, event)
	})
	if err != nil {
		return false, fmt.Errorf("stop or resume the billing of workspace %s: %w", id, err)
	}
	return changed, nil
}
