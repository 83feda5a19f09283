// Package execution manages the life of one component execution: it accepts, runs, finishes and
// watches it, and recovers it when a process dies.
//
// The package does not depend on HTTP and delivers no callbacks. Invariant: an accepted execution
// reaches exactly one final state with exactly one usage posting, even if processes die at any
// time. Every write after the start of an attempt is fenced by the row's epoch.
//
// # Fair shares
//
// A workspace may use nine tenths of all slots that live workers have reported, or all but one if
// there are fewer than ten. Executions beyond that share are parked: the row records this and the
// job is pending, so no worker fetches it. Other workspaces therefore find a free slot at once, and
// a workspace that is alone still uses nine tenths.
//
//   - Executions that run before they are stored use a slot of this process, and the share applies to
//     the slots of this process only.
//   - The statement that accepts executions decides under the account's lock, which the reservation
//     acquires anyway.
//   - The transaction that finishes executions releases as many of the oldest parked executions as
//     the workspace has room for. Those that find a slot of this process start in the same commit.
//   - An execution that waits, or is between two attempts, uses no slot and doesn't count.
package execution

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/accesstoken"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// Service accepts and reads executions. Runner runs them. A process may have one or both.
type Service struct {
	Deps
	accepts *groupcommit.Group[submission, db.ExecutionAcceptManyRow]
	refused atomic.Int64 // when the database last refused an acceptance, Unix nanoseconds; 0: the last one succeeded

	// local runs executions that this process accepted, without going through the queue. It also
	// stores direct executions and cancels executions.
	local *Runner
}

// Deps are the dependencies of Service and Runner.
type Deps struct {
	DB      *pgxpool.Pool
	Turns   *permit.Turns         // of DB; nil: no limit
	Jobs    *river.Client[pgx.Tx] // inserts only
	Modules *component.Registry
	Keyring *seal.Keyring
	Vault   *vault.Vault // seals secret outputs
	Hub     *notify.Hub
	// Draining, once closed, ends inline waits: each returns the execution's current state. If the
	// channel is nil, waits are never cut short.
	Draining <-chan struct{}
	Metrics  *telemetry.Metrics // may be nil

	// Tokens has the access tokens of variables. If it is nil, calls that need one fail.
	Tokens *accesstoken.Source

	// Deliverer delivers the callbacks of executions that this process finished, right after the
	// commit. If it is nil, all deliveries go through the queue.
	Deliverer *callback.Deliverer

	// Quarantined returns an error while nothing may be accepted or started. If the function is
	// nil, the process is never quarantined.
	Quarantined func() error

	// CallTimeout limits one call of a component in this process, in addition to the component's
	// own timeout. Zero means no additional limit.
	CallTimeout time.Duration

	Now   func() time.Time // measures durations; time.Now if nil
	Clock *clock.Clock     // computes due times; the process's own clock if nil
}

// quarantined returns an error while nothing may be accepted or started.
func (d *Deps) quarantined() error {
	if d.Quarantined == nil {
		return nil
	}
	return d.Quarantined()
}

// NewService returns a Service. If local is a worker, an execution runs in this process right after
// its acceptance whenever a slot is free, and its job in the queue is only a safety net. A process
// that only serves passes a Runner whose Identity never runs: its slots run only direct executions.
func NewService(deps Deps, local *Runner) *Service {
	s := &Service{Deps: deps, local: local}
	s.accepts = groupcommit.NewOwned(groupcommit.Options[submission]{
		Weigh: submission.weight, MaxBytes: 1 << 20, // the accounts are locked while the rows are written
	}, groupcommit.Owners[submission]{Of: submission.owner, Held: billing.Held}, postgres.Unavailable, s.flushAccepts)
	return s
}

// Close waits until every submission in flight has been accepted or refused.
func (s *Service) Close() { s.accepts.Close() }

// call is the sealed part of an execution: the arguments of its component.
type call struct {
	Input  json.RawMessage `json:"input"`
	Config json.RawMessage `json:"config"`
	// Secrets are values that must not appear in errors.
	Secrets []string `json:"secrets,omitempty"`
	// Tokens are the marks in the input and the config that stand for access tokens, by variable.
	Tokens map[string]string `json:"tokens,omitempty"`
	// Secret seals the output even if the module does not mark it as secret.
	Secret bool `json:"secret,omitempty"`
	// EffectKey is component.Call.EffectKey. If zero, the execution's ID is used.
	EffectKey uuid.UUID `json:"effectKey,omitzero"`
	// Retry is the policy by which failed attempts are repeated. If it is missing, the delays are fixed.
	Retry json.RawMessage `json:"retry,omitempty"`
}

// SealedAt returns the additional data that binds a sealed call to its execution.
func SealedAt(workspaceID, executionID uuid.UUID) seal.AAD {
	return seal.AAD{
		WorkspaceID: workspaceID, Table: "component_executions",
		Row: executionID.String(), Field: "call",
	}
}

// Args are the arguments of an execution's River job. They hold IDs only: the input stays in the
// row, sealed.
type Args struct {
	WorkspaceID uuid.UUID `json:"workspaceId"`
	ExecutionID uuid.UUID `json:"executionId"`
}

// Kind returns the job kind. It is stored in the queue, so it must never change.
func (Args) Kind() string { return "component_execution" }

// Queue is the River queue of executions.
const Queue = "components"

// safetyNet is the delay of the job of an execution that runs locally. The job runs the execution
// only if the accepting process died. If the execution is still running, the worker snoozes the
// job.
const safetyNet = 30 * time.Second
