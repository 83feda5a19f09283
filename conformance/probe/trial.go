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

// Trial is one run of a case against a target. Its methods end the case when
// something is not as it should be; they are called from the case's goroutine,
// or from those of Parallel.
type Trial struct {
	ctx     context.Context
	target  *Target
	address string // that this trial's requests come from, as far as the target believes it

	mu         sync.Mutex
	cleanups   []func()
	departures []Departure
	strict     bool            // every request of Do prefers handling=strict
	unknown    map[string]bool // the operations that reported what AddUnknown added; nil: nothing is added
}

// Departure is an answer that is not what was decided where the contract leaves a thing
// open. A target that is Lenient may give it: the case goes on.
type Departure struct {
	Part string // what was decided, by its id
	Text string // what came instead
	Here bool   // the case asked for it; otherwise it is of every answer
}

// failure is what ends a case.
type failure struct{ text string }

// Run runs a case and says how it failed, if it did. A case has two minutes, because the
// next minute of the clock, for which some wait, may be one away. Against an Unhurried
// target it has as long as ctx.
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
	// 198.18.0.0/15 is set aside for tests.
	address := fmt.Sprintf("198.%d.%d.%d", 18+rand.IntN(2), rand.IntN(256), rand.IntN(256))
	t := &Trial{ctx: ctx, target: target, address: address}
	defer t.end()
	err := Caught(func() { run(t) })
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.departures, err
}

// Caught turns the end of a case inside a function into an error. A case that trips over
// an answer that it did not expect has found something too.
func Caught(run func()) (err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case failure:
			err = errors.New(cause.text)
		default:
			err = fmt.Errorf("the case broke off at %s: %v", tripped(), cause)
		}
	}()
	run()
	return nil
}

// tripped is the place in a case that panicked.
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

// Decided is Check for what was decided where the contract leaves a thing open: a lenient
// target may do otherwise, and the case goes on.
func (t *Trial) Decided(part string, ok bool, format string, args ...any) {
	if !ok {
		t.NoError(part, t.differs(part, fmt.Errorf(format, args...)))
	}
}

// differs is departs for what the case asked for itself, so that one about choices alone
// ends by it.
func (t *Trial) differs(part string, err error) error {
	if err == nil || t.target.Choices {
		return err
	}
	return t.note(Departure{Part: part, Here: true}, err)
}

// departs notes what a lenient target does otherwise than was decided; of any other it is
// an error.
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

// Context ends with the trial's time.
func (t *Trial) Context() context.Context { return t.ctx }

// Target is the deployment under test.
func (t *Trial) Target() *Target { return t.target }

// Cleanup runs a function when the trial is over, the last one first.
func (t *Trial) Cleanup(cleanup func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, cleanup)
}

// Fatalf ends the case.
func (t *Trial) Fatalf(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

// Check ends the case unless ok.
func (t *Trial) Check(ok bool, format string, args ...any) {
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Equal ends the case unless both are deeply equal.
func (t *Trial) Equal(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// NoError ends the case on an error.
func (t *Trial) NoError(what string, err error) {
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Parallel runs n copies of a function at once and waits for them.
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

// Soon ends the case if something took longer than the limit.
func (t *Trial) Soon(took, limit time.Duration, format string, args ...any) {
	t.Check(took <= t.Limit(limit), format, args...)
}

// Until polls, ever more slowly, until yes returns true. The case ends when a poll that
// started after the limit returns false, so a slow answer does not count against its content.
func (t *Trial) Until(what string, limit time.Duration, yes func() bool) {
	deadline := time.Now().Add(t.Limit(limit))
	for pause := 5 * time.Millisecond; ; pause = min(pause*3/2, 200*time.Millisecond) {
		last := time.Now().After(deadline)
		if yes() {
			return
		}
		if last {
			t.Fatalf("%s: not within %v", what, limit)
		}
		select {
		case <-t.ctx.Done():
			t.Fatalf("%s: the case's time is up", what)
		case <-time.After(pause):
		}
	}
}
