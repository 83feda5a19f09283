package status

import "testing"

func TestOnlyCompletedAndFailedAreTerminal(t *testing.T) {
	for state, want := range map[Execution][2]bool{
		ExecutionCreated:   {false, false},
		ExecutionExecuting: {false, false},
		ExecutionCompleted: {true, true},
		ExecutionFailed:    {true, false},
	} {
		if got := [2]bool{state.Terminal(), state.Completed()}; got != want {
			t.Errorf("%s: terminal, completed = %v, want %v", state, got, want)
		}
	}
}
