package billing

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// ReasonSuspended is the reason of a 403 for new work of a suspended workspace.
const ReasonSuspended = "workspace_suspended"

var errSuspended = &fault.Error{
	Code: fault.Forbidden, Reason: ReasonSuspended,
	Message: "The operator of the service has suspended this workspace. It can't start executions or runs, child runs included. Accepted work continues, and all data can be read. The audit log has the operator's reason: the action is workspace.suspended.",
}

const maxReason = 500

// CheckSuspended returns the FORBIDDEN error for new work if the workspace is suspended.
func CheckSuspended(ctx context.Context, conn db.DBTX, workspaceID uuid.UUID) error {
	suspended, err := db.New().AccountIsSuspended(ctx, conn, workspaceID)
	switch {
	case err != nil:
		return fmt.Errorf("read whether the workspace is suspended: %w", err)
	case suspended:
		return errSuspended
	}
	return nil
}

// Suspend makes the workspace start no more executions and runs, in all processes at once. Accepted
// executions and runs continue with their stages, but start no child runs. The reason is recorded in the
// audit log, which the workspace can read. Suspend reports whether the workspace was not suspended
// before, and returns INVALID_INPUT for an invalid reason.
func Suspend(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, reason string) (changed bool, err error) {
	if strings.TrimSpace(reason) == "" || utf8.RuneCountInString(reason) > maxReason || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return false, fault.New(fault.InvalidInput, "The reason must be one line of 1 to %d characters in UTF-8.", maxReason)
	}
	return setSuspended(ctx, conn, true, audit.Event{WorkspaceID: workspaceID, Action: "workspace.suspended", Details: map[string]any{"reason": reason}})
}

// EndSuspension makes a suspended workspace start executions and runs again. It reports whether the
// workspace was suspended.
func EndSuspension(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID) (changed bool, err error) {
	return setSuspended(ctx, conn, false, audit.Event{WorkspaceID: workspaceID, Action: "workspace.resumed"})
}

func setSuspended(ctx context.Context, conn postgres.DB, suspended bool, event audit.Event) (changed bool, err error) {
	err = postgres.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		n, err := db.New().AccountSetSuspended(ctx, tx, db.AccountSetSuspendedParams{WorkspaceID: event.WorkspaceID, Suspended: suspended})
		if err != nil || n == 0 {
			return err
		}
		changed = true
		return audit.RecordTx(ctx, tx, event)
	})
	if err != nil {
		return false, fmt.Errorf("suspend or resume workspace %s: %w", event.WorkspaceID, err)
	}
	return changed, nil
}
