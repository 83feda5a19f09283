package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// sender is a WORK that records the attempts that were sent.
type sender struct {
	module
	mu   sync.Mutex
	sent map[uuid.UUID][]int // attempt numbers of the calls, by execution
	open map[uuid.UUID]bool  // executions with an attempt that has no response yet
}

// newSender returns the module SEND. Its config contains its repeat rule, how its first attempts
// fail, and whether it waits before it does the same as WORK.
func newSender() *sender {
	s := &sender{module: workflowtest.Work(), sent: map[uuid.UUID][]int{}, open: map[uuid.UUID]bool{}}
	does := s.Does
	s.Module, s.Effect = "SEND", component.EffectWrite
	s.Does = func(ctx context.Context, call component.Call) (component.Result, error) {
		var config struct {
			Codes []string // the codes of the first attempts
			Waits bool
		}
		if err := json.Unmarshal(call.Config, &config); err != nil {
			return component.Result{}, err
		}
		code := "" // "": success
		if call.Attempt <= len(config.Codes) {
			code = config.Codes[call.Attempt-1]
		}
		s.mu.Lock()
		s.sent[call.ExecutionID] = append(s.sent[call.ExecutionID], call.Attempt)
		s.open[call.ExecutionID] = s.open[call.ExecutionID] || code != component.CodeUpstream
		s.mu.Unlock()
		switch {
		case code != "":
			return component.Result{}, component.Temporary(code, "it is busy")
		case config.Waits && call.State == nil:
			return component.Result{Wait: &component.Wait{After: time.Millisecond, State: json.RawMessage(`1`)}}, nil
		}
		return does(ctx, call)
	}
	return s
}

// RepeatFor returns the repeat rule in the config.
func (s *sender) RepeatFor(call component.Call) component.Repeat {
	var config struct{ Repeat component.Repeat }
	if err := json.Unmarshal(call.Config, &config); err != nil {
		return component.RepeatUnsafe
	}
	return config.Repeat
}

// calls returns the attempts that were sent so far.
func (s *sender) calls() map[uuid.UUID][]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.sent)
}

// allAnswered reports whether every sent attempt of an execution failed with a response.
func (s *sender) allAnswered(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent[id]) > 0 && !s.open[id]
}

// sends replaces each WORK of a drawing with a SEND that has random settings.
func sends(w *workflowtest.Drawing) {
	for i := range w.Parts {
		p := &w.Parts[i]
		if p.Module != "WORK" {
			continue
		}
		p.Module = "SEND"
		p.Config["repeat"] = []component.Repeat{component.RepeatPure, component.RepeatIdempotent, component.RepeatUnsafe}[w.IntN(3)]
		p.Config["ms"] = 1 + w.IntN(20)
		switch w.IntN(6) {
		case 0:
			p.Config["codes"], p.Attempts = []string{component.CodeUpstream}, 2
		case 1:
			p.Config["waits"] = true
		case 2:
			p.Config["codes"], p.Attempts = []string{component.CodeTimeout, component.CodeUpstream}, 3
		}
	}
}

// wide draws a loop over many items that all start at once.
func wide(seed uint64) *workflowtest.Drawing {
	w := &workflowtest.Drawing{Rand: rand.New(rand.NewPCG(seed, 7))}
	w.Parts = []workflowtest.Part{
		{ID: "each", Module: "FOR_EACH", Input: map[string]any{"items": make([]int, 60)}, Config: map[string]any{"concurrency": 60}},
		{ID: "send", Module: "WORK", Input: map[string]any{"n": 1}, Config: map[string]any{"salt": 1}},
	}
	w.Arrows = []workflowtest.Arrow{{ID: "e", From: "each", To: "send", Port: "each"}}
	return w
}

// After a cancel commits, no further attempt starts, neither in the run nor in its descendants.
// The error of an interrupted attempt says that the attempt was sent. Unfinished stages are not
// charged.
func TestNoAttemptStartsAfterACancel(t *testing.T) {
	t.Parallel()
	cancelMany(t, 8)
}

// The same rule holds for many random graphs.
func TestNoAttemptStartsAfterACancelInManyGraphs(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/workflow/run.TestNoAttemptStartsAfterACancel") {
		return
	}
	t.Parallel()
	cancelMany(t, 1_000)
}

func cancelMany(t *testing.T, count int) {
	s := newSender()
	b := newBench(t, s)
	other := b.start(t, options{slots: 3})
	n := b.start(t, options{slots: 3, sweep: time.Second, also: other.engine.FinishStage})
	c := canceler{node: n, sender: s}
	var running sync.WaitGroup
	slots := make(chan struct{}, 6)
	for _, seed := range workflowtest.Seeds(t, count) {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			c.play(t, seed)
		})
	}
	running.Wait()
	t.Logf("%d runs, %d of them CANCELED, %d calls, %d stages cut off", count, c.canceled.Load(), len(s.calls()), c.unknown.Load())
	b.balanced(t)
}

