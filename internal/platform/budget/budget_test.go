package budget

import "testing"

func TestTotalBoundsAllSources(t *testing.T) {
	b := New[string](10, 6)
	if !b.Reserve("a", 6) || !b.Reserve("b", 4) {
		t.Fatal("a reservation within the total was refused")
	}
	if b.Reserve("c", 1) {
		t.Error("a reservation beyond the total was accepted")
	}
	b.Release("b", 1)
	if !b.Reserve("c", 1) {
		t.Error("a reservation was refused after a release made room")
	}
}

func TestShareBoundsOneSource(t *testing.T) {
	b := New[string](10, 6)
	if !b.Reserve("a", 5) || b.Full("a") {
		t.Error("a part of the share was refused, or fills it")
	}
	if b.Reserve("a", 2) {
		t.Error("a reservation beyond the share was accepted")
	}
	if b.Held() != 5 {
		t.Errorf("after a refused reservation %d is held", b.Held())
	}
	if !b.Reserve("a", 1) || !b.Full("a") {
		t.Error("the share is not full after it was reserved whole")
	}
	if b.Full("b") {
		t.Error("another source is full")
	}
}

func TestOneReservationMayExceedTheShare(t *testing.T) {
	b := New[string](10, 6)
	if !b.Reserve("a", 9) {
		t.Error("a source that holds nothing was refused")
	}
	b.Release("a", 9)
	if b.Reserve("a", 11) {
		t.Error("a reservation beyond the total was accepted")
	}
}

func TestShareShrinksWithWhatOthersHold(t *testing.T) {
	b := New[string](1000, 250)
	if !b.Reserve("a", 250) {
		t.Fatal("the share of the only source was refused")
	}
	if !b.Reserve("b", 100) || b.Reserve("b", 88) || !b.Reserve("b", 87) || !b.Full("b") {
		t.Error("the second source may not hold a quarter of the other 750")
	}
	b.Release("a", 250)
	if b.Full("b") || !b.Reserve("b", 63) {
		t.Error("the share did not grow when the other source released what it held")
	}
}

func TestSourcesThatHoldAllTheyMayLeaveRoomForOthers(t *testing.T) {
	b := New[int](1<<20, 1<<18)
	for source := range 8 {
		for b.Reserve(source, 1<<10) {
		}
	}
	for range 16 {
		if !b.Reserve(8, 1<<10) {
			t.Fatalf("after 8 sources, which hold %d, the next one is refused", b.Held())
		}
	}
}

func TestASourceThatHoldsNothingIsNotFull(t *testing.T) {
	b := New[string](10, 6)
	b.Add("a", 20)
	if b.Full("b") {
		t.Error("another source is full")
	}
}

func TestAddCountsBeyondTheShare(t *testing.T) {
	b := New[string](10, 6)
	b.Add("a", 20)
	if b.Held() != 20 || !b.Full("a") || b.Reserve("b", 1) {
		t.Errorf("held %d", b.Held())
	}
}

func TestSourcesThatHoldNothingAreForgotten(t *testing.T) {
	b := New[int](10, 6)
	for source := range 100 {
		b.Reserve(source, 3)
		b.Release(source, 3)
	}
	if len(b.by) != 0 {
		t.Errorf("%d sources are remembered", len(b.by))
	}
}
