package conformance

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// healthy runs each case once through a proxy that changes nothing, and stores the result.
type healthy struct {
	behind *probe.Target
	mu     sync.Mutex
	runs   map[string]*wholesome
}

// wholesome is the result of a case in healthy.
type wholesome struct {
	once sync.Once
	err  error
	took time.Duration
}

func (h *healthy) check(t *testing.T, c Case) *wholesome {
	h.mu.Lock()
	r := h.runs[c.Name]
	if r == nil {
		r = &wholesome{}
		h.runs[c.Name] = r
	}
	h.mu.Unlock()
	r.once.Do(func() {
		result := c.result(t.Context(), (&breaker{}).before(t, h.behind))
		if r.err, r.took = result.Err, result.Took; len(result.Departures) > 0 {
			r.err = fmt.Errorf("%v", result.Departures)
		}
	})
	return r
}
