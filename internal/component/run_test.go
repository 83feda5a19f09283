package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/budget"
)

// scripted is a module whose behavior is defined by the test.
type scripted struct {
	Descriptor
	run func(ctx context.Context, call Call) (Result, error)
}

func (s scripted) Describe() Descriptor { return s.Descriptor }

func (s scripted) Run(ctx context.Context, call Call) (Result, error) { return s.run(ctx, call) }

func descriptor(edit func(*Descriptor)) Descriptor {
	d := Descriptor{
		Module: "PROBE", Title: "Probe", Description: "A module of the tests.", Category: "TEST",
		Input:  json.RawMessage(`{"type":"object","properties":{"key":{"type":"string","x-secret":true},"n":{"type":"integer"}}}`),
		Config: json.RawMessage(`{"type":"object"}`), Output: json.RawMessage(`{"type":"object"}`),
		Timeout: time.Second, Effect: EffectNone, Repeat: RepeatPure, Modes: []Mode{ModeComponent},
	}
	if edit != nil {
		edit(&d)
	}
	return d
}

func registry(t *testing.T, run func(context.Context, Call) (Result, error)) *Registry {
	t.Helper()
	r, err := NewRegistry(scripted{Descriptor: descriptor(nil), run: run})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func output(text string) Result { return Result{Output: json.RawMessage(text)} }

func errorOf(t *testing.T, err error) *Error {
	t.Helper()
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("got %T %v, want *component.Error", err, err)
	}
	return e
}

func TestEX12FaultyModuleFailsOnlyTheAttempt(t *testing.T) {
	var nothing *Descriptor
	cases := map[string]struct {
		run       func(context.Context, Call) (Result, error)
		code      string
		retryable bool
	}{
		"panic":           {func(context.Context, Call) (Result, error) { panic("boom") }, CodeInternal, true},
		"panic nil":       {func(context.Context, Call) (Result, error) { panic(nil) }, CodeInternal, true},
		"nil dereference": {func(context.Context, Call) (Result, error) { return output(nothing.Module), nil }, CodeInternal, true},
		"Goexit":          {func(context.Context, Call) (Result, error) { runtime.Goexit(); return output(`{}`), nil }, CodeInternal, true},
		"plain error":     {func(context.Context, Call) (Result, error) { return Result{}, errors.New("inner detail") }, CodeInternal, true},
		"own error": {func(context.Context, Call) (Result, error) {
			return Result{}, fmt.Errorf("wrapped: %w", Permanent("ODD", "odd"))
		}, "ODD", false},
		"guard's refusal": {func(context.Context, Call) (Result, error) {
			return Result{}, fault.Invalid("/x", "not allowed")
		}, CodeInvalidInput, false},
		"deadline": {func(ctx context.Context, _ Call) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() }, CodeTimeout, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := registry(t, c.run)
				_, err := r.Run(t.Context(), "PROBE", Call{})
				e := errorOf(t, err)
				if e.Code != c.code || e.Retryable != c.retryable {
					t.Errorf("got %s retryable %v, want %s %v", e.Code, e.Retryable, c.code, c.retryable)
				}
				if strings.Contains(e.Message, "boom") || strings.Contains(e.Message, "inner detail") || strings.Contains(e.Message, ".go:") {
					t.Errorf("the inside leaks: %s", e.Message)
				}
				if r.Stuck() != 0 {
					t.Errorf("%d goroutines are counted as stuck", r.Stuck())
				}
			})
		})
	}
}

