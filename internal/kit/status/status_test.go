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

func TestRunsAndStagesHaveThreeFinalStates(t *testing.T) {
	for state, want := range map[Run]bool{
		RunCreated: false, RunExecuting: false, RunCompleted: true, RunFailed: true, RunCanceled: true,
	} {
		if got := state.Terminal(); got != want {
			t.Errorf("run %s: terminal = %v, want %v", state, got, want)
		}
	}
	for state, want := range map[Stage]bool{
		StageCreated: false, StageRunning: false, StageCompleted: true, StageFailed: true, StageCanceled: true,
	} {
		if got := state.Terminal(); got != want {
			t.Errorf("stage %s: terminal = %v, want %v", state, got, want)
		}
	}
}
