// Package status owns the names of states and says which of them are final.
//
// It knows nothing of storage, HTTP or time. The one invariant: a state that
// is Terminal is never left again.
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

// Completed is the contract's `completed` field: true for COMPLETED only
// (decisions 4.1).
func (s Execution) Completed() bool { return s == ExecutionCompleted }
