package execution_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// Steps of the scripted component.
const (
	answered = "answered" // the attempt fails with a response
	late     = "late"     // the attempt takes too long
	unsent   = "unsent"   // the attempt takes too long before its request is sent
	lost     = "lost"     // the connection is lost after the request was sent
	waits    = "waits"    // the attempt waits
)

// scripted is a component that performs the steps in its input, one per call. After the last step
// it pauses for as long as possible.
type scripted struct {
	module
	over sync.Map // executions that performed their last step
}

func newScripted(name string) *scripted {
	s := &scripted{}
	s.module = module{name: name, price: 1, repeat: component.RepeatIdempotent, timeout: time.Hour}
	s.run = func(_ context.Context, call component.Call) (component.Result, error) {
		var turns []string
		if err := json.Unmarshal(call.Input, &struct{ Turns *[]string }{&turns}); err != nil {
			return component.Result{}, err
		}
		next := 0 // the first step of this attempt
		for range call.Attempt - 1 {
			next += slices.IndexFunc(turns[next:], func(turn string) bool { return turn != waits }) + 1
		}
		if call.State != nil {
			if err := json.Unmarshal(call.State, &next); err != nil {
				return component.Result{}, err
			}
		}
		delay := time.Millisecond
		if next >= len(turns)-1 {
			next, delay = len(turns)-1, time.Hour
			s.over.Store(call.ExecutionID, true)
		}
		failure := component.Temporary(component.CodeUpstream, "it is busy")
		switch turns[next] {
		case waits:
			state, err := json.Marshal(next + 1)
			return component.Result{Wait: &component.Wait{After: delay, State: state}}, err
		case late:
			failure = component.Temporary(component.CodeTimeout, "it took too long")
		case unsent:
			failure = component.Temporary(component.CodeTimeout, "it took too long").With(map[string]string{"class": "timeout", "sent": "no"})
		case lost:
			failure = failure.With(map[string]string{"class": "reset", "sent": "unknown"})
		}
		failure.RetryAfter = delay
		return component.Result{}, failure
	}
	return s
}

// accept accepts a stage that performs the specified steps.
func (s *scripted) accept(t *testing.T, b *bench, n *node, run uuid.UUID, turns ...string) uuid.UUID {
	t.Helper()
	input, err := json.Marshal(map[string]any{"turns": turns})
	if err != nil {
		t.Fatal(err)
	}
	made, _ := b.accept(t, n, 1, execution.Stage{RunID: run, Module: s.name, Input: input, Attempts: 3})
	return made[0]
}

// await waits until an execution pauses after its last step.
func (s *scripted) await(t *testing.T, b *bench, id uuid.UUID) {
	t.Helper()
	waittest.Until(t, "the last turn", func() bool { _, over := s.over.Load(id); return over })
	b.until(t, "SELECT worker_id IS NULL FROM component_executions WHERE id = '"+id.String()+"'")
}

// outcomes are sequences of steps. Each says whether the outcome is unknown after them.
var outcomes = map[string]struct {
	turns   []string
	unknown bool
}{
	"answered":                    {turns: []string{answered}},
	"answered twice":              {turns: []string{answered, answered}},
	"late":                        {turns: []string{late}, unknown: true},
	"late, answered":              {turns: []string{late, answered}, unknown: true},
	"answered, late":              {turns: []string{answered, late}, unknown: true},
	"unsent":                      {turns: []string{unsent}},
	"lost":                        {turns: []string{lost}, unknown: true},
	"lost, unsent":                {turns: []string{lost, unsent}, unknown: true},
	"waits":                       {turns: []string{waits}, unknown: true},
	"waits twice":                 {turns: []string{waits, waits}, unknown: true},
	"waits, answered":             {turns: []string{waits, answered}},
	"waits, late":                 {turns: []string{waits, late}, unknown: true},
	"answered, waits":             {turns: []string{answered, waits}, unknown: true},
	"answered, waits, answered":   {turns: []string{answered, waits, answered}},
	"late, waits twice, answered": {turns: []string{late, waits, waits, answered}, unknown: true},
}

