package execution

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// refusedFor is how long a refused write speaks against this process: until
// then nobody may have tried another.
const refusedFor = 5 * time.Second

// note remembers whether the database took the last acceptance.
func (s *Service) note(err error) {
	switch {
	case postgres.Unavailable(err):
		s.refused.Store(time.Now().UnixNano())
	case err == nil:
		s.refused.Store(0)
	}
}

// Accepts returns an error while executions cannot be accepted although the
// database answers: its disk is full, say. It is known from the last try.
func (s *Service) Accepts() error {
	if time.Since(time.Unix(0, s.refused.Load())) < refusedFor {
		return errors.New("the database refused the last execution")
	}
	return nil
}

// accept is one submission on its way into the database.
type accept struct {
	SubmitParams
	id              uuid.UUID
	call            []byte
	repeat          component.Repeat
	callbackSealed  []byte
	callbackHeaders []string
	worker          int32 // that holds a slot for it; 0 = the queue brings it
	price           credit.Amount
	parked          bool // beyond its workspace's window

	// Of a stage of a run, which has no callback and no key.
	run       uuid.UUID
	effectKey uuid.UUID     // zero: its id
	reserve   credit.Amount // what the run keeps back more for it
	timeout   int32         // ms; 0: the module's
	secrets   []string      // that no error shows
	secret    bool          // the output is sealed
	nested    bool          // there is a run above its run
	at        *time.Time    // as Stage has it
}

// want is what it asks of the credits. The run of a stage keeps back its price.
func (a accept) want() billing.Want {
	w := billing.Want{WorkspaceID: a.WorkspaceID, Amount: a.price}
	if a.run != uuid.Nil {
		w.Amount = a.reserve
	}
	return w
}

func (a accept) weight() int { return len(a.call) + len(a.callbackSealed) }

type accepted struct {
	jobID     int64
	createdAt *time.Time // there once the transaction is over
	parked    bool
	refusal   error // why it was not accepted although all went well
}

func (s *Service) flushAccepts(ctx context.Context, items []accept) ([]accepted, error) {
	workspaces := make([]uuid.UUID, len(items))
	for i, a := range items {
		workspaces[i] = a.WorkspaceID
	}
	ctx = postgres.Scope(ctx, workspaces...)
	var made []accepted
	err := s.decided(items, func(how acceptFunc) error {
		return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (err error) {
			made, err = how(ctx, tx, items, nil)
			return err
		})
	})
	return made, err
}

// decided tries the ways to accept until one fits.
func (s *Service) decided(items []accept, try func(how acceptFunc) error) error {
	noted := func(how acceptFunc) error {
		err := try(how)
		s.note(err)
		return err
	}
	if s.broke.among(items) {
		return noted(s.acceptSomeTx)
	}
	err := noted(s.acceptTx)
	if errors.Is(err, errUncrowded) {
		err = noted(s.acceptTx)
	}
	if errors.Is(err, billing.ErrUndecided) || errors.Is(err, errUncrowded) {
		err = noted(s.acceptSomeTx)
	}
	return err
}

// acceptFunc is a way to accept: all of them, or those that credits admit. A run that
// begins with them must be admitted; nil: none does.
type acceptFunc func(ctx context.Context, tx *postgres.Tx, items []accept, begins *Beginning) ([]accepted, error)

// acceptTx accepts all submissions, or fails with billing.ErrUndecided when it
// takes a closer look at the credits of their workspaces.
func (s *Service) acceptTx(ctx context.Context, tx *postgres.Tx, items []accept, begins *Beginning) (made []accepted, err error) {
	size, err := s.window.of(ctx, tx)
	if err != nil {
		return nil, err
	}
	items = park(items, size, s.window.last)
	if made, err = s.writeTx(ctx, tx, items, begins); err != nil {
		return nil, err
	}
	reserve := func(tx pgx.Tx) error {
		loads, err := s.ledger.ReserveTx(ctx, tx, wants(begins, items))
		if err != nil {
			return err
		}
		return s.countParkedTx(ctx, tx, items, size, loads)
	}
	if slices.ContainsFunc(items, func(a accept) bool { return a.parked }) {
		return made, reserve(tx)
	}
	// The accounts are locked from here to the end of the commit.
	tx.Last(reserve)
	return made, nil
}

// acceptSomeTx looks at the credits first, for one submission after the other, and
// accepts those that they admit. A refusal of a run that begins is an error.
func (s *Service) acceptSomeTx(ctx context.Context, tx *postgres.Tx, items []accept, begins *Beginning) (made []accepted, err error) {
	refusals, loads, err := s.ledger.DecideTx(ctx, tx, wants(begins, items))
	if err != nil {
		return nil, err
	}
	if begins != nil {
		if refusals[0] != nil {
			s.broke.note(begins.WorkspaceID)
			return nil, refusals[0]
		}
		refusals = refusals[1:]
	}
	size, err := s.window.of(ctx, tx)
	if err != nil {
		return nil, err
	}
	var admitted []accept
	for i, refusal := range refusals {
		if refusal == nil {
			admitted = append(admitted, items[i])
		}
	}
	var written []accepted
	if len(admitted) > 0 || begins != nil {
		// The accounts are locked: this is what there really was before.
		before := map[uuid.UUID]int{}
		for _, a := range admitted {
			before[a.WorkspaceID]++
		}
		admitted = park(admitted, size, func(id uuid.UUID) int { return loads[id].Active() - before[id] })
		if written, err = s.writeTx(ctx, tx, admitted, begins); err != nil {
			return nil, err
		}
		if err := s.countParkedTx(ctx, tx, admitted, size, loads); err != nil {
			return nil, err
		}
	}
	made = make([]accepted, len(items))
	for i, refusal := range refusals {
		if refusal != nil {
			made[i].refusal = refusal
			s.broke.note(items[i].WorkspaceID)
			continue
		}
		made[i], written = written[0], written[1:]
	}
	return made, nil
}