func TestEX12ModuleThatIgnoresItsDeadlineIsAbandonedAndCounted(t *testing.T) {
	var stop atomic.Bool
	ended := make(chan struct{})
	r := registry(t, func(context.Context, Call) (Result, error) {
		defer close(ended)
		for !stop.Load() { // busy loop on purpose
		}
		return output(`{}`), nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := r.Run(ctx, "PROBE", Call{})
	if e := errorOf(t, err); e.Code != CodeTimeout {
		t.Errorf("got %s, want TIMEOUT", e.Code)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("Run came back after %s", took)
	}
	if r.Stuck() != 1 {
		t.Errorf("%d goroutines are counted as stuck, want 1", r.Stuck())
	}
	stop.Store(true)
	<-ended
	for r.Stuck() != 0 { // the count decreases right after the module returns
		runtime.Gosched()
	}
}

func TestTryReturnsTheResultOfACallThatIsInTime(t *testing.T) {
	r := registry(t, func(context.Context, Call) (Result, error) { return output(`{"n":1}`), nil })
	result, inTime, err := r.Try(t.Context(), uuid.Nil, "PROBE", Call{}, time.Hour)
	if err != nil || !inTime || string(result.Output) != `{"n":1}` {
		t.Errorf("got %s, in time %t, %v", result.Output, inTime, err)
	}
}

func TestTryReturnsTheFailureOfACallThatIsInTime(t *testing.T) {
	r := registry(t, func(context.Context, Call) (Result, error) { return Result{}, Permanent("BROKEN", "it broke") })
	_, inTime, err := r.Try(t.Context(), uuid.Nil, "PROBE", Call{}, time.Hour)
	if e := errorOf(t, err); !inTime || e.Code != "BROKEN" {
		t.Errorf("got %s, in time %t", e.Code, inTime)
	}
}

func TestTryAbandonsACallAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		r := registry(t, func(context.Context, Call) (Result, error) {
			<-letGo
			return output(`{}`), nil
		})
		began := time.Now()
		if _, inTime, err := r.Try(t.Context(), uuid.Nil, "PROBE", Call{}, 10*time.Millisecond); inTime || err == nil {
			t.Errorf("in time %t, %v", inTime, err)
		}
		if took := time.Since(began); took != 10*time.Millisecond {
			t.Errorf("it took %s, want 10ms", took)
		}
		if running := r.Computing(); running != 1 {
			t.Errorf("%d calls are computing, want 1", running)
		}
		if r.Stuck() != 0 {
			t.Errorf("%d calls are counted as stuck", r.Stuck())
		}
		close(letGo)
		synctest.Wait()
		if running := r.Computing(); running != 0 {
			t.Errorf("%d calls are computing after the module returned", running)
		}
	})
}

// A slow call is computed again as an ordinary execution. The calls after it go there directly.
func TestTryMakesNoCallOfAModuleThatWasSlowForTheWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[time.Duration]int{}
		slow := time.Second
		r := registry(t, func(context.Context, Call) (Result, error) {
			calls[slow]++
			time.Sleep(slow) // virtual: the computation
			return output(`{}`), nil
		})
		slows, other := uuid.New(), uuid.New()
		for range 3 {
			if _, inTime, _ := r.Try(t.Context(), slows, "PROBE", Call{}, 10*time.Millisecond); inTime {
				t.Error("a slow call was in time")
			}
			time.Sleep(slowFor / 4) // virtual
		}
		if calls[slow] != 1 {
			t.Errorf("%d slow calls, want 1", calls[slow])
		}
		slow = 0
		if _, inTime, err := r.Try(t.Context(), other, "PROBE", Call{}, 10*time.Millisecond); !inTime || err != nil {
			t.Errorf("the call of another workspace: in time %t, %v", inTime, err)
		}
		time.Sleep(slowFor) // virtual
		if _, inTime, err := r.Try(t.Context(), slows, "PROBE", Call{}, 10*time.Millisecond); !inTime || err != nil {
			t.Errorf("after %s: in time %t, %v", slowFor, inTime, err)
		}
	})
}