// A canceled execution has a known outcome only if each attempt so far got a response, whether the
// execution is canceled between two steps or at the start of a step.
func TestACancelKnowsTheOutcomeIfEachAttemptWasAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := newScripted("SCRIPTED")
	n := b.start(t, options{slots: 4, workers: 8}, s)
	run, other := b.run(t, n, credit.Amount(len(outcomes))), b.run(t, n, credit.Amount(len(outcomes)))
	between, atStart := map[string]uuid.UUID{}, map[string]uuid.UUID{}
	for name, c := range outcomes {
		between[name], atStart[name] = s.accept(t, b, n, run, c.turns...), s.accept(t, b, n, other, c.turns...)
	}
	for name := range outcomes {
		s.await(t, b, between[name])
		s.await(t, b, atStart[name])
	}
	b.exec(t, "UPDATE workflow_runs SET cancel_requested_at = now(), cancel_mode = 'immediate' WHERE id = $1", other)
	b.until(t, "SELECT count(*) = 0 FROM river.river_job WHERE state = 'running'")
	b.exec(t, "UPDATE component_executions SET not_before = now() WHERE run_id = $1 AND not_before IS NOT NULL", other)
	b.exec(t, `UPDATE river.river_job j SET state = 'available', scheduled_at = now() FROM component_executions e
		WHERE e.job_id = j.id AND e.run_id = $1 AND j.state <> 'running'`, other)
	if err := n.service.Cancel(t.Context(), b.workspace, run, execution.StopAll); err != nil {
		t.Fatal(err)
	}
	for name, c := range outcomes {
		for way, id := range map[string]uuid.UUID{"between turns": between[name], "at the start of a turn": atStart[name]} {
			got := b.await(t, n, id)
			if e := failure(got); e.Code != component.CodeCanceled || (e.Outcome != nil) != c.unknown {
				t.Errorf("%s, canceled %s: it is %s with %s", name, way, got.Status, got.Error)
			}
		}
	}
}

// An execution whose only attempt got a response may still get an unknown outcome when it is
// requeued.
func TestACancelKnowsTheOutcomeOfExecutionsThatWereRequeued(t *testing.T) {
	t.Parallel()
	for name, c := range waittest.Chosen(map[string]struct {
		change, until string
		unknown       bool
	}{
		"its job was lost": {
			change: "DELETE FROM river.river_job WHERE kind = 'component_execution'; UPDATE component_executions SET not_before = now() - interval '1 minute'",
			until:  "SELECT epoch = 2 FROM component_executions",
		},
		"its second attempt lost its worker": {
			change: "UPDATE component_executions SET attempt = 2, epoch = 2, worker_id = 4711, not_before = NULL",
			until:  "SELECT worker_id IS NULL FROM component_executions", unknown: true,
		},
		"a process of an earlier version made its second attempt": {
			change: "UPDATE component_executions SET attempt = 2, epoch = 2",
			until:  "SELECT true", unknown: true,
		},
	}, "its job was lost") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s := newScripted("SCRIPTED")
			n := b.start(t, options{workers: 2}, s)
			run := b.run(t, n, 1)
			id := s.accept(t, b, n, run, answered)
			s.await(t, b, id)
			n.stop()
			sweeping := b.start(t, options{slots: 1}, s) // this node fetches nothing
			b.exec(t, "UPDATE component_executions SET updated_at = now() - interval '1 minute'")
			b.exec(t, c.change)
			b.until(t, c.until)
			if err := sweeping.service.Cancel(t.Context(), b.workspace, run, execution.StopAll); err != nil {
				t.Fatal(err)
			}
			got := b.await(t, sweeping, id)
			if e := failure(got); e.Code != component.CodeCanceled || (e.Outcome != nil) != c.unknown {
				t.Errorf("it is %s with %s", got.Status, got.Error)
			}
		})
	}
}

// An execution whose component is unknown to all workers was not sent.
func TestACancelKnowsTheOutcomeOfAnExecutionThatWasNotSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{workers: 1})
	s := newScripted("STRANGE")
	accepting := b.start(t, options{idle: true}, s)
	run := b.run(t, n, 1)
	id := s.accept(t, b, accepting, run, answered)
	b.until(t, "SELECT worker_id IS NULL AND not_before IS NOT NULL FROM component_executions")
	if err := accepting.service.Cancel(t.Context(), b.workspace, run, execution.StopAll); err != nil {
		t.Fatal(err)
	}
	if got := b.await(t, accepting, id); failure(got).Code != component.CodeCanceled || failure(got).Outcome != nil {
		t.Errorf("it is %s with %s", got.Status, got.Error)
	}
}
