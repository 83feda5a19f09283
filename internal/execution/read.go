package execution

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Get returns the current record of an execution. It returns NOT_FOUND if the ID is unknown or
// belongs to another workspace.
func (s *Service) Get(ctx context.Context, workspaceID, executionID uuid.UUID) (api.ComponentExecution, error) {
	row, err := s.get(ctx, workspaceID, executionID)
	if err != nil {
		return api.ComponentExecution{}, err
	}
	return present.Execution(row), nil
}

// get returns the row of an execution with its output decrypted.
func (s *Service) get(ctx context.Context, workspaceID, executionID uuid.UUID) (db.ExecutionGetRow, error) {
	bare, err := db.New().ExecutionGetWithoutCallback(ctx, s.DB, db.ExecutionGetWithoutCallbackParams{WorkspaceID: workspaceID, ID: executionID})
	row := db.ExecutionGetRow{
		WorkspaceID: bare.WorkspaceID, ID: bare.ID, Module: bare.Module, Status: bare.Status,
		Output: bare.Output, Error: bare.Error, Usage: bare.Usage, CreatedAt: bare.CreatedAt, UpdatedAt: bare.UpdatedAt,
		Attempt: bare.Attempt, Continuing: bare.Continuing, NotBefore: bare.NotBefore,
	}
	if err == nil && bare.HasCallback {
		row, err = db.New().ExecutionGet(ctx, s.DB, db.ExecutionGetParams{WorkspaceID: workspaceID, ID: executionID})
	}
	if postgres.NotFound(err) {
		return row, errNotFound
	}
	if err != nil {
		return row, fmt.Errorf("read execution: %w", err)
	}
	return s.openOutput(ctx, row)
}

// openOutput returns the row with its output decrypted.
func (s *Service) openOutput(ctx context.Context, row db.ExecutionGetRow) (shown db.ExecutionGetRow, err error) {
	row.Output, err = s.Vault.OpenJSON(ctx, outputAt(row.WorkspaceID, row.ID), row.Output)
	return row, err
}

var errNotFound = fault.New(fault.NotFound, "There is no execution with this ID.")

// CheckSees returns NOT_FOUND unless one of the keys submitted the execution (decisions 2.8).
// Stages of runs are not submitted by a key.
func (s *Service) CheckSees(ctx context.Context, workspaceID, executionID uuid.UUID, keys []uuid.UUID) error {
	by, err := s.submitter(ctx, workspaceID, executionID)
	if err == nil && (by == nil || !slices.Contains(keys, *by)) {
		return errNotFound
	}
	return err
}

// submitter returns the key that submitted an execution. If an earlier version accepted the
// execution, submitter returns the first key of that key's rotations. It returns nil for stages of
// runs, and for executions accepted before keys were recorded.
func (s *Service) submitter(ctx context.Context, workspaceID, executionID uuid.UUID) (*uuid.UUID, error) {
	by, err := db.New().ExecutionGetKey(ctx, s.DB, db.ExecutionGetKeyParams{WorkspaceID: workspaceID, ID: executionID})
	if postgres.NotFound(err) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read execution: %w", err)
	}
	return by, nil
}

// Await waits until the execution is final or the window has passed, and returns the execution's
// record. If the window passes, Await does not return an error. Await holds no connection while it
// waits.
func (s *Service) Await(ctx context.Context, workspaceID, executionID uuid.UUID, window time.Duration) (api.ComponentExecution, error) {
	changed := s.Hub.Subscribe(notify.Key{WorkspaceID: workspaceID, ID: executionID})
	defer changed.Close()
	row, err := s.get(ctx, workspaceID, executionID)
	if err != nil || row.Status.Terminal() {
		return present.Execution(row), err
	}
	return s.await(ctx, changed, window)
}

// await is Await for an execution that was not final when the subscription started.
func (s *Service) await(ctx context.Context, changed *notify.Subscription, window time.Duration) (api.ComponentExecution, error) {
	key := changed.Key()
	timer := time.NewTimer(window)
	defer timer.Stop()
	for {
		select {
		case <-changed.C():
		case <-timer.C:
			return s.Get(ctx, key.WorkspaceID, key.ID)
		case <-s.Draining:
			return s.Get(ctx, key.WorkspaceID, key.ID)
		case <-ctx.Done():
			return api.ComponentExecution{}, ctx.Err()
		}
		if row, ok := changed.Value().(db.ExecutionGetRow); ok {
			row, err := s.openOutput(ctx, row)
			return present.Execution(row), err
		}
		row, err := s.get(ctx, key.WorkspaceID, key.ID)
		if err != nil || row.Status.Terminal() {
			return present.Execution(row), err
		}
	}
}

// Watch sends the current state immediately, then each change, and closes the channel after the
// final state or when ctx is done. It reads the first state before it returns, so that NOT_FOUND
// is an ordinary error. A slow reader may miss intermediate states, but never the last.
func (s *Service) Watch(ctx context.Context, workspaceID, executionID uuid.UUID) (<-chan api.ComponentExecutionEvent, error) {
	changed := s.Hub.Subscribe(notify.Key{WorkspaceID: workspaceID, ID: executionID})
	row, err := s.get(ctx, workspaceID, executionID)
	if err != nil {
		changed.Close()
		return nil, err
	}
	events := make(chan api.ComponentExecutionEvent, 1)
	events <- present.ExecutionEvent(row)
	if row.Status.Terminal() {
		changed.Close()
		close(events)
		return events, nil
	}
	seen := row.Status
	changed.Follow(ctx, func() (over bool) {
		seen = s.follow(ctx, seen, changed.Key(), events)
		if over = seen.Terminal() || ctx.Err() != nil; over {
			close(events)
		}
		return over
	})
	return events, nil
}

// rereadAfter is the delay before a failed read is retried. No notification causes that retry.
const rereadAfter = 500 * time.Millisecond

// follow sends the current state if it differs from seen, and returns the current state. It
// retries failed reads.
func (s *Service) follow(ctx context.Context, seen status.Execution, key notify.Key, events chan<- api.ComponentExecutionEvent) status.Execution {
	row, err := s.get(ctx, key.WorkspaceID, key.ID)
	for err != nil {
		if wait.For(ctx, rereadAfter) != nil {
			return seen
		}
		row, err = s.get(ctx, key.WorkspaceID, key.ID)
	}
	if row.Status == seen {
		return seen
	}
	select {
	case <-ctx.Done():
		return seen
	case events <- present.ExecutionEvent(row):
		return row.Status
	}
}

// Changed returns the check for notify.Relay. The check returns the keys whose executions
// finished, or changed within the specified time.
func Changed(conn postgres.DB) func(context.Context, []notify.Key, time.Duration) ([]notify.Key, error) {
	return func(ctx context.Context, keys []notify.Key, within time.Duration) ([]notify.Key, error) {
		p := db.ExecutionChangedSinceParams{Since: within}
		for _, key := range keys {
			p.WorkspaceIds = append(p.WorkspaceIds, key.WorkspaceID)
			p.Ids = append(p.Ids, key.ID)
		}
		rows, err := db.New().ExecutionChangedSince(ctx, conn, p)
		changed := make([]notify.Key, len(rows))
		for i, row := range rows {
			changed[i] = notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		}
		return changed, err
	}
}
