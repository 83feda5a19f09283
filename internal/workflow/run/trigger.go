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
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// TriggerParams is a request to run a workflow (contract 4.5, decisions 8.8).
type TriggerParams struct {
	WorkspaceID, WorkflowID uuid.UUID

	By          Cause           // what triggers it
	KeyRootID   uuid.UUID       // root of the key that triggers it, on whose workflows the run stays; zero: not by a key
	Version     *int32          // nil: the present one
	Input       json.RawMessage // an object; empty: `{}`
	Metadata    json.RawMessage // an object; may be empty
	MaxCredits  *credit.Amount  // the most that the run may cost; nil: any
	Access      Access          // of the key that triggers it, for the quote that MaxCredits is compared with; nil: no child runs count
	RerunOf     *engine.Origin  // the run that is repeated; nil: none
	Once        Claim           // under which there is one run only; nil: a repeat begins another
	Traceparent string          // W3C; may be empty
	WaitFor     *time.Duration  // how long to wait for the end before answering with the record; nil: it is not wanted

	// Of the run that is repeated:
	hidden     []string   // the places that are secret in its input
	effectRoot *uuid.UUID // under which its effects are known
}

// Cause is what triggers a run. Zero is a request.
type Cause struct {
	Trigger string // SCHEDULE or WEBHOOK
	ID      uuid.UUID
}

// Claim is what there is one run for: it commits with the run.
type Claim interface {
	// Find is the run that there is.
	Find(ctx context.Context, conn postgres.DB) (made uuid.UUID, found bool, err error)
	// ClaimTx is Find, and holds the claim until tx ends.
	ClaimTx(ctx context.Context, tx pgx.Tx) (made uuid.UUID, found bool, err error)
	// KeepTx remembers the run, in one statement.
	KeepTx(ctx context.Context, tx pgx.Tx, made uuid.UUID) error
}

// Triggered is a run that was accepted.
type Triggered struct {
	RunID    uuid.UUID
	JobID    int64            // zero for a repeat whose run is kept no more
	Run      *api.WorkflowRun // without its stages; only where a wait was asked for
	Replayed bool             // the claim had made this run before
}

// Trigger accepts a run: when it returns without error, the run and its job are
// committed. Errors: NOT_FOUND for an unknown workflow or version, CONFLICT for one that is
// paused or archived, or that does not begin so, INVALID_INPUT (422) for an input that breaks
// its schema, INSUFFICIENT_CREDITS, UNAVAILABLE, and what the claim refuses.
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
	if err := s.quarantined(); err != nil {
		return Triggered{}, err
	}
	if p.RerunOf != nil {
		if err := s.again(ctx, &p); err != nil {
			return Triggered{}, err
		}
	}
	n, err := s.prepare(ctx, p)
	if err != nil {
		return Triggered{}, err
	}
	key := notify.Key{WorkspaceID: p.WorkspaceID, ID: n.id}
	ended := s.Hub.Subscribe(key) // before it begins
	defer ended.Close()
	earlier, err := s.accept(context.WithoutCancel(ctx), p, n)
	if err != nil {
		return Triggered{}, err
	}
	if earlier != uuid.Nil {
		return s.repeat(ctx, p, earlier)
	}
	failpoint.Reached(failpoint.AfterAccept)
	s.Engine.Follow(context.WithoutCancel(ctx), key, n.begun)
	return s.answer(ctx, p, Triggered{RunID: n.id, JobID: n.jobID}, ended)
}

func (s *Service) repeat(ctx context.Context, p TriggerParams, earlier uuid.UUID) (Triggered, error) {
	key := notify.Key{WorkspaceID: p.WorkspaceID, ID: earlier}
	ended := s.Hub.Subscribe(key)
	defer ended.Close()
	row, err := s.get(ctx, key)
	if errors.Is(err, errNoRun) { // its claim is remembered for longer than the run was kept
		return Triggered{RunID: earlier, Replayed: true}, nil
	}
	if err != nil {
		return Triggered{}, err
	}
	t := Triggered{RunID: earlier, JobID: row.JobID, Replayed: true}
	if p.WaitFor != nil && over(row) {
		run, err := s.record(ctx, p.WorkspaceID, row)
		if err == nil {
			t.Run = &run
		}
		return t, err
	}
	return s.answer(ctx, p, t, ended)
}

// answer waits for the end of a run that was not over when ended was made, if that was asked
// for.
func (s *Service) answer(ctx context.Context, p TriggerParams, t Triggered, ended *notify.Subscription) (Triggered, error) {
	if p.WaitFor == nil {
		return t, nil
	}
	run, err := s.await(ctx, ended, *p.WaitFor)
	if err == nil {
		t.Run = &run
	}
	return t, nil // accepted it is, whatever becomes of the wait
}

// acceptTimeout bounds the acceptance of a run.
const acceptTimeout = 30 * time.Second

// begin is a run on its way into the database.
type begin struct {
	id      uuid.UUID
	version workflow.Loaded
	reserve credit.Amount
	jobID   int64
	taken   []byte // the variables that it takes along, sealed
	apart   bool   // it is accepted first and begun then
	begun   *engine.Begun
	input   json.RawMessage // as it is stored
}

