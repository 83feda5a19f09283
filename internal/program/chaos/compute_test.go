package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

const (
	computingSlowdown = 4  // of another workspace's median
	computingClients  = 12 // connections that call a slow pattern
	largeRuns         = 30 // concurrent runs with large outputs
)

// One workspace computes on all cores, and another one's calls take at most four times as long.
func TestMTAWorkspaceThatComputesDoesNotSlowAnother(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/component.TestCallsThatComputeAreLimited") {
		return
	}
	s := newScene(t, shared)
	h := &hostile{scene: s, process: s.start("serve"), evil: s.newTenantWith("computes", credit.Credits(1_000_000))}
	s.start("work")
	alone := h.wellBehaved(t, hostileTime/2)
	calls := 0
	attacked := h.during(t, func(ctx context.Context) {
		workers(ctx, computingClients, func(ctx context.Context, i int) {
			for ctx.Err() == nil {
				if _, _, err := h.client(h.process, h.evil).Execute(ctx, slowPattern(), http.Header{}); err == nil && i == 0 {
					calls++
				}
			}
		})
	})
	figures.note(t, "median alone %v, next to %d connections that compute %v; one of them made %d calls in %v",
		median(alone), computingClients, median(attacked), calls, hostileTime)
	if calls == 0 {
		t.Error("no call of the other workspace finished, so this proves nothing")
	}
	if median(attacked) > computingSlowdown*median(alone) {
		t.Errorf("the median was %v alone and %v next to a workspace that computes", median(alone), median(attacked))
	}
}

// One workspace starts runs whose outputs are large. The process stays within its memory, and all
// runs end.
func TestMTRunsWithLargeOutputsStayWithinMemory(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/workflow/run.TestLargeRunsKeepMemoryFlat") {
		return
	}
	s := newScene(t, shared)
	h := &hostile{scene: s, process: s.start("serve"), evil: s.newTenantWith("large", credit.Credits(1_000_000))}
	s.start("work")
	alone := h.wellBehaved(t, hostileTime/2)
	c := h.from(1)
	items := strings.TrimSuffix(strings.Repeat("1,", 68), ",")
	path := h.draw(t.Context(), c, fmt.Sprintf(`{"name": "large", "components": [
		{"id": "l", "module": "FOR_EACH", "name": "l", "input": {"items": [%s]}, "config": {}},
		{"id": "x", "module": "TRANSFORM", "name": "x", "input": {}, "config": {"expression": "repeat(\"a\", 900000)"}}],
		"sequenceEdges": [{"id": "1", "from": "l", "to": "x", "port": "each"}]}`, items))
	attacked := h.during(t, func(ctx context.Context) {
		for range largeRuns {
			if _, err := c.Call(ctx, http.MethodPost, path, nil, nil); err != nil && ctx.Err() == nil {
				t.Errorf("trigger a run: %v", err)
			}
		}
		<-ctx.Done()
	})
	h.allFinal(t)
	peak := peakMemory(t, h.process)
	figures.note(t, "median alone %v, next to %d runs with outputs of 68 x 900 kB %v; peak memory %d MiB", median(alone), largeRuns, median(attacked), peak>>20)
	if completed := h.of("SELECT count(*) FROM run_stages WHERE workspace_id = $1 AND status = 'COMPLETED' AND component_id = 'x'"); completed == 0 {
		t.Error("no large output was stored, so this proves nothing")
	}
	if peak >= hostileMemory {
		t.Errorf("the process used %d MiB of memory", peak>>20)
	}
	if median(attacked) > computingSlowdown*median(alone) {
		t.Errorf("the median was %v alone and %v next to the runs", median(alone), median(attacked))
	}
}

// during runs an attack, and returns the durations of the well-behaved workspace's calls meanwhile.
func (h *hostile) during(t *testing.T, attack func(ctx context.Context)) (took []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		attack(ctx)
	}()
	took = h.wellBehaved(t, hostileTime)
	cancel()
	<-ended
	return took
}

// slowPattern is a call that computes for about 0.3 s.
func slowPattern() api.ExecuteComponentRequest {
	input, _ := json.Marshal(map[string]any{"text": strings.Repeat("a", 20_000), "pattern": strings.Repeat(`\p{L}*`, 60) + "!"})
	return api.ExecuteComponentRequest{Module: "REGEX_MATCH", Input: input, Config: json.RawMessage(`{}`), WaitForMs: new(int32(10_000))}
}

func median(took []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(took))[len(took)/2]
}

// Retries start when they are due: one and two seconds after the attempt before, with a jitter of a
// fifth (decision 4.2).
func TestEXRetriesStartWhenTheyAreDue(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/execution.TestARetryStartsWhenItIsDue") {
		return
	}
	s := newScene(t, shared)
	var mu sync.Mutex
	arrived := map[string][]time.Time{}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		arrived[r.URL.RawQuery] = append(arrived[r.URL.RawQuery], time.Now())
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer refusing.Close()
	h := &hostile{scene: s, process: s.start("serve"), evil: s.tenants[0]}
	s.start("work")
	for i := range 10 {
		call := api.ExecuteComponentRequest{
			Module: "API_CALL", Input: json.RawMessage(`{"headers":{}}`), Attempts: new(int32(3)),
			Config: fmt.Appendf(nil, `{"apiUrl":"%s/?call=%d","method":"GET"}`, refusing.URL, i),
		}
		if _, _, err := h.client(h.process, h.evil).Execute(t.Context(), call, http.Header{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, time.Minute, "all executions to be final", func() (bool, string) {
		n := s.number("SELECT count(*) FROM component_executions WHERE finished_at IS NULL")
		return n == 0, fmt.Sprintf("%d are not", n)
	})
	var first, second []time.Duration
	for call, at := range arrived {
		if len(at) != 3 {
			t.Errorf("%s: %d attempts", call, len(at))
			continue
		}
		first, second = append(first, at[1].Sub(at[0])), append(second, at[2].Sub(at[1]))
	}
	figures.note(t, "gaps %v to %v and %v to %v", slices.Min(first), slices.Max(first), slices.Min(second), slices.Max(second))
	if slices.Min(first) < 800*time.Millisecond || slices.Max(first) > 1250*time.Millisecond ||
		slices.Min(second) < 1600*time.Millisecond || slices.Max(second) > 2450*time.Millisecond {
		t.Errorf("gaps %v and %v", first, second)
	}
}
