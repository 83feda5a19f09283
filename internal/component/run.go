package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

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
// finishes. A call of a module without effect must have waited for its Turn.
func (r *Registry) Run(ctx context.Context, module string, call Call) (Result, error) {
	return r.run(ctx, module, call, grace, &r.stuck)
}

// Turn waits until a module without effect may compute for the workspace, and returns the call with
// its turn. The turn ends when the module returns, or when it should have: a module that hangs must not
// keep its workspace from computing. Other modules don't wait. The wait doesn't count
// towards the module's timeout, so that a busy process fails no call. Turn returns the error of ctx.
func (r *Registry) Turn(ctx context.Context, workspaceID uuid.UUID, module string, call Call) (Call, error) {
	entry, ok := r.entries[module]
	if !ok || entry.Effect != EffectNone {
		return call, nil
	}
	if err := r.turns.Acquire(ctx, workspaceID); err != nil {
		return call, err
	}
	release := sync.OnceFunc(func() { r.turns.Release(workspaceID) })
	stuck := time.AfterFunc(entry.Timeout+grace, release)
	call.done = func() { stuck.Stop(); release() }
	return call, nil
}

// Try is like Turn and Run, but both together have only the time in limit, without a grace period. It
// reports whether the module returned in time. If not, the call has no result, and its goroutine is
// abandoned, but keeps its turn. For slowFor, Try then makes no call of the module
// for the workspace, because most such calls would be computed twice.
func (r *Registry) Try(ctx context.Context, workspaceID uuid.UUID, module string, call Call, limit time.Duration) (result Result, inTime bool, err error) {
	if r.slow.recently(workspaceID, module) {
		return Result{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	call, err = r.Turn(ctx, workspaceID, module, call)
	if err != nil {
		return Result{}, false, err
	}
	start := time.Now()
	result, err = r.run(ctx, module, call, 0, new(atomic.Int64))
	inTime = err == nil || ctx.Err() == nil
	if !inTime && time.Since(start) > limit/2 { // the rest of the time was spent waiting
		r.slow.note(workspaceID, module)
	}
	return result, inTime, err
}

// slowFor is how long a module counts as slow for a workspace after one of its calls was.
const slowFor = 10 * time.Second

// maxSlow limits the remembered slow modules. Beyond it, all are forgotten.
const maxSlow = 10_000

// slowModules remembers which modules were slow for which workspaces.
type slowModules struct {
	mu sync.Mutex
	at map[slowModule]time.Time
}

type slowModule struct {
	workspaceID uuid.UUID
	module      string
}

func (s *slowModules) note(workspaceID uuid.UUID, module string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil || len(s.at) >= maxSlow {
		s.at = map[slowModule]time.Time{}
	}
	s.at[slowModule{workspaceID, module}] = time.Now()
}

func (s *slowModules) recently(workspaceID uuid.UUID, module string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, slow := s.at[slowModule{workspaceID, module}]
	return slow && time.Since(at) < slowFor
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
	if call.done != nil {
		defer call.done()
	}
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
