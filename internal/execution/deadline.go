package execution

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// unlimited is the remaining time of an execution without a deadline, as the queries return it.
const unlimited = 1000 * 24 * time.Hour

// errOverdue is the error of an execution whose deadline has passed, if no attempt was cut off.
// errOverdueSent is the error if an attempt may have taken effect.
var (
	errOverdue     = &component.Error{Code: component.CodeDeadline, Message: "the execution did not finish within its deadlineMs"}
	errOverdueSent = &component.Error{Code: component.CodeDeadline, Message: "the execution did not finish within its deadlineMs, after this call was sent: whether it took effect is unknown, and nothing was charged for it"}
)

// overdue returns the error of an execution whose deadline has passed. cut reports whether an attempt was
// cut off.
func overdue(rule string, cut bool) *component.Error {
	if !cut || component.Repeat(rule) == component.RepeatPure {
		return errOverdue
	}
	return errOverdueSent.CutOff(component.Repeat(rule)).With(map[string]string{"sent": egress.SentUnknown})
}

// endOverdue fails executions that no worker has and whose deadline has passed: in the queue, parked,
// between attempts, or after the loss of their worker. Attempts in flight stop on their own.
func (r *Runner) endOverdue(ctx context.Context) (ended int, err error) {
	if r.quarantined() != nil {
		return 0, nil
	}
	rows, err := db.New().ExecutionListOverdue(ctx, r.DB, cancelBatch)
	if err != nil {
		return 0, fmt.Errorf("list executions past their deadline: %w", err)
	}
	of := map[uuid.UUID][]finish{}
	for _, row := range rows {
		f, err := failed(row.WorkspaceID, row.ID, row.Epoch, int(row.Attempt), overdue(row.RepeatRule, !row.OutcomeKnown || row.Waiting))
		if err != nil {
			return ended, err
		}
		of[row.WorkspaceID] = append(of[row.WorkspaceID], f)
	}
	done, err := concurrently(slices.Collect(maps.Keys(of)), func(workspaceID uuid.UUID) (uuid.UUID, error) { // one may be held for seconds
		return workspaceID, r.finishNow(ctx, func(b *postgres.Batch) *Finishing { return r.queueCancel(ctx, b, of[workspaceID]) })
	})
	for _, workspaceID := range done {
		ended += len(of[workspaceID])
	}
	if err != nil {
		return ended, fmt.Errorf("end executions past their deadline: %w", err)
	}
	return ended, nil
}
