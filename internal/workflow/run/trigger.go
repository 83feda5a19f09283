package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// TriggerParams is a request to run a workflow (contract 4.5, decisions 8.8).
type TriggerParams struct {
	WorkspaceID, WorkflowID uuid.UUID

	By          Cause                // what triggers the run
	KeyRootID   uuid.UUID            // first key in the rotations of the triggering key, which limits the workflows of child runs; zero: no key
	Version     *int32               // nil: the current version
	Input       json.RawMessage      // an object; empty: `{}`
	Metadata    json.RawMessage      // an object; may be empty
	MaxCredits  *credit.Amount       // limit of the run's cost; nil: no limit
	Access      Access               // workflows that the quote for MaxCredits may include as child runs; nil: none
	RerunOf     *orchestrator.Origin // the run that is repeated; nil: none
	Scheduled   *Scheduled           // what the run gets from the schedule that triggers it; replaces Input
	Callback    *callback.Params     // nil: none. A rerun does not inherit the callback of the earlier run
	Deadline    time.Duration        // from acceptance; zero: that of the workflow. A rerun does not inherit it
	Once        Claim                // makes repeated requests return the same run; nil: each starts a run
	Traceparent string               // W3C; may be empty
	WaitFor     *time.Duration       // how long to wait for the run's response; nil: return without the record

	// Copied from the run that is repeated:
	hidden      []string   // secret places in its input
	effectRoot  *uuid.UUID // first run in the series, see engine.effectKey
	scheduleID  *uuid.UUID
	scheduledAt *time.Time
}

// Cause is the schedule or hook that triggers a run. The zero value means that a request triggers
// the run.
type Cause struct {
	Trigger string // SCHEDULE or WEBHOOK
	ID      uuid.UUID
}

// Claim makes sure that a cause, such as the delivery of a hook, starts only one run. The claim is
// committed with the run.
type Claim interface {
	// Find returns the run that the claim has started, if any.
	Find(ctx context.Context, conn postgres.DB) (made uuid.UUID, found bool, err error)
	// ClaimTx locks the claim until tx ends and does the same as Find.
	ClaimTx(ctx context.Context, tx pgx.Tx) (made uuid.UUID, found bool, err error)
	// KeepTx stores, in one statement, which run the claim has started. conn may be a batch.
	KeepTx(ctx context.Context, conn db.DBTX, made uuid.UUID) error
}

// Triggered is an accepted run.
type Triggered struct {
	RunID    uuid.UUID
	JobID    int64            // zero for a repeat whose run is deleted
	Run      *api.WorkflowRun // without its stages; nil unless WaitFor was set
	Replayed bool             // an earlier request started the run
}

// Trigger accepts a run. When it returns without an error, the run and its job are committed.
//
// Errors: NOT_FOUND for an unknown workflow or version, CONFLICT for a workflow that is paused,
// archived, or has only triggers of other kinds, INVALID_INPUT (422) for an input that violates its
// schema, INSUFFICIENT_CREDITS, FORBIDDEN for a suspended workspace, UNAVAILABLE (with reason outcome_unknown if the commit is in doubt),
// and the errors of the claim and of Scheduled.
func (s *Service) Trigger(ctx context.Context, p TriggerParams) (Triggered, error) {
	if p.Once != nil {
		earlier, found, err := p.Once.Find(ctx, s.API)
		if err != nil {
			return Triggered{}, err
		}
		if found {
			return s.repeat(ctx, p, earlier)
		}
	}
	if s.Quarantined != nil {
		if err := s.Quarantined(); err != nil {
			return Triggered{}, err
		}
	}
	if p.RerunOf != nil {
		if err := s.prepareRerun(ctx, &p); err != nil {
			return Triggered{}, err
		}
	}
	n, err := s.prepare(ctx, p)
	if err != nil {
		return Triggered{}, err
	}
	key := notify.Key{WorkspaceID: p.WorkspaceID, ID: n.id}
	changed := s.Hub.Subscribe(key) // before the run starts, so that no event is missed
	defer changed.Close()
	var earlier uuid.UUID
	err = s.Turns.Do(ctx, p.WorkspaceID, func() (err error) {
		earlier, err = s.accept(context.WithoutCancel(ctx), p, n)
		return err
	})
	if err != nil {
		return Triggered{}, err
	}
	if earlier != uuid.Nil {
		return s.repeat(ctx, p, earlier)
	}
	failpoint.Reached(failpoint.AfterAccept)
	s.Engine.Continue(context.WithoutCancel(ctx), key, n.started)
	return s.answer(ctx, p, Triggered{RunID: n.id, JobID: n.jobID}, changed)
}

