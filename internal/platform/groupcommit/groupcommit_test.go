package groupcommit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

func never(error) bool { return false }

func TestItemsThatQueueDuringACommitShareTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		g := New(Options[int]{Flushers: 1}, never, func(_ context.Context, items []int) ([]int, error) {
			sizes = append(sizes, len(items))
			time.Sleep(time.Millisecond) // virtual: the commit in progress
			return items, nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = g.Do(t.Context(), 0) })
		synctest.Wait()
		for i := range 50 {
			wg.Go(func() {
				if got, err := g.Do(t.Context(), i); got != i || err != nil {
					t.Errorf("item %d returned %d, %v", i, got, err)
				}
			})
		}
		wg.Wait()
		if len(sizes) != 2 || sizes[0] != 1 || sizes[1] != 50 {
			t.Errorf("commits held %v items, want 1 and 50", sizes)
		}
	})
}

func TestOneBadItemDoesNotFailTheOthers(t *testing.T) {
	bad := errors.New("bad")
	g := New(Options[int]{Flushers: 1, Max: 8}, never, func(_ context.Context, items []int) ([]int, error) {
		for _, i := range items {
			if i == 7 {
				return nil, bad
			}
		}
		return items, nil
	})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			if _, err := g.Do(t.Context(), i); (err != nil) != (i == 7) {
				t.Errorf("item %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func TestATransientFailureIsNotRetriedItemByItem(t *testing.T) {
	down := errors.New("down")
	var calls atomic.Int32
	synctest.Test(t, func(t *testing.T) {
		g := New(Options[int]{Flushers: 1}, func(err error) bool { return errors.Is(err, down) },
			func(_ context.Context, _ []int) ([]int, error) {
				calls.Add(1)
				time.Sleep(time.Millisecond) // virtual: the commit in progress
				return nil, down
			})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = g.Do(t.Context(), 0) })
		synctest.Wait()
		for i := range 20 {
			wg.Go(func() {
				if _, err := g.Do(t.Context(), i); !errors.Is(err, down) {
					t.Errorf("item %d: %v", i, err)
				}
			})
		}
		wg.Wait()
	})
	if calls.Load() != 2 {
		t.Errorf("%d commits were tried, want 2", calls.Load())
	}
}

func TestCloseWaitsForAcceptedItemsAndRejectsOthers(t *testing.T) {
	g := New(Options[int]{}, never, func(_ context.Context, items []int) ([]int, error) { return items, nil })
	if got, err := g.Do(t.Context(), 3); got != 3 || err != nil {
		t.Fatalf("returned %d, %v", got, err)
	}
	g.Close()
	if _, err := g.Do(t.Context(), 4); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestAnItemWithdrawnBeforeItsCommitIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []int
		g := New(Options[int]{Flushers: 1}, never, func(_ context.Context, items []int) ([]int, error) {
			written = append(written, items...)
			time.Sleep(time.Second) // virtual: the commit in progress
			return items, nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = g.Do(t.Context(), 1) })
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := g.Do(ctx, 2); !errors.Is(err, context.Canceled) || !Unwritten(err) {
				t.Errorf("the withdrawn item: %v", err)
			}
		})
		wg.Go(func() { _, _ = g.Do(t.Context(), 3) })
		synctest.Wait()
		leave()
		wg.Wait()
		if len(written) != 2 || written[0] != 1 || written[1] != 3 {
			t.Errorf("written were %v, want 1 and 3", written)
		}
	})
}

func TestBatchesAndTheQueueAreBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		g := New(Options[int]{Flushers: 1, Weigh: func(n int) int { return n }, MaxBytes: 10, MaxQueue: 25}, never,
			func(_ context.Context, items []int) ([]int, error) {
				batches = append(batches, items)
				time.Sleep(time.Second) // virtual: the commit in progress
				return items, nil
			})
		var wg sync.WaitGroup
		for _, weight := range []int{1, 6, 4, 5, 10} {
			wg.Go(func() { _, _ = g.Do(t.Context(), weight) })
			synctest.Wait()
		}
		if _, err := g.Do(t.Context(), 1); !errors.Is(err, ErrFull) {
			t.Errorf("an item beyond the limit: %v", err)
		}
		wg.Wait()
		if len(batches) != 4 || len(batches[1]) != 2 {
			t.Errorf("batches were %v", batches)
		}
	})
}

// owned is an item with an owner.
type owned struct {
	owner uuid.UUID
	n     int
}

// The row of an owner is held for an hour. Its items leave the shared commits, share other
// commits, and are written once, in their order, when the row is free.
func TestItemsOfAHeldOwnerWaitApart(t *testing.T) {
	errHeld := errors.New("held")
	held, free := uuid.New(), uuid.New()
	synctest.Test(t, func(t *testing.T) {
		released := time.Now().Add(time.Hour)
		var mu sync.Mutex
		written := map[uuid.UUID][]int{}
		owners := Owners[owned]{
			Of: func(i owned) uuid.UUID { return i.owner },
			Held: func(err error) []uuid.UUID {
				if errors.Is(err, errHeld) {
					return []uuid.UUID{held}
				}
				return nil
			},
		}
		g := NewOwned(Options[owned]{}, owners, never, func(_ context.Context, items []owned, shared bool) ([]int, error) {
			if slices.ContainsFunc(items, func(i owned) bool { return i.owner == held }) {
				if shared && time.Now().Before(released) {
					return nil, errHeld
				}
				time.Sleep(time.Until(released)) // virtual: the wait for the row
			}
			mu.Lock()
			defer mu.Unlock()
			results := make([]int, len(items))
			for i, it := range items {
				written[it.owner] = append(written[it.owner], it.n)
				results[i] = it.n
			}
			return results, nil
		})
		start := time.Now()
		var wg sync.WaitGroup
		for n := range 6 {
			for _, owner := range []uuid.UUID{held, free} {
				wg.Go(func() {
					if got, err := g.Do(t.Context(), owned{owner, n}); got != n || err != nil {
						t.Errorf("item %d returned %d, %v", n, got, err)
					}
					if owner == free && time.Since(start) > 0 {
						t.Error("an item of another owner waited")
					}
				})
				synctest.Wait()
			}
		}
		leaving, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := g.Do(leaving, owned{held, 6}); !Unwritten(err) {
				t.Errorf("the withdrawn item: %v", err)
			}
		})
		synctest.Wait()
		leave()
		g.Close()
		wg.Wait()
		for _, owner := range []uuid.UUID{held, free} {
			if !slices.Equal(written[owner], []int{0, 1, 2, 3, 4, 5}) {
				t.Errorf("written were %v", written[owner])
			}
		}
	})
}