// Ninety calls of one workspace start together. Each computes for a second.
func TestCallsThatComputeAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		r := registry(t, func(context.Context, Call) (Result, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Second) // virtual: the computation
			return output(`{}`), nil
		})
		r.turns = budget.NewTurns[uuid.UUID](4)
		workspace := uuid.New()
		var calls sync.WaitGroup
		for range 90 {
			calls.Go(func() {
				call, err := r.Turn(t.Context(), workspace, "PROBE", Call{})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := r.Run(t.Context(), "PROBE", call); err != nil { // its timeout is a second
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if most.Load() != 3 {
			t.Errorf("%d calls of one workspace computed at the same time, want 3 of 4", most.Load())
		}
		if r.Computing() > 0 {
			t.Errorf("%d calls are left", r.Computing())
		}
	})
}

func TestTheModulesOwnTimeoutHoldsWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, func(ctx context.Context, _ Call) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() })
		began := time.Now()
		_, err := r.Run(t.Context(), "PROBE", Call{})
		if e := errorOf(t, err); e.Code != CodeTimeout || time.Since(began) != time.Second {
			t.Errorf("got %s after %s, want TIMEOUT after 1s", e.Code, time.Since(began))
		}
	})
}

func TestCanceledCallReturnsCanceled(t *testing.T) {
	r := registry(t, func(ctx context.Context, _ Call) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Run(ctx, "PROBE", Call{})
	if e := errorOf(t, err); e.Code != CodeCanceled {
		t.Errorf("got %s, want CANCELED", e.Code)
	}
}

func TestOutputsAreBoundedAndStorable(t *testing.T) {
	cases := map[string]struct{ output, code string }{
		"1 MiB":       {`"` + strings.Repeat("a", MaxOutput-2) + `"`, ""},
		"1 MiB + 1":   {`"` + strings.Repeat("a", MaxOutput-1) + `"`, CodeOutputTooLarge},
		"nothing":     {``, CodeInternal},
		"broken JSON": {`{"a":`, CodeInternal},
	}
	for name, c := range cases {
		r := registry(t, func(context.Context, Call) (Result, error) { return output(c.output), nil })
		result, err := r.Run(t.Context(), "PROBE", Call{})
		if c.code == "" {
			if err != nil || len(result.Output) != MaxOutput {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if e := errorOf(t, err); e.Code != c.code {
			t.Errorf("%s: got %s, want %s", name, e.Code, c.code)
		}
	}
}

func TestWaitsAreClamped(t *testing.T) {
	for _, c := range []struct{ asked, want time.Duration }{
		{-time.Second, minWait}, {0, minWait}, {2 * time.Second, 2 * time.Second}, {time.Hour, MaxWait},
	} {
		r := registry(t, func(context.Context, Call) (Result, error) {
			return Result{Wait: &Wait{After: c.asked, State: json.RawMessage(`{"seen":1}`)}}, nil
		})
		result, err := r.Run(t.Context(), "PROBE", Call{})
		if err != nil || result.Wait.After != c.want || string(result.Wait.State) != `{"seen":1}` {
			t.Errorf("a wait of %s became %+v, %v; want %s", c.asked, result.Wait, err, c.want)
		}
	}
	for name, wait := range map[string]Result{
		"state not JSON":          {Wait: &Wait{State: json.RawMessage(`{`)}},
		"state like a sealed one": {Wait: &Wait{State: json.RawMessage(`"\u0000AQ=="`)}},
		"state too large":         {Wait: &Wait{State: json.RawMessage(`"` + strings.Repeat("a", MaxState) + `"`)}},
		"with an output":          {Wait: &Wait{}, Output: json.RawMessage(`{}`)},
	} {
		r := registry(t, func(context.Context, Call) (Result, error) { return wait, nil })
		_, err := r.Run(t.Context(), "PROBE", Call{})
		if e := errorOf(t, err); e.Code != CodeInternal {
			t.Errorf("%s: got %s", name, e.Code)
		}
	}
}

func TestUnknownMembersNeverReachTheModule(t *testing.T) {
	var got Call
	r := registry(t, func(_ context.Context, call Call) (Result, error) { got = call; return output(`{}`), nil })
	call := Call{Input: json.RawMessage(`{"n":1,"N":2,"Key":"past the schema"}`), Config: json.RawMessage(`{"x":1}`)}
	if _, err := r.Run(t.Context(), "PROBE", call); err != nil {
		t.Fatal(err)
	}
	if string(got.Input) != `{"n":1}` || string(got.Config) != `{}` {
		t.Errorf("the module saw input %s and config %s", got.Input, got.Config)
	}
}
