// Package status names the states of executions, runs and stages, and reports which are final. A
// final state never changes again.
package status

// Execution is the state of a component execution (contract 3.1).
type Execution string

// The states of a component execution.
const (
	ExecutionCreated   Execution = "CREATED"
	ExecutionExecuting Execution = "EXECUTING"
	ExecutionCompleted Execution = "COMPLETED"
	ExecutionFailed    Execution = "FAILED"
)

// Terminal reports whether the state is final.
func (s Execution) Terminal() bool {
	return s == ExecutionCompleted || s == ExecutionFailed
}

// Completed returns the contract's `completed` field: it is true only for COMPLETED
// (decisions 4.1).
func (s Execution) Completed() bool { return s == ExecutionCompleted }

// Run is the state of a workflow run (contract 3.2).
type Run string

// The states of a workflow run.
const (
	RunCreated   Run = "CREATED"
	RunExecuting Run = "EXECUTING"
	RunCompleted Run = "COMPLETED"
	RunFailed    Run = "FAILED"
	RunCanceled  Run = "CANCELED"
)

// Terminal reports whether the state is final.
func (s Run) Terminal() bool {
	return s == RunCompleted || s == RunFailed || s == RunCanceled
}

// Stage is the state of a stage of a run (decisions 8.7).
type Stage string

// The states of a stage.
const (
	StageCreated   Stage = "CREATED"
	StageRunning   Stage = "RUNNING"
	StageCompleted Stage = "COMPLETED"
	StageFailed    Stage = "FAILED"
	StageCanceled  Stage = "CANCELED"
)

// Terminal reports whether the state is final.
func (s Stage) Terminal() bool {
	return s == StageCompleted || s == StageFailed || s == StageCanceled
}