// canceler cancels runs and checks what they sent.
type canceler struct {
	*node
	sender            *sender
	canceled, unknown atomic.Int64
}

// standing is the state of an unfinished execution, read after the cancel request has returned.
type standing struct {
	held, waiting bool
	attempt       int
}

func (c *canceler) play(t *testing.T, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 3))
	w := workflowtest.Draw(seed, 30)
	if seed%3 == 0 {
		w = wide(seed)
	}
	sends(w)
	input := fmt.Appendf(nil, `{"n":%d}`, seed%7)
	id, nested := c.save(t, w.Draft()), seed%4 == 1
	if nested { // three child runs at once
		id = c.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]}},{"id":"c","module":"RUN_WORKFLOW","input":%s,"config":{"workflowId":%q}}]`, input, id),
			`[{"id":"1","from":"l","to":"c","port":"each"}]`, "")
	}
	key := c.trigger(t, run.TriggerParams{WorkflowID: id, Input: input})
	c.awaitEvents(key, chance.Int64N(8))
	mode := []string{engine.CancelGraceful, engine.CancelImmediate}[chance.IntN(2)]
	answered, err := c.runs.Cancel(c.ctx, key, anyone{}, mode, nil)
	if err != nil {
		t.Errorf("seed %d: cancel: %v", seed, err)
		return
	}
	stood := c.standings(t)
	before := c.sender.calls()
	p := workflowtest.Played{}
	p.Run, p.Stages = c.end(t, key)
	if answered.Status.Terminal() {
		return
	}
	c.canceled.Add(1)
	if !nested {
		compare(t, seed, workflowtest.Interpret(w, input), p, true)
	}
	after := c.sender.calls()
	for _, e := range c.tree(t, key) {
		was := stood[e.id]
		for _, attempt := range after[e.id][len(before[e.id]):] {
			if goesOn := was.held || was.waiting && mode == engine.CancelGraceful; !goesOn || attempt > was.attempt {
				t.Errorf("seed %d, %s cancel: execution %s was sent as attempt %d, and was %+v when the cancel was answered", seed, mode, e.id, attempt, was)
			}
		}
		c.judge(t, seed, e, len(after[e.id]) > 0, mode)
	}
}

// judge compares the result of a stage with the attempts that were sent for it. With mode
// immediate, the response to an attempt may be lost.
func (c *canceler) judge(t *testing.T, seed uint64, e ended, sent bool, mode string) {
	var why api.ExecutionError
	if e.why != nil {
		if err := json.Unmarshal(e.why, &why); err != nil {
			t.Errorf("seed %d: execution %s: %v", seed, e.id, err)
		}
	}
	cut := why.Code == component.CodeCanceled
	unknown := why.Outcome != nil && *why.Outcome == "unknown"
	answered := c.sender.allAnswered(e.id)
	if want := cut && sent && !answered && e.rule != component.RepeatPure; unknown != want && (!answered || mode == engine.CancelGraceful) {
		t.Errorf("seed %d: execution %s (%s, sent: %v, answered: %v) ended with %s, want its outcome unknown: %v", seed, e.id, e.rule, sent, answered, e.why, want)
	}
	if unknown {
		c.unknown.Add(1)
	}
	if charged := e.usage > 0; charged != (e.status == status.ExecutionCompleted) {
		t.Errorf("seed %d: execution %s is %s and was charged %s", seed, e.id, e.status, e.usage)
	}
}

// standings returns the states of all unfinished executions.
func (c *canceler) standings(t *testing.T) map[uuid.UUID]standing {
	rows, err := c.pool.Query(context.Background(), `SELECT id, worker_id IS NOT NULL, worker_id IS NULL AND continuing AND attempt_started_at IS NOT NULL, attempt
		FROM component_executions WHERE finished_at IS NULL`)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer rows.Close()
	all := map[uuid.UUID]standing{}
	for rows.Next() {
		var id uuid.UUID
		var s standing
		if err := rows.Scan(&id, &s.held, &s.waiting, &s.attempt); err != nil {
			t.Error(err)
		}
		all[id] = s
	}
	return all
}

// ended is an execution of a finished run.
type ended struct {
	id     uuid.UUID
	status status.Execution
	rule   component.Repeat
	usage  credit.Amount
	why    json.RawMessage
}

// tree returns the executions of a run and of its descendants.
func (c *canceler) tree(t *testing.T, key notify.Key) (all []ended) {
	rows, err := c.pool.Query(context.Background(), `SELECT e.id, e.status, e.repeat_rule, e.usage, e.error FROM component_executions e
		JOIN workflow_runs r ON r.workspace_id = e.workspace_id AND r.id = e.run_id
		WHERE e.workspace_id = $1 AND COALESCE(r.root_run_id, r.id) = $2`, key.WorkspaceID, key.ID)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var e ended
		if err := rows.Scan(&e.id, &e.status, &e.rule, &e.usage, &e.why); err != nil {
			t.Error(err)
		}
		all = append(all, e)
	}
	return all
}
