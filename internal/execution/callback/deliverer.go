// Package callback delivers results to the URLs that callers specified. It freezes the body,
// enqueues, signs and sends it, retries on a schedule, logs the attempts, and replays deliveries.
//
// The package does not decide when an execution is final, and does not depend on the HTTP API.
// Invariant: once an execution with a callback is final, its delivery has a job in the queue until
// the callback is delivered or its schedule is exhausted. Every attempt sends the same bytes, and
// counts once its row is written.
package callback

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// Deps are the dependencies of a Deliverer.
type Deps struct {
	DB      *pgxpool.Pool
	Jobs    *river.Client[pgx.Tx] // inserts only
	Keyring *seal.Keyring
	Vault   *vault.Vault // seals bodies with secret outputs
	Guard   *egress.Guard
	Clock   *clock.Clock // computes due times; the process's own clock if nil
	Log     *slog.Logger

	// Quarantined reports whether the database is in quarantine, during which nothing may be sent.
	// If the function is nil, the database is never in quarantine.
	Quarantined func() bool

	// Attempted, if set, is called for each recorded attempt, with the attempt's error class ("" if
	// delivered) and duration.
	Attempted func(class string, took time.Duration)
}

// Settings can be changed by an operator or a test. A zero field means the default value.
type Settings struct {
	Schedule []time.Duration // delay before each attempt
	Timeout  time.Duration   // of one attempt; default 15 s
	// Limits for the requests in flight in this process.
	PerWorkspace int // default 10
	PerReceiver  int // for one workspace and one host; default 4
	InFlight     int // in total, shared fairly between workspaces; default 200
}

// Deliverer attempts deliveries that the queue fetches, and deliveries that this process has just
// enqueued.
type Deliverer struct {
	Deps
	schedule   []time.Duration
	sender     *Sender
	workspaces *limiter
	receivers  *limiter
	loads      *groupcommit.Group[Args, *db.CallbackLoadManyRow]
	records    *groupcommit.Group[attempt, bool]
	local      localDeliveries
	reconciler reconciler

	mu         sync.Mutex
	delivering map[uuid.UUID]struct{} // executions whose callback is being delivered here
	keyless    keyless                // deliveries that this process lacks the master key for
}

// delivery is one callback that is due.
type delivery struct {
	Args
	jobID       int64
	ofRun       bool
	kind        string // the webhook-type
	restores    int32
	url         string
	sealed      []byte
	body        []byte // as stored
	tries       int
	unopened    time.Duration // time since a worker first lacked the key of the secrets; 0: no worker lacked it
	traceparent string
	held        bool // a River worker holds the job
}

// errNothingToDo is returned for a job whose delivery is finished or has a different job.
var errNothingToDo = errors.New("nothing to deliver")

// NewDeliverer returns a Deliverer. Call Drain to stop it.
func NewDeliverer(deps Deps, settings Settings) *Deliverer {
	if len(settings.Schedule) == 0 {
		settings.Schedule = DefaultSchedule()
	}
	if settings.PerWorkspace <= 0 {
		settings.PerWorkspace = 10
	}
	if settings.PerReceiver <= 0 {
		settings.PerReceiver = 4
	}
	if settings.InFlight <= 0 {
		settings.InFlight = 200
	}
	d := &Deliverer{
		Deps:       deps,
		schedule:   settings.Schedule,
		sender:     NewSender(deps.Guard, settings.Timeout),
		workspaces: newLimiter(settings.PerWorkspace, settings.InFlight),
		receivers:  newLimiter(settings.PerReceiver, 0),
		delivering: make(map[uuid.UUID]struct{}),
	}
	d.local.init()
	d.loads = groupcommit.New(groupcommit.Options[Args]{}, postgres.Unavailable, d.flushLoads)
	d.records = groupcommit.New(groupcommit.Options[attempt]{}, postgres.Unavailable, d.flushRecords)
	return d
}

// Drain waits for deliveries that this process makes without the queue. When ctx is done, Drain
// interrupts the remaining deliveries, which later continue from the queue. It returns when all
// have stopped. Call it after the queue has stopped.
func (d *Deliverer) Drain(ctx context.Context) {
	d.local.drain(ctx)
	d.loads.Close()
	d.records.Close()
}

// deliver makes one attempt. retryIn is the delay after which the worker that holds the job must
// try again. It is 0 if the attempt is recorded and the next one is scheduled. If deliver returns
// an error, nothing was recorded.
func (d *Deliverer) deliver(ctx context.Context, c delivery) (retryIn time.Duration, err error) {
	if d.quarantined() {
		return quarantinePause, nil
	}
	if !d.claim(c.ExecutionID) {
		return busyPause, nil
	}
	v, err := func() (verdict, error) {
		defer d.unclaim(c.ExecutionID)
		return d.attempt(ctx, c)
	}()
	if v.kept {
		c.tries, c.unopened, c.held = c.tries+1, 0, false
		go d.deliverHere(c, v.retryIn)
		return 0, nil
	}
	return v.retryIn, err
}

func (d *Deliverer) quarantined() bool { return d.Quarantined != nil && d.Quarantined() }

