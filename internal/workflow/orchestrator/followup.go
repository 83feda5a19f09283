package orchestrator

import (
	"context"

	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// afterCommit does the work that follows a committed advance: it notifies waiters, wakes related
// runs, cancels what must stop, and sets the timer.
func (o *Orchestrator) afterCommit(ctx context.Context, a *advance) {
	key := notify.Key{WorkspaceID: a.row.WorkspaceID, ID: a.Run.ID}
	o.countComputed(a)
	if a.Changed {
		o.cache.putSummary(a)
		change := notify.Change{Key: key}
		if !a.Run.Status.Terminal() && a.Run.Output == nil {
			change.Value = Unanswered
		}
		o.Hub.Publish(change)
	}
	for _, id := range a.Children {
		o.dispatcher.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: id})
	}
	if a.Run.Status.Terminal() {
		o.Log.InfoContext(ctx, "run finished", "workspace_id", key.WorkspaceID.String(), "run_id", key.ID.String(), "status", string(a.Run.Status))
		o.cache.forget(key.ID)
		if a.Run.ParentRunID != nil {
			o.dispatcher.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: *a.Run.ParentRunID})
		}
		return
	}
	for _, t := range a.Stages {
		if t.Loop != nil && !t.Status.Terminal() {
			o.cache.putItems(key.ID, t.ID, a.ItemsOf(t))
		}
	}
	if a.Ending() && a.Run.PendingCount > 0 && (a.Halted || a.Scanned) {
		o.cancelRemaining(ctx, a)
	} else if err := o.stopChildren(ctx, a, engine.CancelImmediate); err != nil && ctx.Err() == nil {
		o.Log.WarnContext(ctx, "failed to cancel the child runs of a stage that timed out; the next advance retries", "run_id", a.Run.ID.String(), "error", err)
	}
	if !a.wake.IsZero() && !a.More {
		o.dispatcher.wakeAt(key, a.wake.Sub(a.Run.Now))
	}
}

// cancelRemaining cancels the unfinished stages of a run that is ending. Attempts in flight may
// finish, but are not retried. If the run is canceled with mode immediate, they are interrupted.
func (o *Orchestrator) cancelRemaining(ctx context.Context, a *advance) {
	mode, stop := engine.CancelGraceful, execution.StopAttempts
	immediate := a.Run.CancelMode != nil && *a.Run.CancelMode == engine.CancelImmediate || !a.Run.Deadline.After(a.Run.Now)
	if immediate {
		mode, stop = engine.CancelImmediate, execution.StopAll
	}
	if err := o.stopChildren(ctx, a, mode); err != nil && ctx.Err() == nil {
		o.Log.WarnContext(ctx, "failed to cancel the child runs of a run; the next advance retries", "run_id", a.Run.ID.String(), "error", err)
	}
	if err := o.Executions.Cancel(ctx, a.row.WorkspaceID, a.Run.ID, stop); err != nil && ctx.Err() == nil {
		o.Log.WarnContext(ctx, "failed to cancel the executions of a run; the next advance retries", "run_id", a.Run.ID.String(), "error", err)
	}
}

// countComputed counts the computed stages of a committed advance as executions.
func (o *Orchestrator) countComputed(a *advance) {
	for _, t := range a.Stages {
		if t.Elapsed > 0 {
			o.Executions.CountComputed(t.Component.Module, t.Status == status.StageCompleted, t.Elapsed)
		}
	}
}