// repeat returns the run that an earlier request with the same claim started.
func (s *Service) repeat(ctx context.Context, p TriggerParams, earlier uuid.UUID) (Triggered, error) {
	key := notify.Key{WorkspaceID: p.WorkspaceID, ID: earlier}
	changed := s.Hub.Subscribe(key)
	defer changed.Close()
	row, err := s.get(ctx, key)
	if errors.Is(err, errNoRun) { // claims are stored longer than runs
		return Triggered{RunID: earlier, Replayed: true}, nil
	}
	if err != nil {
		return Triggered{}, err
	}
	t := Triggered{RunID: earlier, JobID: row.JobID, Replayed: true}
	if p.WaitFor != nil && answered(row) {
		run, err := s.record(ctx, p.WorkspaceID, row)
		if err == nil {
			t.Run = &run
		}
		return t, err
	}
	return s.answer(ctx, p, t, changed)
}

// answer waits for the response of a run if the caller wants it. changed must have been subscribed
// before the run could finish.
func (s *Service) answer(ctx context.Context, p TriggerParams, t Triggered, changed *notify.Subscription) (Triggered, error) {
	if p.WaitFor == nil {
		return t, nil
	}
	run, err := s.await(ctx, changed, *p.WaitFor)
	if err == nil {
		t.Run = &run
	}
	return t, nil // the run is accepted even if waiting fails
}

// acceptTimeout limits the transaction that accepts a run.
const acceptTimeout = 30 * time.Second

// newRun is a run that is being accepted.
type newRun struct {
	id        uuid.UUID
	version   workflow.Loaded
	reserve   credit.Amount
	jobID     int64
	variables []byte // its environment variables, sealed
	separate  bool   // the first advance is not part of the transaction that accepts the run
	started   *orchestrator.Started
	input     json.RawMessage // in its stored form
	callback  *db.CallbackInsertForRunParams
}

// prepare checks everything that can be checked before the transaction.
func (s *Service) prepare(ctx context.Context, p TriggerParams) (*newRun, error) {
	loaded, err := s.Workflows.Load(ctx, s.API, p.WorkspaceID, p.WorkflowID, p.Version)
	if err != nil {
		return nil, err
	}
	if loaded.Status != api.WorkflowStatusACTIVE {
		return nil, orchestrator.NotActive(loaded.Status)
	}
	if p.By.Trigger != "" {
		_, err = engine.Entry(loaded.Plan, p.By.Trigger)
	} else {
		err = loaded.Input.Check(ctx, "/input", json.RawMessage(cmp.Or(string(p.Input), "{}")))
	}
	if err != nil {
		return nil, err
	}
	done, err := s.reusedComponents(ctx, p, loaded.Plan)
	if err != nil {
		return nil, err
	}
	// A rerun may reuse many stages, so its first advance is separate.
	n := &newRun{version: loaded, reserve: s.reservation(loaded.Plan, done), separate: p.RerunOf != nil}
	if err := s.checkMaxCredits(ctx, p, n); err != nil {
		return nil, err
	}
	n.id, err = uuid7.New()
	if err != nil {
		return nil, fmt.Errorf("make run id: %w", err)
	}
	hidden, input := p.hidden, json.RawMessage(cmp.Or(string(p.Input), "{}"))
	// Inputs of hooks are not validated, but may contain values that the schema marks
	// as secret.
	switch {
	case p.Scheduled != nil:
		if input, hidden, err = p.Scheduled.bind(ctx, loaded.Input); err != nil {
			return nil, err
		}
	case p.By.Trigger == "" || loaded.Input.Marks(input):
		hidden = append(hidden, loaded.Input.SecretPaths()...)
	}
	if n.input, err = orchestrator.SealInput(ctx, s.Vault, p.WorkspaceID, n.id, input, hidden); err != nil {
		return n, err
	}
	return n, s.prepareCallback(p, n)
}

// checkMaxCredits refuses a run that costs more than its MaxCredits. For a first run it compares
// the run's quote. For a rerun it compares what the rerun reserves, since a rerun may reuse parts
// of loops.
func (s *Service) checkMaxCredits(ctx context.Context, p TriggerParams, n *newRun) error {
	least := n.reserve
	if p.MaxCredits != nil && p.RerunOf == nil {
		e := s.estimator(ctx, p.WorkspaceID, p.Access)
		q, err := e.quote(versionKey{p.WorkflowID, n.version.Version}, n.version.Plan)
		if err != nil {
			return err
		}
		least = q.least
	}
	return billing.Within("A run of this workflow costs at least", least, p.MaxCredits)
}

// Entry returns the component at which a run starts if a schedule or hook triggers the run; see
// engine.Entry. It returns NOT_FOUND for an unknown workflow, and CONFLICT for a workflow that is
// archived, or that has only triggers of other kinds.
func (s *Service) Entry(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, trigger string) (graph.Component, error) {
	loaded, err := s.Workflows.Load(ctx, conn, workspaceID, workflowID, nil)
	if err != nil {
		return graph.Component{}, err
	}
	if loaded.Status == api.WorkflowStatusARCHIVED {
		return graph.Component{}, orchestrator.NotActive(loaded.Status)
	}
	return engine.Entry(loaded.Plan, trigger)
}

