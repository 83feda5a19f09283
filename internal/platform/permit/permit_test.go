package permit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// hold takes n permits of a workspace, and returns a function that returns them.
func hold(t *testing.T, turns *Turns, workspaceID uuid.UUID, n int) (release func()) {
	t.Helper()
	taken, free, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	for range n {
		go func() {
			ended <- turns.Do(t.Context(), workspaceID, func() error { taken <- struct{}{}; <-free; return nil })
		}()
	}
	for range n {
		waittest.Receive(t, "a permit", taken)
	}
	return func() {
		close(free)
		for range n {
			if err := waittest.Receive(t, "the end", ended); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWhoWaitsTooLongForAPermitIsToldToTryAgain(t *testing.T) {
	t.Parallel()
	turns, busy := New(Each, time.Millisecond), uuid.New()
	release := hold(t, turns, busy, Each)
	err := turns.Do(t.Context(), busy, func() error { t.Error("a fifth permit"); return nil })
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok || failure.Code != fault.Unavailable || failure.RetryAfter == 0 {
		t.Errorf("got %v, want UNAVAILABLE with Retry-After", err)
	}
	if err := turns.Do(t.Context(), uuid.New(), func() error { return nil }); err != nil {
		t.Errorf("another workspace: %v", err)
	}
	release()
	if err := turns.Do(t.Context(), busy, func() error { return nil }); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if len(turns.workspaces) != 0 {
		t.Errorf("%d idle workspaces are remembered", len(turns.workspaces))
	}
}

func TestAWaitForAPermitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	turns, busy := New(1, time.Hour), uuid.New()
	release := hold(t, turns, busy, 1)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- turns.Do(ctx, busy, func() error { return nil }) }()
	cancel()
	if err := waittest.Receive(t, "the end of the wait", ended); !errors.Is(err, ctx.Err()) {
		t.Errorf("got %v, want %v", err, ctx.Err())
	}
}
