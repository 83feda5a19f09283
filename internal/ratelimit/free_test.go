package ratelimit

import "testing"

// A plan that was lowered leaves more used than it allows, and what costs nothing
// is let in even then.
func TestWhatCostsNothingIsAlwaysLetIn(t *testing.T) {
	var state State
	state.Take(epoch, 9, Limits{RPS: 10, RPH: 10})
	d := state.Take(epoch, 0, Limits{RPS: 1, RPH: 2})
	if !d.Allowed || d.Second.Remaining != 0 || d.Hour.Remaining != 0 || d.Hour.Reset == 0 {
		t.Errorf("%+v", d)
	}
}
