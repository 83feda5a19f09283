// Package callback owns the delivery of results to the URLs that callers gave:
// freezing the bytes, queueing, signing, sending, the schedule of attempts,
// their log, and replays.
//
// It does not decide when an execution is final, and knows no HTTP of the API.
// The one invariant: once an execution with a callback is final, its delivery
// has a job in the queue until it is delivered or its schedule is used up; every
// attempt sends the same bytes, and counts when its row is written.
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
	"github.com/weft-automation/weft/internal/crashpoint"
	"github.com/weft-automation/weft/internal/egress"
	"github.com/weft-automation/weft/internal/groupcommit"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/seal"
)

// Deps is what a Deliverer is made of.
type Deps struct {
	DB      *pgxpool.Pool
	Jobs    *river.Client[pgx.Tx] // inserts only
	Keyring *seal.Keyring
	Guard   *egress.Guard
	Log     *slog.Logger

	// Attempted, if set, is told of each attempt that is on record: its class
	// ("" = delivered) and duration.
	Attempted func(class string, took time.Duration)
}

// Settings are what an operator or a test may change. A zero field means the
// default.
type Settings struct {
	Schedule     []time.Duration // delay before each attempt
	Timeout      time.Duration   // of one attempt: 15 s
	PerWorkspace int             // exchanges under way at once: 10
	PerHost      int             // exchanges under way at once, in this process: 4
}

// Deliverer makes deliveries: those that the queue brings and those that this
// process has just queued itself.
type Deliverer struct {
	Deps
	schedule   []time.Duration
	sender     *Sender
	workspaces *gate
	hosts      *gate
	loads      *groupcommit.Group[Args, *db.CallbackLoadManyRow]
	records    *groupcommit.Group[attempt, bool]
	handoff    handoff
	reconciler reconciler

	mu    sync.Mutex
	under map[uuid.UUID]struct{} // executions whose callback is being delivered here
}

// delivery is one callback that is due.
type delivery struct {
	Args
	jobID       int64
	url         string
	sealed      []byte
	body        []byte
	tries       int
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
	if settings.PerHost <= 0 {
		settings.PerHost = 4
	}
	d := &Deliverer{
		Deps:       deps,
		schedule:   settings.Schedule,
		sender:     NewSender(deps.Guard, settings.Timeout),
		workspaces: newGate(settings.PerWorkspace),
		hosts:      newGate(settings.PerHost),
		under:      make(map[uuid.UUID]struct{}),
	}
	d.handoff.init()
	d.loads = groupcommit.New(groupcommit.Options{}, postgres.Unavailable, d.flushLoads)
	d.records = groupcommit.New(groupcommit.Options{}, postgres.Unavailable, d.flushRecords)
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
	if !d.begin(c.ExecutionID) {
		return d.net(), nil
	}
	defer d.end(c.ExecutionID)
	secrets, err := unseal(d.Keyring, c.WorkspaceID, c.ExecutionID, c.sealed)
	if err != nil {
		return 0, err
	}
	leave, again := d.enter(ctx, c)
	if leave == nil {
		return again, nil
	}
	out, err := d.sender.send(ctx, Message{
		ExecutionID: c.ExecutionID, URL: c.url, Body: c.body, Secrets: secrets, Traceparent: c.traceparent,
	})
	leave()
	if err != nil {
		return 0, err
	}
	if out.delivered() {
		crashpoint.Reached(crashpoint.AfterDelivery)
	}
	return d.settle(ctx, c, out)
}

// settle records the attempt and says what the holder of the job has to do.
func (d *Deliverer) settle(ctx context.Context, c delivery, out outcome) (time.Duration, error) {
	delay, more := next(d.schedule, c.tries+1, out, rand.Float64())
	a := attempt{delivery: c, outcome: out, again: -1}
	if more {
		// A long delay is written into the job by the record itself, exact to the
		// moment. A short one is left to the holder of the job: the job could come
		// again before its present run is closed.
		a.again, a.rearm = delay, !c.held || delay >= longDelay
	}
	pending, err := d.record(ctx, a)
	if err != nil {
		return 0, err
	}
	crashpoint.Reached(crashpoint.AfterRecording)
	if d.Attempted != nil {
		d.Attempted(out.class, out.took)
	}
	if !pending || !more || a.rearm {
		return 0, nil
	}
	return max(delay, time.Millisecond), nil
}

// longDelay is more than the queue takes to close a run.
const longDelay = time.Second

// enter passes the gates of the workspace and of the host. Without a pass it
// says when to come again.
func (d *Deliverer) enter(ctx context.Context, c delivery) (leave func(), again time.Duration) {
	workspace, again := d.workspaces.enter(ctx, c.WorkspaceID.String())
	if workspace == nil {
		return nil, again
	}
	host, again := d.hosts.enter(ctx, hostOf(c.url))
	if host == nil {
		workspace.drop()
		return nil, again
	}
	return func() { host.leave(); workspace.leave() }, 0
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
