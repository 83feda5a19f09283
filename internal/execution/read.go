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
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Get is the present record of an execution. NOT_FOUND for an unknown id and
// for another workspace's alike.
func (s *Service) Get(ctx context.Context, workspaceID, executionID uuid.UUID) (api.ComponentExecution, error) {
	row, err := s.get(ctx, workspaceID, executionID)
	if err != nil {
		return api.ComponentExecution{}, err
	}
	return present.Execution(row), nil
}

// get is the row of an execution with its output as it is shown.
func (s *Service) get(ctx context.Context, workspaceID, executionID uuid.UUID) (db.ExecutionGetRow, error) {
	bare, err := db.New().ExecutionGetBare(ctx, s.db, db.ExecutionGetBareParams{WorkspaceID: workspaceID, ID: executionID})
	row := db.ExecutionGetRow{
		WorkspaceID: bare.WorkspaceID, ID: bare.ID, Module: bare.Module, Status: bare.Status,
		Output: bare.Output, Error: bare.Error, Usage: bare.Usage, CreatedAt: bare.CreatedAt, UpdatedAt: bare.UpdatedAt,
	}
	if err == nil && bare.HasCallback {
		row, err = db.New().ExecutionGet(ctx, s.db, db.ExecutionGetParams{WorkspaceID: workspaceID, ID: executionID})
	}
	if postgres.NotFound(err) {
		return row, errNotFound
	}
	if err != nil {
		return row, fmt.Errorf("read execution: %w", err)
	}
	return s.opened(ctx, row)
}

// opened is a row with its output as it is shown.
func (s *Service) opened(ctx context.Context, row db.ExecutionGetRow) (shown db.ExecutionGetRow, err error) {
	row.Output, err = s.vault.OpenJSON(ctx, outputAt(row.WorkspaceID, row.ID), row.Output)
	return row, err
}

var errNotFound = fault.New(fault.NotFound, "There is no execution with this id.")

// CheckSees returns NOT_FOUND unless one of the keys submitted the execution (decisions 2.8).
// A stage of a run was submitted by no key.
func (s *Service) CheckSees(ctx context.Context, workspaceID, executionID uuid.UUID, keys []uuid.UUID) error {
	by, err := s.submitter(ctx, workspaceID, executionID)
	if err == nil && (by == nil || !slices.Contains(keys, *by)) {
		return errNotFound
	}
	return err
}

// submitter returns the key that submitted an execution, or the first key of its rotations if
// an earlier version accepted it. It is nil for a stage of a run, and for what was accepted
// before keys were recorded.
func (s *Service) submitter(ctx context.Context, workspaceID, executionID uuid.UUID) (*uuid.UUID, error) {
	by, err := db.New().ExecutionKey(ctx, s.db, db.ExecutionKeyParams{WorkspaceID: workspaceID, ID: executionID})
	if postgres.NotFound(err) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read execution: %w", err)
	}
	return by, nil
}

// ListParams is a page of a list (decisions 1.5).
type ListParams struct {
	Limit  int         // 1..100
	Cursor string      // of the page before; empty for the first
	Keys   []uuid.UUID // only executions that these keys submitted; nil: all
}

// List is the workspace's executions, newest first, without the stages of runs.
// INVALID_INPUT for a cursor that no page gave out.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, p ListParams) (api.ComponentExecutionPage, error) {
	page := api.ComponentExecutionPage{Data: make([]api.ComponentExecution, 0, p.Limit)}
	before, err := cursor.Before(p.Cursor)
	if err != nil {
		return page, err
	}
	for began := time.Now(); ; {
		more, err := s.list(ctx, workspaceID, before, p, &page)
		if err != nil {
			return page, err
		}
		if page.HasMore = more != uuid.Nil; !page.HasMore {
			return page, nil
		}
		if len(page.Data) > 0 || time.Since(began) > maxWalk {
			page.NextCursor = cursor.Encode(more[:])
			return page, nil
		}
		before = more
	}
}

// A list walks past the stages of runs and the executions of other keys: maxWalked rows at
// a time, and no longer than this before it returns an empty page.
const (
	maxWalked = 10_000
	maxWalk   = 500 * time.Millisecond
)

