package run_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component/modules/apicall"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// most returns how many of the times, which are sorted, are within any second.
func most(times []time.Time) (most int) {
	first := 0
	for last := range times {
		for times[last].Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// In the soak test, 200 items start at ten a second while the process is replaced twice.
func TestARateHoldsAcrossLostWorkers(t *testing.T) {
	t.Parallel()
	items := size(15, 200)
	var mu sync.Mutex
	var received []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received = append(received, time.Now())
	}))
	t.Cleanup(server.Close)
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	b := newBench(t, apicall.Modules(guard)...)
	n := b.start(t, options{slots: 8, sweep: 50 * time.Millisecond})
	id := n.draw(t, fmt.Sprintf(`[{"id":"each","module":"FOR_EACH","input":{"items":[%s]},"config":{"concurrency":100,"perSecond":10}},
		{"id":"call","module":"API_CALL","config":{"apiUrl":%q,"method":"POST"}}]`, strings.TrimSuffix(strings.Repeat("1,", items), ","), server.URL),
		`[{"id":"1","from":"each","to":"call","port":"each"}]`, "")
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	for part := range 2 { // after a third, and after two thirds of the items
		b.until(t, 1, func() {}, `SELECT (count(*) >= $2)::int FROM run_stages WHERE run_id = $1 AND component_id = 'call'`, key.ID, items*(part+1)/3)
		n.engine.Close()
		n = b.start(t, options{slots: 8, sweep: 50 * time.Millisecond})
	}
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Fatalf("%s: %s", got.Status, got.Error)
	}
	rows, err := b.pool.Query(t.Context(), "SELECT created_at FROM run_stages WHERE run_id = $1 AND component_id = 'call' ORDER BY created_at", key.ID)
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
	took, ideal := started[len(started)-1].Sub(started[0]), time.Duration(items-1)*100*time.Millisecond
	t.Logf("%d items: at most %d started and %d received in a second; they took %.2f s, ideally %.2f s", items, most(started), most(received), took.Seconds(), ideal.Seconds())
	if len(started) != items || len(received) < items || most(started) > 10 {
		t.Errorf("%d items started, at most %d in a second; %d were received", len(started), most(started), len(received))
	}
	if waittest.Timed() && (most(received) > 12 || took > ideal*12/10) {
		t.Errorf("at most %d were received in a second; they took %s, ideally %s", most(received), took, ideal)
	}
}
