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

// refusedFor is how long Accepts reports a refused write. It is limited because after a refusal
// there may be no further submission that shows that the database works again.
const refusedFor = 5 * time.Second

// noteAcceptance records whether the database refused the last acceptance.
func (s *Service) noteAcceptance(err error) {
	switch {
	case postgres.Unavailable(err):
		s.refused.Store(time.Now().UnixNano())
	case err == nil:
		s.refused.Store(0)
	}
}

// Accepts returns an error if the database answers but recently refused to store an execution,
// for example because its disk is full.
func (s *Service) Accepts() error {
	if time.Since(time.Unix(0, s.refused.Load())) < refusedFor {
		return errors.New("the database refused the last execution")
	}
	return nil
}

// accept is one submission to be written.
type accept struct {
	SubmitParams
	id              uuid.UUID
	call            []byte
	repeat          component.Repeat
	callbackSealed  []byte
	callbackHeaders []string
	worker          int32 // worker that reserved a slot for it; 0: it goes through the queue
	price           credit.Amount
	parked          bool // exceeds the fair share of its workspace

	// Only for a stage of a run, which has no callback and no API key.
	run       uuid.UUID
	effectKey uuid.UUID     // zero: use the execution's ID
	reserve   credit.Amount // credits that the run reserves in addition
	timeout   int32         // milliseconds; 0: use the module's timeout
	secrets   []string      // must not appear in errors
	secret    bool          // seal the output
	nested    bool          // its run has a parent run
	at        *time.Time    // Stage.At
}

// want returns the credits to reserve. The price of a stage is reserved by its run.
func (a accept) want() billing.Want {
	w := billing.Want{WorkspaceID: a.WorkspaceID, Amount: a.price}
	if a.run != uuid.Nil {
		w.Amount = a.reserve
	}
	return w
}

// weight returns the number of bytes that a submission adds to its batch.
func (a accept) weight() int { return len(a.call) + len(a.callbackSealed) }

// accepted is the result of one submission.
type accepted struct {
	jobID     int64
	createdAt *time.Time // set once the transaction has committed
	parked    bool
	refusal   error // why the submission was refused, although no error occurred
}

// flushAccepts writes submissions in one transaction.
func (s *Service) flushAccepts(ctx context.Context, items []accept) ([]accepted, error) {
	workspaces := make([]uuid.UUID, len(items))
	for i, a := range items {
		workspaces[i] = a.WorkspaceID
	}
	ctx = postgres.Scope(ctx, workspaces...)
	var made []accepted
	err := s.acceptWith(items, func(how acceptFunc) error {
		return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (err error) {
			made, err = how(ctx, tx, items, nil)
			return err
		})
	})
	return made, err
}

// acceptWith calls try with acceptTx. If the credits must be checked one submission at a time,
// acceptWith calls try with acceptSomeTx.
func (s *Service) acceptWith(items []accept, try func(how acceptFunc) error) error {
	attempt := func(how acceptFunc) error {
		err := try(how)
		s.noteAcceptance(err)
		return err
	}
	if s.recentlyRefused.among(items) {
		return attempt(s.acceptSomeTx)
	}
	err := attempt(s.acceptTx)
	if errors.Is(err, errHasRoom) {
		err = attempt(s.acceptTx)
	}
	if errors.Is(err, billing.ErrUndecided) || errors.Is(err, errHasRoom) {
		err = attempt(s.acceptSomeTx)
	}
	return err
}

// acceptFunc accepts submissions. acceptTx accepts all or none. acceptSomeTx accepts the
// submissions that the credits cover. If newRun is not nil, the run must be accepted as well.
type acceptFunc func(ctx context.Context, tx *postgres.Tx, items []accept, newRun *Beginning) ([]accepted, error)

// acceptTx accepts all submissions. It returns billing.ErrUndecided if the credits of their
// workspaces must be checked one submission at a time.
func (s *Service) acceptTx(ctx context.Context, tx *postgres.Tx, items []accept, newRun *Beginning) (made []accepted, err error) {
	size, err := s.share.limit(ctx, tx)
	if err != nil {
		return nil, err
	}
	items = park(items, size, s.share.lastActive)
	if made, err = s.writeTx(ctx, tx, items, newRun); err != nil {
		return nil, err
	}
	reserve := func(tx pgx.Tx) error {
		loads, err := s.ledger.ReserveTx(ctx, tx, wants(newRun, items))
		if err != nil {
			return err
		}
		return s.countParkedTx(ctx, tx, items, size, loads)
	}
	if slices.ContainsFunc(items, func(a accept) bool { return a.parked }) {
		return made, reserve(tx)
	}
	// From here on the accounts stay locked until the commit is done.
	tx.Last(reserve)
	return made, nil
}

