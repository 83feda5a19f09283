package chaos

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// inASecond returns how many of the times, which are sorted, are within any second.
func inASecond(times []time.Time) (most int) {
	first := 0
	for last := range times {
		for times[last].Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// 200 items start at ten a second while the worker is killed twice: at most ten start in any second, and the
// loop takes at most 1.2 times as long as it must. The items that start while no worker runs are sent together
// once one does, so the receiver may see more of them in a second: what is paced is their start.
func TestEX19ARateHoldsWhenWorkersAreKilled(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/workflow/run.TestARateHoldsAcrossLostWorkers") {
		return
	}
	t.Parallel()
	var mu sync.Mutex
	var received []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received = append(received, time.Now())
	}))
	defer server.Close()
	const items, rate = 200, 10
	s := newScene(t, shared)
	s.start("serve")
	worker := s.start("work")
	run := s.trigger(s.makeWorkflow(fmt.Sprintf(`{"name": "paced", "components": [{"id": "start", "module": "ON_API_CALLED"},
		{"id": "each", "module": "FOR_EACH", "config": {"concurrency": 100, "perSecond": %d}},
		{"id": "call", "module": "API_CALL", "config": {"apiUrl": %q, "method": "PUT"}}],
		"sequenceEdges": [{"id": "1", "from": "start", "to": "each"}, {"id": "2", "from": "each", "to": "call", "port": "each"}],
		"dataConnections": [{"id": "a", "from": {"componentId": "start", "output": "items"}, "to": {"componentId": "each", "input": "items"}}]}`, rate, server.URL)), items)
	for part := 1; part <= 2; part++ {
		eventually(t, time.Minute, "a part of the items", func() (bool, string) {
			n := s.number("SELECT count(*) FROM run_stages WHERE run_id = $1 AND component_id = 'call'", run)
			return n >= items*part/3, fmt.Sprint(n)
		})
		worker.kill()
		worker = s.start("work")
	}
	eventually(t, time.Minute, "the end of the run", func() (bool, string) {
		status := s.run(run, "?stages=none").Status
		return status == "COMPLETED", string(status)
	})
	rows, err := s.pool.Query(t.Context(), "SELECT created_at FROM run_stages WHERE run_id = $1 AND component_id = 'call' ORDER BY created_at", run)
	if err != nil {
		t.Fatal(err)
	}
	var started []time.Time
	for rows.Next() {
		var at time.Time
		if err := rows.Scan(&at); err != nil {
			t.Fatal(err)
		}
		started = append(started, at)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.SortFunc(received, time.Time.Compare)
	took, ideal := started[len(started)-1].Sub(started[0]), time.Duration(items-1)*time.Second/rate
	figures.note(t, "%d items at %d a second, killed twice: at most %d started and %d arrived in a second; %.1f s, ideally %.1f s",
		items, rate, inASecond(started), inASecond(received), took.Seconds(), ideal.Seconds())
	if len(started) != items || len(received) < items || inASecond(started) > rate || took > ideal*12/10 {
		t.Errorf("%d items started and %d arrived; at most %d started in a second; they took %s", len(started), len(received), inASecond(started), took)
	}
}
