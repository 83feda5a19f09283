package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Trial is one run of a case against a target. Its methods stop the case if a check fails. They
// must be called from the goroutine of the case, or from the goroutines of Parallel.
type Trial struct {
	ctx     context.Context
	target  *Target
	address string // client address of this trial's requests, for a target that trusts X-Forwarded-For

	mu         sync.Mutex
	cleanups   []func()
	departures []Departure
	obstacle   error           // why a failure of the case proves nothing
	strict     bool            // every request of Do prefers handling=strict
	unknown    map[string]bool // the operations that reported what AddUnknown added; nil: nothing is added
}

// Departure is a response that differs from a decision where the contract leaves a choice. If the
// target is Lenient, the case continues.
type Departure struct {
	Part string // ID of the decision
	Text string // what the response was instead
	Here bool   // the case checks this decision; otherwise it applies to every response
}

// failure is the panic value that stops a case.
type failure struct{ text string }

// Run runs a case and returns an error if it failed. A case is limited to two minutes, because some
// cases wait for the next minute of the clock. If the target is Unhurried, only ctx limits the
// case.
func Run(ctx context.Context, target *Target, run func(*Trial)) error {
	_, err := Watch(ctx, target, run)
	return err
}

// Watch is like Run, and also returns each departure of a lenient target from the decisions
// once.
func Watch(ctx context.Context, target *Target, run func(*Trial)) ([]Departure, error) {
	if !target.Unhurried {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
	}
	t := &Trial{ctx: ctx, target: target, address: anyAddress()}
	defer t.end()
	err := Caught(func() { run(t) })
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && t.obstacle != nil {
		err = &Unjudged{t.obstacle, err}
	}
	return t.departures, err
}

// anyAddress returns an address in 198.18.0.0/15, which is set aside for tests.
func anyAddress() string {
	return fmt.Sprintf("198.%d.%d.%d", 18+rand.IntN(2), rand.IntN(256), rand.IntN(256))
}

// Unjudged is the error of a case that failed because the deployment was too busy or could not be
// reached. It proves no violation.
type Unjudged struct {
	Obstacle error // the last refusal or network error
	Err      error // how the case failed
}

func (u *Unjudged) Error() string { return fmt.Sprintf("%v; then %v", u.Obstacle, u.Err) }

// busy records why the case cannot judge the deployment. It does nothing if obstacle is nil.
func (t *Trial) busy(obstacle error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if obstacle != nil {
		t.obstacle = obstacle
	}
}

// Caught calls a function and returns an error if it stops the case. A panic in the case is an
// error too, because its cause is an unexpected response.
func Caught(run func()) (err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case failure:
			err = errors.New(cause.text)
		default:
			err = fmt.Errorf("the case panicked at %s: %v", tripped(), cause)
		}
	}()
	run()
	return nil
}

// tripped returns the place in a case that panicked.
func tripped() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "a place that is not known"
		}
	}
}

// Decided is like Check, for a decision where the contract leaves a choice: if a lenient target
// departs from the decision, the case continues.
func (t *Trial) Decided(part string, ok bool, format string, args ...any) {
	if !ok {
		t.NoError(part, t.differs(part, fmt.Errorf(format, args...)))
	}
}

// differs is like departs, for a decision that the case itself checks. In a case that proves only
// choices, it returns an error.
func (t *Trial) differs(part string, err error) error {
	if err == nil || t.target.Choices {
		return err
	}
	return t.note(Departure{Part: part, Here: true}, err)
}

// departs records the departure of a lenient target from a decision. For any other target
// it returns an error.
func (t *Trial) departs(part string, err error) error {
	return t.note(Departure{Part: part}, err)
}

func (t *Trial) note(d Departure, err error) error {
	if err == nil || !t.target.Lenient {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(t.departures, func(noted Departure) bool { return noted.Part == d.Part && noted.Here == d.Here }) {
		d.Text = err.Error()
		t.departures = append(t.departures, d)
	}
	return nil
}

func (t *Trial) end() {
	for _, cleanup := range slices.Backward(t.cleanups) {
		cleanup()
	}
}

// Context returns a context that ends with the time limit of the trial.
func (t *Trial) Context() context.Context { return t.ctx }

// Target returns the deployment under test.
func (t *Trial) Target() *Target { return t.target }

// Cleanup registers a function to call after the trial, in reverse order.
func (t *Trial) Cleanup(cleanup func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, cleanup)
}

// Fatalf fails and stops the case.
func (t *Trial) Fatalf(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

// Check fails and stops the case unless ok is true.
func (t *Trial) Check(ok bool, format string, args ...any) {
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Equal fails and stops the case unless both values are deeply equal.
func (t *Trial) Equal(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// NoError fails and stops the case if err is not nil.
func (t *Trial) NoError(what string, err error) {
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Parallel runs n copies of a function in parallel and waits for them.
func (t *Trial) Parallel(n int, run func(i int)) {
	var all sync.WaitGroup
	faults := make([]error, n)
	for i := range n {
		all.Go(func() { faults[i] = Caught(func() { run(i) }) })
	}
	all.Wait()
	for i, err := range faults {
		if err != nil {
			t.Fatalf("%d of %d: %v", i+1, n, err)
		}
	}
}

// Limit returns how long something may take: the usual limit, or a day against an Unhurried
// target.
func (t *Trial) Limit(usual time.Duration) time.Duration {
	if t.target.Unhurried {
		return 24 * time.Hour
	}
	return usual
}

// Soon fails and stops the case if something took longer than the limit.
func (t *Trial) Soon(took, limit time.Duration, format string, args ...any) {
	t.Check(took <= t.Limit(limit), format, args...)
}

// Until calls condition, at growing intervals, until condition returns true. The case fails when a
// call that started after the limit returns false. A slow call that started before the limit does
// not fail the case.
func (t *Trial) Until(what string, limit time.Duration, condition func() bool) {
	deadline := time.Now().Add(t.Limit(limit))
	for pause := 5 * time.Millisecond; ; pause = min(pause*3/2, 200*time.Millisecond) {
		last := time.Now().After(deadline)
		if condition() {
			return
		}
		if last {
			t.Fatalf("%s: not within %v", what, limit)
		}
		select {
		case <-t.ctx.Done():
			t.Fatalf("%s: the case has exceeded its time limit", what)
		case <-time.After(pause):
		}
	}
}
