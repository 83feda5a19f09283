// Package callback delivers results to the URLs that callers gave: it freezes the body, queues,
// signs and sends it, retries on a schedule, logs the attempts and replays deliveries.
//
// It does not decide when an execution is final, and knows nothing of the HTTP API. The one
// invariant: once an execution with a callback is final, its delivery has a job in the queue until
// it is delivered or its schedule is exhausted. Every attempt sends the same bytes, and counts
// when its row is written.
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

// Deps is what a Deliverer is made of.
type Deps struct {
	DB      *pgxpool.Pool
	Jobs    *river.Client[pgx.Tx] // inserts only
	Keyring *seal.Keyring
	Vault   *vault.Vault // of bodies with secret outputs
	Guard   *egress.Guard
	Clock   *clock.Clock // of due times; nil: this process's own
	Log     *slog.Logger

	// Quarantined reports that nothing may be sent for now; nil: never.
	Quarantined func() bool

	// Attempted, if set, is told of each attempt that is on record: its class
	// ("" = delivered) and duration.
	Attempted func(class string, took time.Duration)
}

// Settings are what an operator or a test may change. A zero field means the
// default.
type Settings struct {
	Schedule []time.Duration // delay before each attempt
	Timeout  time.Duration   // of one attempt: 15 s
	// How many exchanges this process has in flight at once.
	PerWorkspace int // 10
	PerReceiver  int // of one workspace with one host: 4
	InFlight     int // in all, shared fairly by workspaces: 200
}

// Deliverer makes deliveries: those that the queue brings and those that this
// process has just queued itself.
type Deliverer struct {
	Deps
	schedule   []time.Duration
	sender     *Sender
	workspaces *gate
	receivers  *gate
	loads      *groupcommit.Group[Args, *db.CallbackLoadManyRow]
	records    *groupcommit.Group[attempt, bool]
	handoff    handoff
	reconciler reconciler

	mu      sync.Mutex
	under   map[uuid.UUID]struct{} // executions whose callback is being delivered here
	keyless keyless                // under a master key that is missing here
}

// delivery is one callback that is due.
type delivery struct {
	Args
	jobID       int64
	restores    int32
	url         string
	sealed      []byte
	body        []byte // as it is stored
	tries       int
	unopened    time.Duration // since a worker first lacked the key of its secrets; 0: none did
	traceparent string
	held        bool // the queue's worker holds the job
}

// errNothingToDo says that a job has no delivery (any more).
var errNothingToDo = errors.New("nothing to deliver")

// NewDeliverer makes a deliverer. Drain must end it.
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
		workspaces: newGate(settings.PerWorkspace, settings.InFlight),
		receivers:  newGate(settings.PerReceiver, 0),
		under:      make(map[uuid.UUID]struct{}),
	}
	d.handoff.init()
	d.loads = groupcommit.New(groupcommit.Options[Args]{}, postgres.Unavailable, d.flushLoads)
	d.records = groupcommit.New(groupcommit.Options[attempt]{}, postgres.Unavailable, d.flushRecords)
	return d
}

// Drain lets the deliveries of this process's own end until ctx ends, cuts off
// the rest (the queue brings them again), and returns when none is left. Call it
// after the queue has stopped.
func (d *Deliverer) Drain(ctx context.Context) {
	d.handoff.drain(ctx)
	d.loads.Close()
	d.records.Close()
}

// deliver makes one attempt. again is the delay after which the holder of the
// job is to bring it again: 0 when the attempt is on record and the rest is
// settled. An error means that nothing was recorded.
func (d *Deliverer) deliver(ctx context.Context, c delivery) (again time.Duration, err error) {
	if d.Quarantined != nil && d.Quarantined() {
		return quarantinePause, nil
	}
	if !d.begin(c.ExecutionID) {
		return busyPause, nil
	}
	v, err := func() (verdict, error) {
		defer d.end(c.ExecutionID)
		return d.attempt(ctx, c)
	}()
	if v.kept {
		c.tries, c.unopened, c.held = c.tries+1, 0, false
		go d.deliverHere(c, v.again)
		return 0, nil
	}
	return v.again, err
}

