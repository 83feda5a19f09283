// Package engine decides how runs advance.
//
// It is pure: it doesn't depend on storage, time or the work of modules with effects. An advance
// starts from a State, and Step goes as far as the known facts allow: it applies what has finished
// since the last advance, starts what is ready, and returns what it needs to know next. Package
// orchestrator loads the state, answers needs, and writes the changes in one transaction. Package graph
// decides which components are ready. Invariant: advancing twice has the same result as advancing once,
// so any process may advance a run at any time.
package engine

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/status"
)

// Limits of a run (decisions 8.5, 8.7).
const (
	MaxStages     = storage.MaxStages
	MaxItems      = 10_000
	maxOutput     = storage.MaxBytes // of the outputs of all stages together
	maxStageValue = 1 << 20          // bytes of a stage's input, and of an output that an advance computes
)

// Modes of a cancel request (decisions 8.9).
const (
	CancelGraceful  = "graceful" // running attempts may finish
	CancelImmediate = "immediate"
)

// cancelRetry is the interval at which a run that is ending cancels its unfinished stages again.
const cancelRetry = 2 * time.Second

// State is the input of an advance.
type State struct {
	Run
	Tree
	Plan      *graph.Plan
	Fixed     map[string][]string // see workflow.Loaded
	Variables Variables
	Input     Input
	About     About
	Root      map[string]graph.State // states of the components in no loop; nil: unknown
	Waiting   []Waiting              // unfinished stages: all if Scanned, otherwise those whose executions are known to have finished
	Signals   map[string]Value       // outputs of stages whose signals have arrived, by name
	Budget    Budget
	Halved    int // how often the limits of the advance are halved

	Scanned    bool // all unfinished stages were read
	First      bool // the run is being accepted
	ExecuteAll bool // compute no stage
	Stored     bool // stages of the run are stored
}

// Budget is the amount that the account covers for new stages. Unless it is exact, an advance assumes that the account
// covers everything, and is repeated with an exact budget if not.
type Budget struct {
	Exact bool
	Left  credit.Amount // the last stage may exceed it
}

// Run is a run under the lock of its row.
type Run struct {
	ID           uuid.UUID
	EffectRoot   uuid.UUID // the first run in a series of reruns
	ParentRunID  *uuid.UUID
	Rerun        bool
	Scheduled    bool // a schedule waits for its result
	Status       status.Run
	Trigger      string
	Error        json.RawMessage
	Output       json.RawMessage // new outputs are plain, and sealed when they are stored if SecretOutput is set
	SecretOutput bool
	Counts
	Credits
	Cancel
	Times
	Paces map[string]time.Time // when the next item of a loop may start, by loop.pace
}

// Counts are the counts of a run's stages and outputs.
type Counts struct {
	StageCount   int32
	FailedCount  int32
	PendingCount int32 // unfinished
	OutputBytes  int64
}

// Credits are the credits of a run.
type Credits struct {
	Committed   credit.Amount // prices of all stages, and fees
	Below       credit.Amount // committed by the runs below
	Reserved    credit.Amount
	Usage       credit.Amount
	UsageBelow  credit.Amount
	StorageFee  credit.Amount
	MaxCredits  *credit.Amount
	Solvent     bool // the account has credits that are not reserved
	StorageFull bool // the workspace may store nothing more this month
}

// Cancel is the cancel request of a run.
type Cancel struct {
	CancelRequestedAt *time.Time
	CancelMode        *string
	CancelReason      *string
	CancelShown       bool // by the last event
}

// Times are the times of a run. Now is the clock, which decides which timers and deadlines are due.
type Times struct {
	CreatedAt time.Time
	UpdatedAt time.Time
	Deadline  time.Time
	Limited   bool // Deadline is that of a request or a workflow, not the longest time that a run may take
	WakeAt    *time.Time
	Now       time.Time
}

// Tree is the size of the tree of runs that a run belongs to.
type Tree struct {
	Own    storage.Usage // of this run, before the advance
	Others storage.Usage // of the other runs
	Reused storage.Usage // of the stages that a rerun copied, which are free
	Live   int           // unfinished runs below the root
}

// Input is the input of a run.
type Input struct {
	JSON   json.RawMessage
	Secret bool
	Err    error // why it could not be decrypted
}

// Variables are the environment variables that a run stored when it started.
type Variables struct {
	Values  envref.Values
	Secrets []string            // see environment.Snapshot
	Changed []string            // see environment.Snapshot
	Tokens  map[string]string   // see environment.Snapshot
	Hidden  *component.Redactor // redacts the secrets
	Err     error               // why they could not be decrypted
}

// Value is an output that was read or computed. If it is stored sealed, all of it is secret.
type Value struct {
	Output json.RawMessage
	Secret bool
}

// IterationValue is the output of a component in an iteration.
type IterationValue struct {
	Iteration []int32
	Value
}

// Waiting is an unfinished stage with the state of what it waits for: an execution, a child run or a
// signal.
type Waiting struct {
	ID          uuid.UUID
	ComponentID string
	Module      string
	Iteration   []int32
	ExecutionID *uuid.UUID
	ChildRunID  *uuid.UUID
	ItemCount   *int32 // of a loop, like the next three
	Signal      *string
	WakeAt      *time.Time
	StartedAt   *time.Time
	NextItem    int32
	LiveItems   int32
	FailedItems int32
	Status      string // as it is shown
	Attempt     int32
	Ended       string // status of the final execution or child run, or empty
	Error       []byte // of the final execution or child run, like the rest
	Usage       int64
	UsedBelow   int64
	Bytes       int64 // of the output
	Responded   bool  // the child run has an output
	EndedAt     time.Time
	Signaled    bool
}