// verdict says what must follow an attempt, or a delivery that was not attempted.
type verdict struct {
	retryIn time.Duration // 0: the worker that holds the job has nothing more to do
	kept    bool          // this process makes the next attempt itself, after retryIn
}

// attempt decrypts, sends and records one attempt. It sends nothing if the key is missing or a
// limiter rejects the attempt.
func (d *Deliverer) attempt(ctx context.Context, c delivery) (verdict, error) {
	body, secrets, err := d.open(ctx, c)
	if retryIn, err := d.waitForKey(ctx, c, err); retryIn > 0 || err != nil {
		return verdict{retryIn: retryIn}, err
	}
	if err != nil {
		d.Log.ErrorContext(ctx, "the stored secrets of a callback cannot be decrypted",
			"workspace_id", c.WorkspaceID, "execution_id", c.ExecutionID, "error", err)
		return d.settle(ctx, c, outcome{started: time.Now(), class: classSecrets, sent: egress.SentNo})
	}
	release, retryIn := d.acquire(ctx, c)
	if release == nil {
		return verdict{retryIn: retryIn}, nil
	}
	sendCtx, span := telemetry.StartSpan(telemetry.FromTraceparent(ctx, c.traceparent), "deliver callback")
	out, err := d.sender.send(sendCtx, Message{
		ID: c.ExecutionID, OfRun: c.ofRun, Type: c.kind, Restores: c.restores, URL: c.url, Body: body, Secrets: secrets, Traceparent: c.traceparent,
	})
	telemetry.EndSpan(span, out.class)
	release()
	if err != nil {
		return verdict{}, err
	}
	if out.delivered() {
		failpoint.Reached(failpoint.AfterDelivery)
	}
	return d.settle(ctx, c, out)
}

// settle records the attempt and decides where the next attempt is made: in this process, by the
// worker that holds the job, or through the queue.
func (d *Deliverer) settle(ctx context.Context, c delivery, out outcome) (verdict, error) {
	a := attempt{delivery: c, outcome: out, retryIn: none, job: none}
	delay, more := next(d.schedule, c.tries+1, out, rand.Float64())
	kept := false
	if more {
		a.retryIn = delay
		kept = delay <= maxKept && d.local.reserve(c.WorkspaceID, len(c.body))
		switch {
		case kept:
			a.job = delay + d.safetyNet()
		case !c.held || delay >= longDelay:
			a.job = delay
		}
	}
	pending, err := d.record(ctx, a)
	if kept && !pending {
		d.local.release(c.WorkspaceID, len(c.body))
	}
	if err != nil {
		return verdict{}, err
	}
	failpoint.Reached(failpoint.AfterRecording)
	if d.Attempted != nil {
		d.Attempted(out.class, out.took)
	}
	switch {
	case pending && kept:
		return verdict{retryIn: delay, kept: true}, nil
	case pending && a.job == none:
		return verdict{retryIn: max(delay, time.Millisecond)}, nil
	}
	return verdict{}, nil
}

// quarantinePause is the delay before a delivery is retried that was fetched just before a
// quarantine.
const quarantinePause = 5 * time.Second

// busyPause is the delay before a delivery is retried that this process is already attempting. The
// delay is short, because the attempt in flight may be about to finish.
const busyPause = time.Second

const (
	none = time.Duration(-time.Microsecond) // no delay: no attempt follows

	// maxKept is the longest delay for which this process keeps the next attempt. For short delays,
	// the queue would be less punctual.
	maxKept = 30 * time.Second

	// longDelay is longer than River takes to complete a job that has run. A shorter delay is left
	// to the worker that holds the job. If it were written into the job, the job could become
	// available before River has completed it.
	longDelay = time.Second
)

// acquire acquires one permit for the workspace and one for the receiver. If it does not get both,
// it returns the delay after which to try again. Workspaces share no limiter: a receiver's limiter
// counts only the requests of this workspace to the host. It returns no permit if a quarantine has
// started while it waited.
func (d *Deliverer) acquire(ctx context.Context, c delivery) (release func(), retryIn time.Duration) {
	workspace, retryIn := d.workspaces.acquire(ctx, c.WorkspaceID.String())
	if workspace == nil {
		return nil, retryIn
	}
	receiver, retryIn := d.receivers.acquire(ctx, c.WorkspaceID.String()+" "+hostOf(c.url))
	if receiver == nil {
		workspace.cancel()
		return nil, retryIn
	}
	if d.quarantined() {
		receiver.cancel()
		workspace.cancel()
		return nil, quarantinePause
	}
	return func() { receiver.release(); workspace.release() }, 0
}

// hostOf returns the lower-case host and port of a URL.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return strings.ToLower(u.Host)
}

// claim marks a callback as being delivered by this process. It returns false if the callback was
// already marked.
func (d *Deliverer) claim(executionID uuid.UUID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, busy := d.delivering[executionID]; busy {
		return false
	}
	d.delivering[executionID] = struct{}{}
	return true
}

// unclaim reverses claim.
func (d *Deliverer) unclaim(executionID uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.delivering, executionID)
}

// maxDuration is how long an attempt can take, including the time before it is sent. After that, a
// different process may repeat the attempt.
func (d *Deliverer) maxDuration() time.Duration { return d.sender.timeout + 10*time.Second }
