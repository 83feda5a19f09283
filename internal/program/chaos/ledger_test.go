package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/client"
)

// ack is an execution acknowledged with 200.
type ack struct {
	order
	at time.Time
}

// ledger records the executions that were acknowledged to clients, and every state that clients
// saw.
type ledger struct {
	mu    sync.Mutex
	acks  map[uuid.UUID]ack
	seen  map[uuid.UUID]observation
	wrong []string
	reads int
}

// observation records when each rank of an execution's state was first seen, and the final record.
type observation struct {
	state status.Execution // the latest
	first [4]time.Time     // by rank
	final string
}

func (l *ledger) init() {
	l.acks, l.seen = map[uuid.UUID]ack{}, map[uuid.UUID]observation{}
}

func (l *ledger) acknowledge(id uuid.UUID, a ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks[id] = a
}

// acknowledged returns the executions that must exist.
func (l *ledger) acknowledged() map[uuid.UUID]ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[uuid.UUID]ack, len(l.acks))
	for id, a := range l.acks {
		all[id] = a
	}
	return all
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acks)
}

var rank = map[status.Execution]int{
	status.ExecutionCreated: 1, status.ExecutionExecuting: 2, status.ExecutionCompleted: 3, status.ExecutionFailed: 3,
}

// observe records a state seen in a response to a request sent at the given time. States only move
// forward: a request sent after a state was seen must not return an earlier one, and a final record
// must not change (I5, I9).
func (l *ledger) observe(id uuid.UUID, state status.Execution, raw []byte, by string, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	now := l.seen[id]
	if rank[state] == 0 {
		l.report("%s saw %s in the unknown state %q", by, id, state)
		return
	}
	for _, further := range now.first[rank[state]+1:] {
		if !further.IsZero() && further.Before(asked) {
			l.report("%s saw %s as %s after it was %s", by, id, state, now.state)
		}
	}
	if now.state.Terminal() && state.Terminal() && state != now.state {
		l.report("%s saw %s go from %s to %s", by, id, now.state, state)
	}
	if now.first[rank[state]].IsZero() {
		now.first[rank[state]] = time.Now()
	}
	if rank[state] >= rank[now.state] {
		now.state = state
	}
	if state.Terminal() && raw != nil {
		final := finality(raw)
		if now.final != "" && now.final != final {
			l.report("%s saw the final record of %s change from %s to %s", by, id, now.final, final)
		}
		now.final = final
	}
	l.seen[id] = now
}

func (l *ledger) report(format string, args ...any) {
	if len(l.wrong) < 20 {
		l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	}
}

// undecided returns executions that were not yet seen final.
func (l *ledger) undecided(n int) (ids []uuid.UUID, of []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, a := range l.acks { // map iteration is random
		if len(ids) == n {
			break
		}
		if !l.seen[id].state.Terminal() {
			ids, of = append(ids, id), append(of, a.tenant)
		}
	}
	return ids, of
}

// watcher reads states throughout a scenario.
type watcher struct {
	reads, failed int // failed after one retry
	cancel        context.CancelFunc
	done          sync.WaitGroup
}

// watch starts to read an unfinished execution every 20 ms, and to follow the streams of a few
// executions (EX-20).
func (s *scene) watch() *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{cancel: cancel}
	s.t.Cleanup(w.stop)
	w.done.Go(func() {
		during(ctx, time.Hour, size(50*time.Millisecond, 20*time.Millisecond), func() { s.poll(ctx, w) })
	})
	for range size(2, 4) {
		w.done.Go(func() { s.follow(ctx) })
	}
	return w
}

func (w *watcher) stop() {
	w.cancel()
	w.done.Wait()
}

func (s *scene) poll(ctx context.Context, w *watcher) {
	ids, of := s.ledger.undecided(1)
	if len(ids) == 0 {
		return
	}
	w.reads++
	if err := s.read(ctx, ids[0], of[0]); err != nil {
		if err = s.read(ctx, ids[0], of[0]); err != nil && ctx.Err() == nil {
			w.failed++
		}
	}
}

// read reads a record and passes it to the ledger.
func (s *scene) read(ctx context.Context, id uuid.UUID, of int) error {
	p := s.node()
	if p == nil {
		return errNoNode
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asked := time.Now()
	record, raw, err := s.client(p, s.tenants[of]).Get(ctx, id)
	if err != nil {
		if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusNotFound {
			s.ledger.mu.Lock()
			s.ledger.report("an acknowledged execution was not found: %s", id)
			s.ledger.mu.Unlock()
		}
		return err
	}
	s.ledger.observe(id, record.Status, raw, "a poll", asked)
	if record.TotalUsage != 0 && !record.Status.Terminal() {
		s.ledger.mu.Lock()
		s.ledger.report("%s has usage %v in the state %s", id, record.TotalUsage, record.Status)
		s.ledger.mu.Unlock()
	}
	return nil
}

// follow reads streams of unfinished executions, one after the other.
func (s *scene) follow(ctx context.Context) {
	for ctx.Err() == nil {
		ids, of := s.ledger.undecided(1)
		p := s.node()
		if len(ids) == 0 || p == nil {
			during(ctx, 50*time.Millisecond, 50*time.Millisecond, func() {})
			continue
		}
		if _, err := s.stream(ctx, p, ids[0], of[0]); err != nil {
			during(ctx, 50*time.Millisecond, 50*time.Millisecond, func() {})
		}
	}
}

// stream reads the stream of one execution until its last event and passes the states to the
// ledger. If opened is not nil, stream calls it at the first event, or when the stream fails before
// the first event.
func (s *scene) stream(ctx context.Context, p *process, id uuid.UUID, of int, opened ...func()) (last status.Execution, err error) {
	asked := time.Now()
	tell := func() {
		for _, call := range opened {
			call()
		}
		opened = nil
	}
	defer tell()
	for event, err := range s.client(p, s.tenants[of]).Stream(ctx, id) {
		if err != nil {
			return last, err
		}
		tell()
		if rank[event.Status] < rank[last] {
			s.ledger.mu.Lock()
			s.ledger.report("a stream of %s went from %s to %s", id, last, event.Status)
			s.ledger.mu.Unlock()
		}
		last = event.Status
		s.ledger.observe(id, last, nil, "a stream", asked)
	}
	return last, nil
}

// percentile returns the p-th percentile of times, or 0 if there are no times.
func percentile(times []time.Duration, p float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, int(p*float64(len(times))))]
}

func TestLedgerDetectsStatesThatMoveBack(t *testing.T) {
	const executing, final = `{"status":"EXECUTING"}`, `{"status":"COMPLETED","output":1,"callback":{"attemptCount":%d}}`
	cases := []struct {
		name  string
		then  status.Execution
		raw   string
		wrong int
	}{
		{"progress of the callback", status.ExecutionCompleted, fmt.Sprintf(final, 1), 0},
		{"another final state", status.ExecutionFailed, `{"status":"FAILED"}`, 2},
		{"another output", status.ExecutionCompleted, `{"status":"COMPLETED","output":2,"callback":{}}`, 1},
		{"back", status.ExecutionExecuting, executing, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var l ledger
			l.init()
			id := uuid.New()
			l.observe(id, status.ExecutionExecuting, []byte(executing), "test", time.Now())
			l.observe(id, status.ExecutionCompleted, fmt.Appendf(nil, final, 0), "test", time.Now())
			l.observe(id, c.then, []byte(c.raw), "test", time.Now())
			if len(l.wrong) != c.wrong {
				t.Errorf("%d problems: %v", len(l.wrong), l.wrong)
			}
		})
	}
}
