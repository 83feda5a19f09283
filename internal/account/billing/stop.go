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

// ReasonStopped is the reason of a 503 while the billing of a workspace is stopped.
const ReasonStopped = "books_stopped"

func stopped() error {
	return &fault.Error{
		Code: fault.Unavailable, Reason: ReasonStopped, RetryAfter: time.Minute,
		Message: "Billing for this workspace is stopped, because an audit found errors in its credits. Until they are corrected, only free executions are accepted. Accepted executions continue, and all data can be read.",
	}
}

// Stop audits the workspaces of the drifts again and stops billing for those that are still
// wrong: new executions that cost credits are rejected, and accepted executions are still
// charged. A wrong counter alone doesn't stop billing. Stop returns the workspaces whose billing
// was not stopped before.
func Stop(ctx context.Context, conn postgres.DB, drifts []Drift) (now []uuid.UUID, err error) {
	var suspects []uuid.UUID
	for _, drift := range drifts {
		if !drift.counts && !slices.Contains(suspects, drift.WorkspaceID) {
			suspects = append(suspects, drift.WorkspaceID)
		}
	}
	for _, id := range suspects {
		changed, failed := recheck(ctx, conn, id, false)
		if changed {
			now = append(now, id)
		}
		err = errors.Join(err, failed)
	}
	return now, err
}

// Resume resumes billing for a stopped workspace whose books are correct again; the
// zero ID means all workspaces. It returns the resumed workspaces.
func Resume(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID) (now []uuid.UUID, err error) {
	stopped, err := db.New().WorkspaceListStopped(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("list workspaces whose books are stopped: %w", err)
	}
	for _, id := range stopped {
		if workspaceID != uuid.Nil && workspaceID != id {
			continue
		}
		changed, failed := recheck(ctx, conn, id, true)
		if changed {
			now = append(now, id)
		}
		err = errors.Join(err, failed)
	}
	return now, err
}

// recheck audits a workspace and then resumes billing if its books are correct, or
// stops it if they are wrong. resume says which of the two changes is allowed.
func recheck(ctx context.Context, conn postgres.DB, id uuid.UUID, resume bool) (changed bool, err error) {
	found, err := auditOne(ctx, conn, id)
	if err != nil {
		return false, err
	}
	wrong := slices.DeleteFunc(found, func(d Drift) bool { return d.counts })
	if resume != (len(wrong) == 0) {
		return false, nil
	}
	err = postgres.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		event := audit.Event{WorkspaceID: id, Action: "billing.resumed"}
		change := db.New().AccountResume
		if !resume {
			change = db.New().AccountStop
			event.Action = "billing.stopped"
			event.Details = map[string]any{"rows": len(wrong), "first": wrong[0].Row + " " + wrong[0].Problem}
		}
		// SetPlan locks the account before the workspace. Keep the same order here.
		if err := db.New().AccountLock(ctx, tx, id); err != nil {
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