// list adds executions to a page and says after which id there may be more.
func (s *Service) list(ctx context.Context, workspaceID, before uuid.UUID, p ListParams, page *api.ComponentExecutionPage) (more uuid.UUID, err error) {
	rows, err := db.New().ExecutionList(ctx, s.db, db.ExecutionListParams{
		WorkspaceID: workspaceID, Before: before, AnyKey: p.Keys == nil, KeyIds: p.Keys, MaxWalked: maxWalked, MaxRows: int32(p.Limit) + 1, MaxBytes: maxPageBytes,
	})
	if err != nil {
		return more, fmt.Errorf("list executions: %w", err)
	}
	for _, row := range rows[:min(len(rows), p.Limit)] {
		shown, err := s.opened(ctx, listed(row))
		problem := present.Unopened(err)
		if err != nil && problem == nil {
			return more, err
		}
		one := present.Execution(shown)
		one.OutputProblem = problem
		page.Data = append(page.Data, one)
	}
	if len(rows) > 0 && rows[0].Found > int64(len(page.Data)) {
		return page.Data[len(page.Data)-1].ID, nil
	}
	more, err = db.New().ExecutionWalked(ctx, s.db, db.ExecutionWalkedParams{WorkspaceID: workspaceID, Before: before, Walked: maxWalked - 1})
	if postgres.NotFound(err) {
		return uuid.Nil, nil
	}
	if err != nil {
		return more, fmt.Errorf("list executions: %w", err)
	}
	return more, nil
}

// maxPageBytes is how much output one page holds, a single execution's aside: a
// page then ends before its limit.
const maxPageBytes = 2 << 20

// listed is a row of the list without what is the list's own.
func listed(row db.ExecutionListRow) db.ExecutionGetRow {
	return db.ExecutionGetRow{
		WorkspaceID: row.WorkspaceID, ID: row.ID, Module: row.Module, Status: row.Status,
		Output: row.Output, Error: row.Error, Usage: row.Usage, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
		CallbackURL: row.CallbackURL, CallbackSigned: row.CallbackSigned, CallbackHeaderNames: row.CallbackHeaderNames,
		CallbackAttemptCount: row.CallbackAttemptCount, CallbackLastAttemptAt: row.CallbackLastAttemptAt,
		CallbackDeliveredAt: row.CallbackDeliveredAt, CallbackLastError: row.CallbackLastError,
	}
}

// Await is Get after the execution ended, or after the window, whichever comes
// first; an end of the window is no error. No connection is held meanwhile.
func (s *Service) Await(ctx context.Context, workspaceID, executionID uuid.UUID, window time.Duration) (api.ComponentExecution, error) {
	changed := s.hub.Subscribe(notify.Key{WorkspaceID: workspaceID, ID: executionID})
	defer changed.Close()
	row, err := s.get(ctx, workspaceID, executionID)
	if err != nil || row.Status.Terminal() {
		return present.Execution(row), err
	}
	return s.await(ctx, changed, window)
}

// await is Await for an execution that was not final when it was subscribed to.
func (s *Service) await(ctx context.Context, changed *notify.Subscription, window time.Duration) (api.ComponentExecution, error) {
	key := changed.Key()
	timer := time.NewTimer(window)
	defer timer.Stop()
	for {
		select {
		case <-changed.C():
		case <-timer.C:
			return s.Get(ctx, key.WorkspaceID, key.ID)
		case <-s.draining:
			return s.Get(ctx, key.WorkspaceID, key.ID)
		case <-ctx.Done():
			return api.ComponentExecution{}, ctx.Err()
		}
		if row, ok := changed.Value().(db.ExecutionGetRow); ok {
			row, err := s.opened(ctx, row)
			return present.Execution(row), err
		}
		row, err := s.get(ctx, key.WorkspaceID, key.ID)
		if err != nil || row.Status.Terminal() {
			return present.Execution(row), err
		}
	}
}

// Watch sends the present state at once, then each change, and closes the
// channel after the final state or when ctx ends. It reads the first state
// before it returns, so that NOT_FOUND is an ordinary error. A slow reader
// misses states in between, never the last.
func (s *Service) Watch(ctx context.Context, workspaceID, executionID uuid.UUID) (<-chan api.ComponentExecutionEvent, error) {
	changed := s.hub.Subscribe(notify.Key{WorkspaceID: workspaceID, ID: executionID})
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

// rereadAfter is when a read that failed is tried again: its wake-up is spent.
const rereadAfter = 500 * time.Millisecond

// follow sends the present state if it is another than seen, and returns it.
func (s *Service) follow(ctx context.Context, seen status.Execution, key notify.Key, events chan<- api.ComponentExecutionEvent) status.Execution {
	for {
		now, err := s.tell(ctx, seen, key, events)
		if err == nil {
			return now
		}
		if wait.For(ctx, rereadAfter) != nil {
			return seen
		}
	}
}

// tell is follow without another try.
func (s *Service) tell(ctx context.Context, seen status.Execution, key notify.Key, events chan<- api.ComponentExecutionEvent) (status.Execution, error) {
	row, err := s.get(ctx, key.WorkspaceID, key.ID)
	if err != nil || row.Status == seen {
		return seen, err
	}
	select {
	case <-ctx.Done():
		return seen, nil
	case events <- present.ExecutionEvent(row):
		return row.Status, nil
	}
}

// Changed is the notify.Relay's check: which of the keys ended, or changed within
// the given time.
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