// verdict is what follows an attempt, or its omission.
type verdict struct {
	again time.Duration // 0: nothing that the holder of the job has to see to
	kept  bool          // this process makes the next attempt after again
}

func (d *Deliverer) attempt(ctx context.Context, c delivery) (verdict, error) {
	body, secrets, err := d.open(ctx, c)
	if again, err := d.lacks(ctx, c, err); again > 0 || err != nil {
		return verdict{again: again}, err
	}
	if err != nil {
		d.Log.ErrorContext(ctx, "the stored secrets of a callback cannot be opened",
			"workspace_id", c.WorkspaceID, "execution_id", c.ExecutionID, "error", err)
		return d.settle(ctx, c, outcome{begun: time.Now(), class: classSecrets})
	}
	leave, again := d.enter(ctx, c)
	if leave == nil {
		return verdict{again: again}, nil
	}
	sendCtx, span := telemetry.StartSpan(telemetry.FromTraceparent(ctx, c.traceparent), "deliver callback")
	out, err := d.sender.send(sendCtx, Message{
		ExecutionID: c.ExecutionID, Restores: c.restores, URL: c.url, Body: body, Secrets: secrets, Traceparent: c.traceparent,
	})
	telemetry.EndSpan(span, out.class)
	leave()
	if err != nil {
		return verdict{}, err
	}
	if out.delivered() {
		failpoint.Reached(failpoint.AfterDelivery)
	}
	return d.settle(ctx, c, out)
}

// settle records the attempt and decides who makes the next one.
func (d *Deliverer) settle(ctx context.Context, c delivery, out outcome) (verdict, error) {
	a := attempt{delivery: c, outcome: out, again: none, job: none}
	delay, more := next(d.schedule, c.tries+1, out, rand.Float64())
	kept := false
	if more {
		a.again = delay
		kept = delay <= maxKept && d.handoff.reserve(c.WorkspaceID, len(c.body))
		switch {
		case kept:
			a.job = delay + d.safetyNet()
		case !c.held || delay >= longDelay:
			a.job = delay
		}
	}
	pending, err := d.record(ctx, a)
	if kept && !pending {
		d.handoff.release(c.WorkspaceID, len(c.body))
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
		return verdict{again: delay, kept: true}, nil
	case pending && a.job == none:
		return verdict{again: max(delay, time.Millisecond)}, nil
	}
	return verdict{}, nil
}

// quarantinePause is how long a delivery that was begun just before a quarantine
// is put off each time.
const quarantinePause = 5 * time.Second

// busyPause is the time before a delivery is tried again that this process is still
// busy with. It is short, because that attempt may only be about to return.
const busyPause = time.Second

const (
	none = time.Duration(-time.Microsecond) // no time at all: nothing follows

	// maxKept is the longest delay for which this process keeps the next attempt
	// itself, exact to the moment.
	maxKept = 30 * time.Second

	// longDelay is more than the queue takes to close a run. A shorter delay is
	// left to the worker that holds the job: written into the job, it could bring
	// the job again before that run is closed.
	longDelay = time.Second
)

// enter passes the gates of the workspace and of its receiver. Without a pass it
// returns when to come again. No gate is shared by workspaces: the receiver's is
// that of the host for this workspace alone.
func (d *Deliverer) enter(ctx context.Context, c delivery) (leave func(), again time.Duration) {
	workspace, again := d.workspaces.enter(ctx, c.WorkspaceID.String())
	if workspace == nil {
		return nil, again
	}
	receiver, again := d.receivers.enter(ctx, c.WorkspaceID.String()+" "+hostOf(c.url))
	if receiver == nil {
		workspace.drop()
		return nil, again
	}
	return func() { receiver.leave(); workspace.leave() }, 0
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return strings.ToLower(u.Host)
}

// begin reserves a callback within this process.
func (d *Deliverer) begin(executionID uuid.UUID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, busy := d.under[executionID]; busy {
		return false
	}
	d.under[executionID] = struct{}{}
	return true
}

func (d *Deliverer) end(executionID uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.under, executionID)
}

// net is how long after its start an attempt is over at the latest, with the
// waits before it: then somebody else may make it.
func (d *Deliverer) net() time.Duration { return d.sender.timeout + 10*time.Second }