func wants(begins *Beginning, items []accept) []billing.Want {
	all := make([]billing.Want, 0, 1+len(items))
	if begins != nil {
		all = append(all, billing.Want{WorkspaceID: begins.WorkspaceID, Amount: begins.Reserve, Run: true, Bytes: begins.Bytes})
	}
	for _, a := range items {
		all = append(all, a.want())
	}
	return all
}

// writeTx writes jobs, rows and callbacks of submissions. The jobs come first:
// a row names its job.
func (s *Service) writeTx(ctx context.Context, tx *postgres.Tx, items []accept, begins *Beginning) (made []accepted, err error) {
	if len(items) == 0 && begins == nil {
		return nil, nil
	}
	jobs := make([]river.InsertManyParams, len(items), len(items)+1)
	now := s.clock.Now()
	for i, a := range items {
		var due time.Time // zero: now
		if a.worker != 0 {
			due = now.Add(safetyNet)
		}
		jobs[i] = river.InsertManyParams{
			Args: Args{WorkspaceID: a.WorkspaceID, ExecutionID: a.id}, InsertOpts: insertOpts(due, a.parked),
		}
	}
	if begins != nil {
		jobs = append(jobs, begins.Job)
	}
	inserted, err := s.jobs.InsertManyTx(ctx, tx, jobs)
	if err != nil {
		return nil, fmt.Errorf("insert jobs: %w", err)
	}
	if begins != nil {
		begins.JobID = inserted[len(items)].Job.ID
	}
	if len(items) == 0 {
		return nil, nil
	}
	var rows db.ExecutionInsertManyParams
	var callbacks db.CallbackInsertManyParams
	made = make([]accepted, len(items))
	createdAt := new(time.Time) // of one transaction, so all alike
	for i, a := range items {
		made[i] = accepted{jobID: inserted[i].Job.ID, parked: a.parked, createdAt: createdAt}
		appendExecution(&rows, a, made[i].jobID)
		if a.Callback != nil {
			appendCallback(&callbacks, a)
		}
	}
	tx.Last(func(tx pgx.Tx) error {
		created, err := db.New().ExecutionInsertMany(ctx, tx, rows)
		if err != nil {
			return fmt.Errorf("insert executions: %w", err)
		}
		*createdAt = created[0].CreatedAt
		return nil
	})
	if len(callbacks.ExecutionIds) > 0 {
		tx.Last(func(tx pgx.Tx) error {
			if err := db.New().CallbackInsertMany(ctx, tx, callbacks); err != nil {
				return fmt.Errorf("insert callbacks: %w", err)
			}
			return nil
		})
	}
	return made, nil
}

func appendExecution(p *db.ExecutionInsertManyParams, a accept, jobID int64) {
	p.WorkspaceIds = append(p.WorkspaceIds, a.WorkspaceID)
	p.Ids = append(p.Ids, a.id)
	p.Modules = append(p.Modules, a.Module)
	p.Repeats = append(p.Repeats, string(a.repeat))
	p.Calls = append(p.Calls, a.call)
	p.Attempts = append(p.Attempts, int16(a.Attempts))
	p.WorkerIds = append(p.WorkerIds, a.worker)
	p.JobIds = append(p.JobIds, jobID)
	p.HasCallbacks = append(p.HasCallbacks, a.Callback != nil)
	p.Traceparents = append(p.Traceparents, a.Traceparent)
	p.Reserved = append(p.Reserved, int64(a.price))
	p.Parked = append(p.Parked, a.parked)
	if a.run != uuid.Nil { // one batch holds stages of runs, or none
		p.RunIds = append(p.RunIds, a.run)
		p.Timeouts = append(p.Timeouts, a.timeout)
		p.At = a.at
	} else {
		p.KeyIds, p.KeyRootIds = append(p.KeyIds, a.KeyID), append(p.KeyRootIds, a.KeyRootID)
	}
}

func appendCallback(p *db.CallbackInsertManyParams, a accept) {
	p.WorkspaceIds = append(p.WorkspaceIds, a.WorkspaceID)
	p.ExecutionIds = append(p.ExecutionIds, a.id)
	p.Urls = append(p.Urls, a.Callback.URL)
	p.Sealed = append(p.Sealed, a.callbackSealed)
	p.Signed = append(p.Signed, a.Callback.Secret != nil)
	p.HeaderNames = append(p.HeaderNames, strings.Join(a.callbackHeaders, ","))
}

// brokeFor is how long a refusal for want of credits is remembered.
const brokeFor = time.Second

// broke are the workspaces that were refused for want of credits just now. What
// comes with something of theirs is decided on before it is written: somebody who
// goes on asking makes nobody else's writes be rolled back. It decides nothing.
type broke struct {
	mu   sync.Mutex
	last map[uuid.UUID]time.Time
}

func (b *broke) note(workspaceID uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.last == nil {
		b.last = map[uuid.UUID]time.Time{}
	}
	if len(b.last) > 1_000 {
		for id, at := range b.last {
			if now.Sub(at) > brokeFor {
				delete(b.last, id)
			}
		}
	}
	b.last[workspaceID] = now
}

func (b *broke) among(items []accept) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range items {
		if at, known := b.last[a.WorkspaceID]; known && time.Since(at) <= brokeFor {
			return true
		}
	}
	return false
}
