package waittest_test

import (
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

func TestWaitsEndBeforeGoTestDoes(t *testing.T) {
	deadline, limited := t.Deadline()
	if !limited {
		deadline = time.Now().Add(24 * time.Hour)
	}
	if got := waittest.Deadline(t); !got.Before(deadline) {
		t.Errorf("waits end at %v, go test at %v", got, deadline)
	}
}

func TestUntilReturnsOnceItIsTrue(t *testing.T) {
	polls := 0
	waittest.Until(t, "the third poll", func() bool { polls++; return polls == 3 })
	if polls != 3 {
		t.Errorf("%d polls, want 3", polls)
	}
}

func TestReceiveReturnsTheNextValue(t *testing.T) {
	values := make(chan int)
	go func() { values <- 7 }()
	if got := waittest.Receive(t, "a value", values); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
}

func TestContextEndsAtTheDeadline(t *testing.T) {
	got, limited := waittest.Context(t).Deadline()
	if want := waittest.Deadline(t); !limited || got.Sub(want).Abs() > time.Minute {
		t.Errorf("the context ends at %v, want %v", got, want)
	}
}
