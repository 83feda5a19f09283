package person

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
)

func TestAStoredPasswordMatchesOnlyItself(t *testing.T) {
	const password = "correct horse battery staple"
	stored := encode(password)
	if !compare(stored, password) || compare(stored, password+" ") || compare(stored, "") {
		t.Error("a password matches another, or not itself")
	}
	if encode(password) == stored {
		t.Error("two hashes of one password are the same: there is no salt")
	}
	for _, bad := range []string{
		"", "x", password, strings.Replace(stored, "argon2id", "argon2i", 1), strings.Replace(stored, "v=19", "v=16", 1),
		strings.Replace(stored, "m=19456", "m=99999999", 1), strings.Replace(stored, "t=2", "t=0", 1), strings.Replace(stored, "p=1", "p=0", 1),
		stored[:len(stored)-4], stored + "$", strings.Replace(stored, "$m=", "$M=", 1),
	} {
		if compare(bad, password) {
			t.Errorf("%q matches", bad)
		}
	}
}

// An unknown account takes the same work as a known one.
func TestUnknownAccountsTakeTheSameWork(t *testing.T) {
	h := newHasher()
	stored := encode("correct horse battery staple")
	took := func(stored string) time.Duration {
		started := time.Now()
		if ok, err := h.matches(t.Context(), caller{}, stored, "wrong"); ok || err != nil {
			t.Fatal(ok, err)
		}
		return time.Since(started)
	}
	known, unknown := time.Hour, time.Hour
	for range 100 { // the minimum of each, in turns, because other tests run at the same time
		known, unknown = min(known, took(stored)), min(unknown, took(""))
		if unknown > known/2 && unknown < known*2 {
			return
		}
	}
	t.Errorf("known %v, unknown %v", known, unknown)
}

func TestHashingIsBounded(t *testing.T) {
	h := newHasher()
	limit := max(1, runtime.GOMAXPROCS(0)/2)
	var now, most, busy atomic.Int32
	release := make(chan struct{})
	var group sync.WaitGroup
	work := func() {
		most.Store(max(most.Load(), now.Add(1)))
		<-release
		now.Add(-1)
	}
	for range waitingStrangers + 20 {
		group.Go(func() {
			err := h.run(t.Context(), caller{}, work)
			if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Code == fault.Unavailable {
				if busy.Add(1) == 20 {
					close(release)
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if int(most.Load()) > limit || busy.Load() != 20 {
		t.Errorf("%d at once, want at most %d; %d were refused, want 20", most.Load(), limit, busy.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range cap(h.running) {
		h.running <- struct{}{}
	}
	if err := h.run(ctx, caller{}, func() { t.Error("work was called") }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the caller cancelled: %v", err)
	}
}
