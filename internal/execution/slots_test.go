package execution

import (
	"testing"

	"github.com/google/uuid"
)

func TestRL08DirectExecutionsOfOneWorkspaceGetNineTenthsOfTheSlots(t *testing.T) {
	t.Parallel()
	for size, share := range map[int]int{0: 0, 1: 1, 2: 1, 9: 8, 10: 9, 40: 36} {
		s, one := newSlots(size), uuid.New()
		got := 0
		for s.acquireDirect(one) {
			got++
		}
		if got != share {
			t.Errorf("one workspace gets %d of %d slots, want %d", got, size, share)
		}
		for s.acquireDirect(uuid.New()) {
			got++
		}
		if got != size {
			t.Errorf("all workspaces together get %d of %d slots", got, size)
		}
	}
}

func TestASuccessorTakesOverTheSlotOfAFinishedExecution(t *testing.T) {
	t.Parallel()
	s, one := newSlots(1), uuid.New()
	if !s.acquire(one, false) || s.acquire(one, false) {
		t.Fatal("it does not get the only slot once")
	}
	s.pass(one)
	s.release(one) // by the finished execution
	if s.acquire(one, true) {
		t.Error("there are more slots than there were")
	}
	s.release(one)
	if !s.acquire(one, true) {
		t.Error("a free slot cannot be acquired")
	}
}

func TestNoSuccessorStartsAfterTheSlotsAreClosed(t *testing.T) {
	t.Parallel()
	s, one := newSlots(4), uuid.New()
	s.close()
	if s.acquire(one, true) || !s.isClosed() {
		t.Error("a successor got a slot")
	}
	if !s.acquire(one, false) {
		t.Error("an execution of a caller got none")
	}
}

func TestAWorkspaceThatCouldNotPayIsNotRunDirectly(t *testing.T) {
	t.Parallel()
	s, one := newSlots(4), uuid.New()
	s.refuse(one)
	if s.acquireDirect(one) {
		t.Error("its next execution runs directly")
	}
	if !s.acquireDirect(uuid.New()) {
		t.Error("another workspace's does not")
	}
}
