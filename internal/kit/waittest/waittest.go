// Package waittest waits for events that a test expects.
//
// Tests don't judge durations, because a busy machine is slow without being wrong. A wait has
// only one limit, the -timeout of go test. A wait fails early enough for the test to report the
// missing event and to clean up.
package waittest

import (
	"context"
	"os"
	"testing"
	"time"
)

const (
	// grace is left after the last wait for the report, the clean-ups, and go test itself.
	grace = 20 * time.Second
	// unlimited replaces the deadline of a test that has none.
	unlimited = time.Hour
	// pause is the time between two polls.
	pause = 10 * time.Millisecond
)

// Deadline returns the time at which the waits of a test fail: shortly before go test stops the
// whole package.
func Deadline(t testing.TB) time.Time {
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := limited.Deadline(); ok {
			return deadline.Add(-min(grace, time.Until(deadline)/10))
		}
	}
	return time.Now().Add(unlimited)
}

// Context returns the test's context, limited by Deadline.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), Deadline(t))
	t.Cleanup(cancel)
	return ctx
}

// CleanupContext is Context for clean-up functions, which run after the test's own context
// is canceled.
func CleanupContext(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.Background(), Deadline(t))
}

// Until polls until condition returns true. It fails the test at the test's Deadline.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := CleanupContext(t)
	defer cancel()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waited until the end of the test for: %s", what)
		}
	}
}

// Timed reports whether a test may judge durations. Only the soak test may, because nothing else
// runs at the same time.
func Timed() bool { return os.Getenv("WEFT_SOAK") != "" }

// Size returns quick, or full in the soak test: the size of a scenario that proves the same at both
// sizes, but finds rare interleavings only at the full one.
func Size[T any](quick, full T) T {
	if Timed() {
		return full
	}
	return quick
}

// Chosen returns the quick cases of a table of tests, or all cases in the soak test. The other cases
// prove the same rule in variants that rarely fail alone.
func Chosen[T any](all map[string]T, quick ...string) map[string]T {
	if Timed() {
		return all
	}
	chosen := make(map[string]T, len(quick))
	for _, name := range quick {
		test, ok := all[name]
		if !ok {
			panic("no case " + name)
		}
		chosen[name] = test
	}
	return chosen
}

// LeftToSoak reports whether the test must return early, because it runs only in the soak test.
// covered names the tests of `make test` that cover the same rule, as folder.TestName.
func LeftToSoak(t testing.TB, covered ...string) bool {
	if !Timed() {
		t.Logf("runs in the soak only; covered by %v", covered)
	}
	return !Timed()
}

// Receive returns the next value of a channel, or the zero value if the channel is closed. It
// fails the test at the test's Deadline.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	ctx, cancel := CleanupContext(t)
	defer cancel()
	select {
	case value := <-from:
		return value
	case <-ctx.Done():
		t.Fatalf("waited until the end of the test for: %s", what)
		panic("unreachable")
	}
}