// prepare checks all that can be checked before anything is written.
func (s *Service) prepare(ctx context.Context, p TriggerParams) (*begin, error) {
	loaded, err := s.Workflows.Load(ctx, s.API, p.WorkspaceID, p.WorkflowID, p.Version)
	if err != nil {
		return nil, err
	}
	if loaded.Status != api.WorkflowStatusACTIVE {
		return nil, engine.NotActive(loaded.Status)
	}
	if p.By.Trigger != "" {
		_, err = engine.Entry(loaded.Plan, p.By.Trigger)
	} else {
		err = loaded.Input.Check(ctx, "/input", json.RawMessage(cmp.Or(string(p.Input), "{}")))
	}
	if err != nil {
		return nil, err
	}
	done, err := s.done(ctx, p, loaded.Plan)
	if err != nil {
		return nil, err
	}
	// What a run takes over from an earlier one may be much.
	n := &begin{version: loaded, reserve: s.reservation(loaded.Plan, done), apart: p.RerunOf != nil}
	if err := s.within(ctx, p, n); err != nil {
		return nil, err
	}
	n.id, err = uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make run id: %w", err)
	}
	hidden, input := p.hidden, json.RawMessage(cmp.Or(string(p.Input), "{}"))
	// What others send is not held to the schema, and may have what that hides.
	if p.By.Trigger == "" || loaded.Input.Marks(input) {
		hidden = append(hidden, loaded.Input.SecretPaths()...)
	}
	n.input, err = engine.SealInput(ctx, s.Vault, p.WorkspaceID, n.id, input, hidden)
	return n, err
}

// within refuses a run that costs more than its MaxCredits: a first run by its quote, a rerun by
// what it reserves, since it may take over parts of loops.
func (s *Service) within(ctx context.Context, p TriggerParams, n *begin) error {
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

// Entry is where runs of a workflow begin that something else than a request triggers; see
// engine.Entry. NOT_FOUND for an unknown workflow, CONFLICT for one that is archived or
// begins with other triggers only.
func (s *Service) Entry(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, trigger string) (graph.Component, error) {
	loaded, err := s.Workflows.Load(ctx, conn, workspaceID, workflowID, nil)
	if err != nil {
		return graph.Component{}, err
	}
	if loaded.Status == api.WorkflowStatusARCHIVED {
		return graph.Component{}, engine.NotActive(loaded.Status)
	}
	return engine.Entry(loaded.Plan, trigger)
}

// accept commits the run, its first stages, its job, its reservation and its claim together,
// or finds what an earlier request made.
func (s *Service) accept(ctx context.Context, p TriggerParams, n *begin) (earlier uuid.UUID, err error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	try := func() (err error) {
		defer engine.Contained(&err)
		return s.Executions.Accepting(ctx, p.WorkspaceID, func(how *execution.Acceptance) error {
			return postgres.InTx(ctx, s.API, func(tx *postgres.Tx) (err error) {
				earlier, err = s.acceptTx(ctx, tx, how, p, n)
				return err
			})
		})
	}
	err = (billing.Books{}).InPeriod(ctx, s.System, try)
	if !n.apart && engine.Unbegun(err) {
		n.apart, n.begun = true, nil
		err = (billing.Books{}).InPeriod(ctx, s.System, try)
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("accept run: %w", err)
	}
	return earlier, nil
}

func (s *Service) acceptTx(ctx context.Context, tx *postgres.Tx, how *execution.Acceptance, p TriggerParams, n *begin) (earlier uuid.UUID, err error) {
	if p.Once != nil {
		var found bool
		if earlier, found, err = p.Once.ClaimTx(ctx, tx); err != nil || found {
			return earlier, err
		}
	}
	if n.taken, err = s.Environment.Take(ctx, tx, p.WorkspaceID, n.id, n.version.Wanted(nil)); err != nil {
		return uuid.Nil, err
	}
	row := s.row(p, n)
	tx.Last(func(tx pgx.Tx) error {
		if err := db.New().RunInsert(ctx, tx, row); err != nil {
			return fmt.Errorf("insert run: %w", err)
		}
		return nil
	})
	if p.Once != nil {
		tx.Last(func(tx pgx.Tx) error { return p.Once.KeepTx(ctx, tx, n.id) })
	}
	begins := &execution.Beginning{
		WorkspaceID: p.WorkspaceID, Reserve: n.reserve, Job: s.Engine.Job(p.WorkspaceID, n.id),
		Bytes: storage.RunBytes + int64(len(n.input)+len(p.Metadata)),
	}
	if n.apart {
		_, err = how.BeginTx(ctx, tx, begins, nil)
	} else {
		n.begun, err = s.Engine.BeginTx(ctx, tx, &row, n.version, begins, how)
	}
	row.JobID, n.jobID = begins.JobID, begins.JobID
	return uuid.Nil, err
}

func (s *Service) row(p TriggerParams, n *begin) db.RunInsertParams {
	row := db.RunInsertParams{
		WorkspaceID: p.WorkspaceID, ID: n.id, WorkflowID: p.WorkflowID, WorkflowVersion: n.version.Version,
		Status: status.RunCreated, Trigger: cmp.Or(p.By.Trigger, "API"), Input: n.input, Metadata: p.Metadata,
		Variables: n.taken, Reserved: n.reserve, MaxCredits: p.MaxCredits, Lasts: engine.Lasts, Grace: engine.BegunWithin,
	}
	if p.By.ID != uuid.Nil {
		row.TriggerID = &p.By.ID
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

func (s *Service) quarantined() error {
	if s.Quarantined == nil {
		return nil
	}
	return s.Quarantined()
}
