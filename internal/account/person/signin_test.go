package person

import (
	"fmt"
	"testing"
	"time"
)

// fails makes failing attempts and returns how many were admitted.
func fails(t *signInLimits, c caller, email string, times int) (admitted int) {
	for range times {
		if done, wait := t.enter(c, email); wait == 0 {
			done(true)
			admitted++
		}
	}
	return admitted
}

func stranger(n int) caller { return caller{source: fmt.Sprint("address ", n)} }

func TestGuessesFromManyAddressesAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	throttle := newSignInLimits(func() time.Time { return now })
	admitted := 0
	for n := range 500 {
		admitted += fails(throttle, stranger(n), "grace@example.org", 20)
	}
	if admitted != 1000 {
		t.Errorf("%d guesses were admitted", admitted)
	}
	if n := fails(throttle, caller{"device 1", true}, "grace@example.org", 1); n != 1 {
		t.Error("a known device is locked out")
	}
	if n := fails(throttle, stranger(1000), "ada@example.org", 1); n != 1 {
		t.Error("another account is locked")
	}
}

// Even if many addresses make as many attempts as they may, strangers still get in.
func TestHundredsOfAddressesDoNotKeepAnAccountLocked(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	throttle := newSignInLimits(func() time.Time { return now })
	for range 60 { // an hour
		for n := range 200 {
			fails(throttle, stranger(n), "grace@example.org", 20)
		}
		now = now.Add(time.Minute)
	}
	if n := fails(throttle, stranger(1000), "grace@example.org", 1); n != 1 {
		t.Error("a stranger is locked out")
	}
}

func TestSuccessfulAttemptsAreBoundedToo(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	throttle := newSignInLimits(func() time.Time { return now })
	for i := range 300 {
		done, wait := throttle.enter(stranger(1), fmt.Sprint(i))
		if wait > 0 {
			t.Fatalf("attempt %d waits %v", i, wait)
		}
		done(false)
	}
	if _, wait := throttle.enter(stranger(1), "x"); wait != 500*time.Millisecond {
		t.Errorf("the next one waits %v", wait)
	}
}

func TestConcurrentAttemptsOfOneClientAreBounded(t *testing.T) {
	throttle := newSignInLimits(time.Now)
	var done []func(bool)
	for range maxAtOnce {
		end, wait := throttle.enter(stranger(1), "grace@example.org")
		if wait > 0 {
			t.Fatal("an attempt waits")
		}
		done = append(done, end)
	}
	if _, wait := throttle.enter(stranger(1), "grace@example.org"); wait == 0 {
		t.Error("one attempt too many was admitted")
	}
	if n := fails(throttle, stranger(2), "grace@example.org", 1); n != 1 {
		t.Error("another client waits")
	}
	done[0](false)
	if n := fails(throttle, stranger(1), "grace@example.org", 1); n != 1 {
		t.Error("the place of a finished attempt is not free")
	}
	for _, end := range done[1:] {
		end(false)
	}
	if len(throttle.atOnce) != 0 {
		t.Errorf("%d clients are remembered", len(throttle.atOnce))
	}
}

// Strangers can fill only the queue of unknown clients, not the queue of known devices.
func TestKnownDevicesHavePlacesOfTheirOwn(t *testing.T) {
	h := newHasher()
	for range cap(h.strangers) {
		h.strangers <- struct{}{}
	}
	if err := h.run(t.Context(), caller{}, func() {}); err == nil {
		t.Error("a stranger was admitted")
	}
	if err := h.run(t.Context(), caller{known: true}, func() {}); err != nil {
		t.Errorf("a known device: %v", err)
	}
}