// acceptSomeTx checks the credits of the submissions one by one and accepts those that are
// covered. If newRun is not covered, acceptSomeTx returns the refusal as its error.
func (s *Service) acceptSomeTx(ctx context.Context, tx *postgres.Tx, items []accept, newRun *Beginning) (made []accepted, err error) {
	refusals, loads, err := s.ledger.DecideTx(ctx, tx, wants(newRun, items))
	if err != nil {
		return nil, err
	}
	if newRun != nil {
		if refusals[0] != nil {
			s.recentlyRefused.note(newRun.WorkspaceID)
			return nil, refusals[0]
		}
		refusals = refusals[1:]
	}
	size, err := s.share.limit(ctx, tx)
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
	if len(admitted) > 0 || newRun != nil {
		// The accounts are locked, so the counts are exact. They already include the admitted
		// submissions.
		before := map[uuid.UUID]int{}
		for _, a := range admitted {
			before[a.WorkspaceID]++
		}
		admitted = park(admitted, size, func(id uuid.UUID) int { return loads[id].Active() - before[id] })
		if written, err = s.writeTx(ctx, tx, admitted, newRun); err != nil {
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
			s.recentlyRefused.note(items[i].WorkspaceID)
			continue
		}
		made[i], written = written[0], written[1:]
	}
	return made, nil
}

// wants returns the credits to reserve: first for newRun, if it is not nil, then for each item.
func wants(newRun *Beginning, items []accept) []billing.Want {
	all := make([]billing.Want, 0, 1+len(items))
	if newRun != nil {
		all = append(all, billing.Want{WorkspaceID: newRun.WorkspaceID, Amount: newRun.Reserve, Run: true, Bytes: newRun.Bytes})
	}
	for _, a := range items {
		all = append(all, a.want())
	}
	return all
}

// writeTx inserts the jobs, rows and callbacks of submissions. It inserts the jobs first, because
// each row refers to its job.
func (s *Service) writeTx(ctx context.Context, tx *postgres.Tx, items []accept, newRun *Beginning) (made []accepted, err error) {
	if len(items) == 0 && newRun == nil {
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
	if newRun != nil {
		jobs = append(jobs, newRun.Job)
	}
	inserted, err := s.jobs.InsertManyTx(ctx, tx, jobs)
	if err != nil {
		return nil, fmt.Errorf("insert jobs: %w", err)
	}
	if newRun != nil {
		newRun.JobID = inserted[len(items)].Job.ID
	}
	if len(items) == 0 {
		return nil, nil
	}
	var rows db.ExecutionInsertManyParams
	var callbacks db.CallbackInsertManyParams
	made = make([]accepted, len(items))
	createdAt := new(time.Time) // the same for all rows of a transaction
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
	if a.run != uuid.Nil { // a batch has either stages of runs only, or no stages
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

// creditRefusalTTL is how long a refusal for insufficient credits is remembered.
const creditRefusalTTL = time.Second

// recentlyRefused remembers the workspaces that recently had insufficient credits. Batches that
// contain a submission of such a workspace check the credits before they write. Otherwise a client
// that keeps submitting without credits would roll back the writes of other clients.
// recentlyRefused never decides whether a submission is accepted.
type recentlyRefused struct {
	mu   sync.Mutex
	last map[uuid.UUID]time.Time
}

// note records that a workspace was refused at this time.
func (b *recentlyRefused) note(workspaceID uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.last == nil {
		b.last = map[uuid.UUID]time.Time{}
	}
	if len(b.last) > 1_000 {
		for id, at := range b.last {
			if now.Sub(at) > creditRefusalTTL {
				delete(b.last, id)
			}
		}
	}
	b.last[workspaceID] = now
}

// among reports whether one of the items belongs to a workspace that was refused recently.
func (b *recentlyRefused) among(items []accept) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range items {
		if at, known := b.last[a.WorkspaceID]; known && time.Since(at) <= creditRefusalTTL {
			return true
		}
	}
	return false
}
