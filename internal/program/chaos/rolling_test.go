package chaos

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// EX-11: every process is stopped with SIGTERM and replaced, one after the other, under load. No
// request fails after a client's retry, and no call shorter than the stop timeout is repeated.
func TestEX11RollingRestartsUnderLoad(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/chaos.TestOP06SignalsStopAProcess", "conformance.TestSS08AStoppingNodeHandsItsStreamsOver") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	nodes := []*process{s.start("serve"), s.start("serve")}
	worker := []*process{s.start("work"), s.start("work")}
	watching := s.watch()
	load := s.startLoad(size(40*time.Millisecond, 10*time.Millisecond), func(i int) order {
		return order{tenant: i % 2, millis: i % 500, unsafe: i%3 == 0, callback: true}
	})
	stopped := 0
	during(t.Context(), size(4*time.Second, time.Minute), size(time.Second, 5*time.Second), func() {
		kind, command := nodes, "serve"
		if stopped%2 == 1 {
			kind, command = worker, "work"
		}
		old := kind[stopped/2%2]
		kind[stopped/2%2] = s.start(command)
		s.leave(old)
		old.signal(syscall.SIGTERM)
		if code := old.exitCode(t, 25*time.Second); code != 0 {
			t.Errorf("%s exited with code %d", old.name, code)
		}
		stopped++
	})
	if err := load.stop(); err != nil {
		t.Errorf("a submission failed after a client's retry: %v", err)
	}
	s.finish(30 * time.Second)
	watching.stop()
	if n := s.upstream.repeats(); n != 0 {
		t.Errorf("%d effects were repeated", n)
	}
	if n := s.number("SELECT count(*) FROM component_executions WHERE status <> 'COMPLETED'"); n != 0 {
		t.Errorf("%d executions did not complete", n)
	}
	figures.note(t, "%d processes replaced, %d submissions repeated; %s", stopped, load.refused.Load(), s.summary())
}

// OP-06: SIGTERM and SIGINT under load stop a process in order. A second SIGTERM stops it immediately
// and corrupts nothing.
func TestOP06SignalsStopAProcess(t *testing.T) {
	t.Parallel()
	type stopping struct {
		name    string
		signals []syscall.Signal
		millis  int // duration of the calls in flight
		limit   time.Duration
		code    int
	}
	cases := []stopping{
		{"SIGTERM", []syscall.Signal{syscall.SIGTERM}, 1500, 25 * time.Second, 0},
		{"SIGINT", []syscall.Signal{syscall.SIGINT}, 1500, 25 * time.Second, 0},
		{"SIGTERM during long calls", []syscall.Signal{syscall.SIGTERM}, 22_000, 60 * time.Second, 0},
		{"SIGTERM twice", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, 60_000, 3 * time.Second, -2},
	}
	for _, c := range size([]stopping{cases[0], cases[3]}, cases) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, shared)
			s.expect.again = 1
			node, worker := s.start("serve"), s.start("work")
			n := size(20, 90)
			s.load(n, func(i int) order { return order{tenant: i % 2, millis: c.millis, callback: true} })
			s.awaitRunning(n)
			var both sync.WaitGroup
			var slowest atomic.Int64
			for _, p := range []*process{node, worker} {
				both.Go(func() {
					began := time.Now()
					for i, signal := range c.signals {
						if i > 0 {
							hold(t, 300*time.Millisecond)
						}
						p.signal(signal)
					}
					code := p.exitCode(t, c.limit)
					if c.code >= 0 && code != c.code {
						t.Errorf("%s exited with code %d:\n%s", p.name, code, p.tail(5))
					}
					slowest.Store(max(slowest.Load(), int64(time.Since(began))))
				})
			}
			both.Wait()
			s.upstream.slow.Store(false)
			s.start("serve")
			s.start("work")
			took := s.finish(40 * time.Second)
			if repeats := s.upstream.repeats(); len(c.signals) == 1 && repeats > 0 {
				t.Errorf("%d effects were repeated", repeats)
			}
			figures.note(t, "exited after at most %.1f s; all final %.1f s after the restart; %s",
				time.Duration(slowest.Load()).Seconds(), took.Seconds(), s.summary())
		})
	}
}

// SS-08: SIGTERM to a node with 200 streams. All streams are closed within 10 s, the process exits
// within 25 s, and clients that reconnect to the other node miss no final event.
func TestSS08ANodeStopsWithOpenStreams(t *testing.T) {
	if waittest.LeftToSoak(t, "conformance.TestSS08AStoppingNodeHandsItsStreamsOver") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	stops, stays := s.start("serve"), s.start("serve")
	s.start("work")
	s.upstream.hold()
	s.load(20, func(i int) order { return order{tenant: i % 2} })
	n := size(100, 200)
	var open, closed, ended sync.WaitGroup
	var lastClosed atomic.Int64
	var count int
	for id, a := range s.ledger.acknowledged() {
		for range n / 20 {
			count++
			open.Add(1)
			closed.Add(1)
			ended.Go(func() {
				if last, err := s.stream(t.Context(), stops, id, a.tenant, open.Done); err == nil || last.Terminal() {
					t.Errorf("the stream finished at %s instead of being closed", last)
				}
				lastClosed.Store(time.Now().UnixNano())
				closed.Done()
				if last, err := s.stream(t.Context(), stays, id, a.tenant); err != nil || !last.Terminal() {
					t.Errorf("the stream of the other node finished at %s: %v", last, err)
				}
			})
		}
	}
	open.Wait()
	s.leave(stops)
	began := time.Now()
	stops.signal(syscall.SIGTERM)
	closed.Wait()
	streams := time.Unix(0, lastClosed.Load()).Sub(began)
	if streams > 10*time.Second {
		t.Errorf("streams were closed after %v", streams)
	}
	if code := stops.exitCode(t, 25*time.Second); code != 0 {
		t.Errorf("the node exited with code %d", code)
	}
	gone := time.Since(began)
	s.upstream.release()
	ended.Wait()
	s.finish(10 * time.Second)
	if code, body := stays.status("/healthz"); code != http.StatusOK {
		t.Errorf("the other node: %d %s", code, body)
	}
	figures.note(t, "%s", fmt.Sprintf("%d streams closed within %.1f s, the process exited after %.1f s", count, streams.Seconds(), gone.Seconds()))
}