// accept commits the run, its first stages, its job, its reservation and its claim together. If
// the claim already has a run, accept returns the ID of that run instead.
func (s *Service) accept(ctx context.Context, p TriggerParams, n *newRun) (earlier uuid.UUID, err error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	try := func() (err error) {
		items := s.Executions.NewItems()
		defer func() { items.Done(ctx, err) }()
		defer orchestrator.RecoverPanic(&err)
		var job *postgres.Rows[int64]
		err = postgres.InTx(ctx, s.API, nil, func(tx *postgres.Tx) (err error) {
			earlier, job, err = s.acceptTx(ctx, tx, items, p, n)
			return err
		})
		if err == nil && earlier == uuid.Nil {
			n.jobID = job.All()[0]
		}
		return postgres.Resolve(ctx, s.API, err, func(ctx context.Context) error {
			if earlier != uuid.Nil {
				return nil // the transaction of a repeat writes nothing
			}
			row, err := s.get(ctx, notify.Key{WorkspaceID: p.WorkspaceID, ID: n.id})
			n.jobID = row.JobID
			return err
		})
	}
	err = (billing.Books{}).InPeriod(ctx, s.API, try)
	if !n.separate && orchestrator.CanStartLater(err) {
		n.separate, n.started = true, nil
		err = (billing.Books{}).InPeriod(ctx, s.API, try)
	}
	if err != nil {
		return uuid.Nil, postgres.OutcomeUnknown(fmt.Errorf("accept run: %w", err), "runId", n.id)
	}
	return earlier, nil
}

// acceptTx does the work of accept in tx. job receives the ID of the run's job.
func (s *Service) acceptTx(ctx context.Context, tx *postgres.Tx, items *execution.Items, p TriggerParams, n *newRun) (earlier uuid.UUID, job *postgres.Rows[int64], err error) {
	if p.Once != nil {
		var found bool
		if earlier, found, err = p.Once.ClaimTx(ctx, tx); err != nil || found {
			return earlier, nil, err
		}
	}
	if n.variables, err = s.Environment.Take(ctx, tx, p.WorkspaceID, n.id, n.version.Wanted(nil)); err != nil {
		return uuid.Nil, job, err
	}
	row := s.row(p, n)
	bytes := storage.RunBytes + int64(len(n.input)+len(p.Metadata))
	if n.separate {
		err = (billing.Books{}).ReserveTx(ctx, tx, billing.Want{WorkspaceID: p.WorkspaceID, Amount: n.reserve, Run: true, New: true, Bytes: bytes})
	} else {
		n.started, err = s.Engine.StartTx(ctx, tx, &row, n.version, bytes, items)
	}
	if err != nil {
		return uuid.Nil, job, err
	}
	batch := tx.AtCommit()
	job = postgres.Returning[int64](batch, db.RunInsert, row)
	if n.callback != nil {
		_ = db.New().CallbackInsertForRun(ctx, batch, *n.callback)
	}
	if p.Once != nil {
		err = p.Once.KeepTx(ctx, batch, n.id)
	}
	if n.started != nil {
		n.started.Queue(batch)
	}
	return uuid.Nil, job, err
}

// row returns the row of a new run.
func (s *Service) row(p TriggerParams, n *newRun) db.RunInsertParams {
	row := db.RunInsertParams{
		ScheduleID: p.scheduleID, ScheduledAt: p.scheduledAt,
		WorkspaceID: p.WorkspaceID, ID: n.id, WorkflowID: p.WorkflowID, WorkflowVersion: n.version.Version,
		Status: status.RunCreated, Trigger: cmp.Or(p.By.Trigger, "API"), Input: n.input, Metadata: p.Metadata,
		Variables: n.variables, HasCallback: n.callback != nil, Reserved: n.reserve, MaxCredits: p.MaxCredits, Grace: orchestrator.StartWithin, Queue: orchestrator.Queue, SafetyNet: orchestrator.SafetyNet,
	}
	row.Lasts = cmp.Or(p.Deadline, n.version.Deadline)
	if row.Limited = row.Lasts > 0; !row.Limited {
		row.Lasts = orchestrator.MaxDuration
	}
	if p.By.ID != uuid.Nil {
		row.TriggerID = &p.By.ID
	}
	if p.Scheduled != nil {
		row.ScheduleID, row.ScheduledAt = &p.By.ID, &p.Scheduled.At
	}
	if p.KeyRootID != uuid.Nil {
		row.KeyRootID = &p.KeyRootID
	}
	if p.RerunOf != nil {
		row.RerunOf, _ = json.Marshal(p.RerunOf) // two ids
		row.EffectRootID = p.effectRoot
	}
	if p.Traceparent != "" {
		row.Traceparent = &p.Traceparent
	}
	return row
}
