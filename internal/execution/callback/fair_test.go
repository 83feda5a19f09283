package callback

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// held starts a receiver that responds immediately, except under /hang, where it responds when the
// test ends.
func (b *bench) held(t *testing.T) (url string, healthy <-chan struct{}, hanging *atomic.Int64) {
	t.Helper()
	arrived, end := make(chan struct{}, 100), make(chan struct{})
	hanging = new(atomic.Int64)
	r := &receiver{answer: func(_ int, _ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/hang" {
			hanging.Add(1)
			<-end
			return
		}
		arrived <- struct{}{}
	}}
	url = b.ca.Server(t, r).URL
	t.Cleanup(func() { close(end) })
	return url, arrived, hanging
}

func await(t *testing.T, arrived <-chan struct{}) {
	t.Helper()
	waittest.Receive(t, "the healthy workspace's callback", arrived)
}

// The hanging requests last longer than the test waits. So a callback that arrives has not waited
// for a hanging request.
const longer = time.Hour

func TestASlowReceiverDoesNotDelayAnotherWorkspaceAtTheSameHost(t *testing.T) {
	t.Parallel()
	for name, way := range waittest.Chosen(ways, "in the finishing process") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{settings: Settings{Timeout: longer}, full: way.full})
			url, healthy, _ := b.held(t)
			slow := make([]wish, 30)
			for i := range slow {
				slow[i].url = url + "/hang"
			}
			b.finish(t, way.here, b.accept(t, slow...)...)
			for range 5 {
				b.finish(t, way.here, b.accept(t, wish{workspace: newID(t), url: url + "/ok"})...)
				await(t, healthy)
			}
		})
	}
}

func TestManySlowReceiversDoNotDelayAnotherWorkspace(t *testing.T) {
	t.Parallel()
	for name, way := range waittest.Chosen(ways, "refused, then by the queue") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{settings: Settings{Timeout: longer, InFlight: 20}, full: way.full})
			url, healthy, hanging := b.held(t)
			var slow []wish
			for range 8 {
				workspace := newID(t)
				for range 10 {
					slow = append(slow, wish{workspace: workspace, url: url + "/hang"})
				}
			}
			b.finish(t, way.here, b.accept(t, slow...)...)
			b.finish(t, way.here, b.accept(t, wish{workspace: newID(t), url: url + "/ok"})...)
			await(t, healthy)
			if n := hanging.Load(); n > 19 {
				t.Errorf("%d requests hang, want at most 19", n)
			}
		})
	}
}
