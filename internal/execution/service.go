// Package execution manages the life of one component execution: it accepts, runs, finishes and
// watches it, and recovers it when a process dies.
//
// It knows no HTTP and delivers no callbacks. The one invariant: an accepted execution reaches
// exactly one final state with exactly one usage posting, whatever process dies at whatever time.
// Every write after the start of an attempt is fenced by the row's epoch.
package execution

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// Service is the accepting and reading half of executions. Runner is the other
// half; a process may have either or both.
type Service struct {
	db          *pgxpool.Pool
	jobs        *river.Client[pgx.Tx]
	clock       *clock.Clock
	modules     *component.Registry
	keyring     *seal.Keyring
	vault       *vault.Vault
	hub         *notify.Hub
	draining    <-chan struct{}
	metrics     *telemetry.Metrics
	accepts     *groupcommit.Group[accept, accepted]
	ledger      Ledger
	broke       broke
	window      *window
	quarantined func() error // why nothing may be accepted for now
	refused     atomic.Int64 // when the database last took no acceptance, Unix nanoseconds; 0: it took the last

	// local runs what this process accepted, without a trip through the queue, and
	// ends what is canceled; it has no slots in a process that only serves.
	local *Runner
}

// Deps is what the two halves are made of.
type Deps struct {
	DB      *pgxpool.Pool
	Jobs    *river.Client[pgx.Tx] // inserts only
	Modules *component.Registry
	Keyring *seal.Keyring
	Vault   *vault.Vault // of secret outputs
	Hub     *notify.Hub
	// Draining, once closed, ends inline waits: what is accepted by then is
	// answered as it stands. Nil: never.
	Draining <-chan struct{}
	Metrics  *telemetry.Metrics // may be nil

	// Deliverer delivers what this process finished, right after the commit; nil
	// leaves every delivery to the queue.
	Deliverer *callback.Deliverer

	// Quarantined returns why nothing may be accepted or begun for now, if so; nil:
	// never.
	Quarantined func() error

	// Ended is told, after each commit that ended stages of runs, which runs these
	// are; nil: nobody. It must return at once and may be called by many at a time: all
	// that this process ends waits for it. A lost call is the engine's sweep's to make
	// up for.
	Ended func(ctx context.Context, stages map[notify.Key][]uuid.UUID)

	// EndWithRun commits the end of a stage's execution together with what follows from it
	// for the run, where the run waits for no other execution: that takes one commit for
	// two. Nil: never. An error: it is not known to be ended, and is ended apart, after
	// which Ended is told.
	EndWithRun func(ctx context.Context, run notify.Key, end *End) error

	// CallTimeout is the longest that one call of a component may take in this
	// process, whatever the component's own timeout; 0: that alone counts.
	CallTimeout time.Duration

	Ledger Ledger
	Now    func() time.Time // measures durations; nil: time.Now
	Clock  *clock.Clock     // of due times; nil: this process's own
}

// Ledger is what executions are reserved and settled in, within the transaction
// that accepts or ends them. That of the service is billing.Books, whose methods
// say what is owed.
type Ledger interface {
	ReserveTx(ctx context.Context, tx pgx.Tx, wants []billing.Want) (map[uuid.UUID]billing.Load, error)
	DecideTx(ctx context.Context, tx pgx.Tx, wants []billing.Want) (refusals []error, loads map[uuid.UUID]billing.Load, err error)
	SettleTx(ctx context.Context, tx pgx.Tx, charges []billing.Charge) (map[uuid.UUID]billing.Load, error)
	InPeriod(ctx context.Context, conn postgres.DB, do func() error) error
	RenewDue(ctx context.Context, conn postgres.DB) (done int, err error)
}

// quarantined returns why nothing may be accepted or begun for now.
func (d *Deps) quarantined() error {
	if d.Quarantined == nil {
		return nil
	}
	return d.Quarantined()
}

// NewService makes the accepting half. With local given, executions run in this
// process right after their acceptance whenever it has a free slot; their job
// in the queue is then only the safety net. A process that only serves gives a Runner
// without slots, with an Identity that never runs; nil: nothing is ever canceled.
func NewService(deps Deps, local *Runner) *Service {
	s := &Service{
		db: deps.DB, jobs: deps.Jobs, modules: deps.Modules,
		keyring: deps.Keyring, vault: deps.Vault, hub: deps.Hub, draining: deps.Draining, metrics: deps.Metrics, ledger: deps.Ledger, local: local, window: &window{},
		quarantined: deps.quarantined, clock: deps.Clock,
	}
	s.accepts = groupcommit.New(groupcommit.Options[accept]{Weigh: accept.weight}, postgres.Unavailable, s.flushAccepts)
	return s
}

// Close returns when every submission under way is answered.
func (s *Service) Close() { s.accepts.Close() }

// call is the sealed part of an execution: what the module gets.
type call struct {
	Input  json.RawMessage `json:"input"`
	Config json.RawMessage `json:"config"`
	// Secrets are values that no error shows.
	Secrets []string `json:"secrets,omitempty"`
	// Secret says that the output is sealed, whatever the module says of it.
	Secret bool `json:"secret,omitempty"`
	// EffectKey is that of component.Call. Zero is the id of the execution.
	EffectKey uuid.UUID `json:"effectKey,omitzero"`
}

// SealedAt names where the sealed call of an execution belongs.
func SealedAt(workspaceID, executionID uuid.UUID) seal.AAD {
	return seal.AAD{
		WorkspaceID: workspaceID, Table: "component_executions",
		Row: executionID.String(), Field: "call",
	}
}

// Args is the River job of an execution. It holds ids only: the input stays in
// the row, sealed.
type Args struct {
	WorkspaceID uuid.UUID `json:"workspaceId"`
	ExecutionID uuid.UUID `json:"executionId"`
}

// Kind is stored data: it never changes.
func (Args) Kind() string { return "component_execution" }

// Queue is where the jobs of executions wait.
const Queue = "components"

// safetyNet is how far ahead the job of a locally run execution is due: it
// fires only when the process that accepted the execution is gone, or when the
// execution takes longer (the worker then sees that somebody is at it).
const safetyNet = 30 * time.Second

// insertOpts of a job that is due then, zero being now; a parked one is fetched by
// nobody.
func insertOpts(due time.Time, parked bool) *river.InsertOpts {
	return &river.InsertOpts{Queue: Queue, ScheduledAt: due, Pending: parked}
}
