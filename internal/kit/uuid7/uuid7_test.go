package uuid7_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/uuid7"
)

// timeOf returns the time of a new ID, in milliseconds.
func timeOf(t *testing.T, m *uuid7.Maker) int64 {
	t.Helper()
	id := made(t, m)
	return int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
}

func made(t *testing.T, m *uuid7.Maker) uuid.UUID {
	t.Helper()
	id, err := m.New()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestIDsAreOfVersion7AndInOrder(t *testing.T) {
	m, last := &uuid7.Maker{}, uuid.Nil
	for range 100_000 { // far more than one per 1/4096 ms
		id := made(t, m)
		if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
			t.Fatalf("%s has version %d, variant %s", id, id.Version(), id.Variant())
		}
		if bytes.Compare(last[:], id[:]) >= 0 {
			t.Fatalf("%s does not follow %s", id, last)
		}
		last = id
	}
}

func TestIDsHaveTheCheckedTimeAndCountOnByWhatPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, checked := &uuid7.Maker{}, time.Now().Add(-400*24*time.Hour)
		timeOf(t, m) // by the clock of this machine, 400 days ahead
		m.Observe(checked, 0)
		if got := timeOf(t, m); got != checked.UnixMilli() {
			t.Errorf("after a check: %d ms, want %d", got, checked.UnixMilli())
		}
		time.Sleep(time.Minute) // virtual
		if got, want := timeOf(t, m), checked.Add(time.Minute).UnixMilli(); got != want {
			t.Errorf("a minute later: %d ms, want %d", got, want)
		}
	})
}

func TestASlowAnswerDoesNotMoveIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, start := &uuid7.Maker{}, time.Now()
		m.Observe(start, 0)
		time.Sleep(time.Minute) // virtual
		m.Observe(start.Add(58*time.Second), 5*time.Second)
		if got, want := timeOf(t, m), start.Add(time.Minute).UnixMilli(); got != want {
			t.Errorf("%d ms, want %d", got, want)
		}
	})
}

func TestNoIDIsMadeWhileTheClockIsRefused(t *testing.T) {
	m, off := &uuid7.Maker{}, errors.New("the clock is off")
	m.Refuse(off)
	if _, err := m.New(); !errors.Is(err, off) {
		t.Errorf("got %v, want %v", err, off)
	}
	m.Observe(time.Now(), 0)
	made(t, m)
}
