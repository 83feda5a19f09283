package engine

import (
	"context"

	"github.com/weft-automation/weft/internal/notify"
)

// afterwards does what follows from a fold once it is committed.
func (e *Engine) afterwards(ctx context.Context, f *fold) {
	key := notify.Key{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID}
	if f.changed {
		e.lives.put(key.ID, f.run.EventSeq, f.live)
		e.Hub.Publish(notify.Change{Key: key})
	}
	for _, id := range f.children {
		e.folder.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: id})
	}
	if f.run.Status.Terminal() {
		e.Log.InfoContext(ctx, "run finished", "workspace_id", key.WorkspaceID.String(), "run_id", key.ID.String(), "status", string(f.run.Status))
		e.items.forget(key.ID)
		if f.run.ParentRunID != nil {
			e.folder.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: *f.run.ParentRunID})
		}
		return
	}
	if f.ending() && f.run.PendingCount > 0 && (f.halted || f.looked) {
		e.stop(ctx, f)
	}
	if !f.wake.IsZero() && !f.more {
		e.folder.wakeAt(key, f.wake.Sub(f.run.Now))
	}
}

// stop asks for the end of what still runs for a run that is to end: what has begun may
// finish, unless the end is to be immediate.
func (e *Engine) stop(ctx context.Context, f *fold) {
	mode := CancelGraceful
	immediate := f.run.CancelMode != nil && *f.run.CancelMode == CancelImmediate || !f.run.Deadline.After(f.run.Now)
	if immediate {
		mode = CancelImmediate
	}
	if err := e.stopChildren(ctx, f, mode); err != nil && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "the child runs of a run could not be canceled; it is tried again", "run_id", f.run.ID.String(), "error", err)
	}
	if err := e.Executions.Cancel(ctx, f.run.WorkspaceID, f.run.ID, immediate); err != nil && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "the executions of a run could not be canceled; it is tried again", "run_id", f.run.ID.String(), "error", err)
	}
}
