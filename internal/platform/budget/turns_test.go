package budget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A source with many calls doesn't delay others by more than the calls that run already.
func TestSourcesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns[string](2)
		var mu sync.Mutex
		var order []string
		var calls sync.WaitGroup
		compute := func(source string) {
			calls.Go(func() {
				if err := turns.Acquire(t.Context(), source); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, source)
				mu.Unlock()
				time.Sleep(time.Second) // virtual: the computation
				turns.Release(source)
			})
			synctest.Wait()
		}
		for range 5 {
			compute("busy")
		}
		for range 3 {
			compute("second")
		}
		compute("third")
		calls.Wait()
		if len(turns.sources) > 0 {
			t.Errorf("%d sources are left", len(turns.sources))
		}
		// busy and second have one place each until third has had its turn.
		if place := slices.Index(order, "third"); place > 3 {
			t.Errorf("the third source came at place %d: %v", place, order)
		}
	})
}

func TestASourceThatLeavesWhileItWaitsHasNoTurn(t *testing.T) {
	turns := NewTurns[string](2)
	source := "a"
	if err := turns.Acquire(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	leaving, leave := context.WithCancel(t.Context())
	leave()
	if err := turns.Acquire(leaving, source); !errors.Is(err, context.Canceled) {
		t.Errorf("the source that left: %v", err)
	}
	turns.Release(source)
	if err := turns.Acquire(t.Context(), source); err != nil || turns.InUse() != 1 {
		t.Errorf("%v, %d places in use", err, turns.InUse())
	}
}
