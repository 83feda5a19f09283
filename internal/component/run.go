package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// grace is how long a module may take to return after its deadline. After the grace period, the
// module's goroutine is abandoned and counted as stuck.
const grace = 500 * time.Millisecond

// Run makes one call of a module. It never panics, and returns within a short grace period after
// the deadline of ctx or the module's timeout. Every error is a *Error without secrets: TIMEOUT,
// CANCELED, OUTPUT_TOO_LARGE, INTERNAL_ERROR, or the module's error.
//
// A goroutine that does not return can't be killed. It is abandoned and counted in Stuck until it
// finishes.
func (r *Registry) Run(ctx context.Context, module string, call Call) (Result, error) {
	return r.run(ctx, module, call, grace, &r.stuck)
}

// maxAbandoned limits the calls of Try that still run after their limit. While there are so many, Try
// makes no call, so that slow modules do not pile up outside of the slots for executions.
const maxAbandoned = 4

// Try is like Run, but gives the call only the time in limit and no grace period. It reports
// whether the module returned in time. If not, the call had no result, and its goroutine is
// abandoned. While maxAbandoned such calls still run, Try makes no call and returns false.
func (r *Registry) Try(ctx context.Context, module string, call Call, limit time.Duration) (result Result, inTime bool, err error) {
	if r.abandoned.Load() >= maxAbandoned {
		return Result{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err = r.run(ctx, module, call, 0, &r.abandoned)
	return result, err == nil || ctx.Err() == nil, err
}

// run is Run with a grace period and a counter of calls that still run after it.
func (r *Registry) run(ctx context.Context, module string, call Call, grace time.Duration, late *atomic.Int64) (Result, error) {
	entry, ok := r.entries[module]
	if !ok {
		return Result{}, Permanent(CodeInternal, "unknown module %s on this worker", quote(module))
	}
	ctx, cancel := context.WithTimeout(ctx, entry.Timeout)
	defer cancel()
	secrets := call.Secrets
	call.Secrets = nil

	result, err := r.contain(ctx, entry, entry.known(call), grace, late)
	if err == nil {
		err = settle(&result)
	}
	if err != nil {
		return Result{}, failure(ctx, err, entry.Redactor(call.Input, call.Config, secrets...))
	}
	return result, nil
}

type outcome struct {
	result Result
	err    error
}

// contain runs the module in a separate goroutine, so that a module that panics, calls Goexit or
// never returns doesn't affect the caller.
func (r *Registry) contain(ctx context.Context, entry *Entry, call Call, grace time.Duration, late *atomic.Int64) (Result, error) {
	done := make(chan outcome, 1)
	var settled atomic.Bool
	go func() {
		defer func() {
			if !settled.CompareAndSwap(false, true) {
				late.Add(-1)
			}
		}()
		attempt(ctx, entry.module, call, done)
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case o := <-done:
		return o.result, o.err
	case <-patience.C:
	}
	late.Add(1)
	if !settled.CompareAndSwap(false, true) {
		late.Add(-1)
		o := <-done
		return o.result, o.err
	}
	return Result{}, fmt.Errorf("the module did not return: %w", ctx.Err())
}

// attempt calls the module and always sends an outcome, even if the module panics or exits its
// goroutine.
func attempt(ctx context.Context, module Module, call Call, done chan<- outcome) {
	o := outcome{err: errors.New("the module exited its goroutine")}
	defer func() {
		if cause := recover(); cause != nil {
			o = outcome{err: fmt.Errorf("panic: %v\n%s", cause, debug.Stack())}
		}
		done <- o
	}()
	result, err := module.Run(ctx, call)
	o = outcome{result: result, err: err}
}

// settle validates a result and clamps a wait to its limits.
func settle(result *Result) error {
	if result.Wait == nil {
		return settleOutput(result.Output)
	}
	if result.Output != nil {
		return errors.New("the module returned an output and a wait")
	}
	wait := *result.Wait
	if len(wait.State) > MaxState {
		return fmt.Errorf("the state of the wait is too large: %d bytes", len(wait.State))
	}
	if wait.State != nil {
		if err := strictjson.Check(wait.State); err != nil {
			return &Error{Code: CodeInternal, Message: "the component returned a wait state that cannot be stored", Err: fmt.Errorf("check state: %w", err)}
		}
	}
	wait.After = min(max(wait.After, minWait), MaxWait)
	result.Wait = &wait
	return nil
}

func settleOutput(output json.RawMessage) error {
	if len(output) > MaxOutput {
		return Permanent(CodeOutputTooLarge, "the output has %d bytes; at most %d are allowed", len(output), MaxOutput)
	}
	if err := strictjson.Check(output); err != nil {
		return &Error{Code: CodeInternal, Message: "the component returned an output that cannot be stored", Err: fmt.Errorf("check output: %w", err)}
	}
	return nil
}
