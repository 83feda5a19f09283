package footprint

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// TestTheCollectorKeepsItsDistance is about the whole process, which keeps the pace:
// not parallel.
func TestTheCollectorKeepsItsDistance(t *testing.T) {
	paceCollector()
	for _, size := range []int{1, 256 << 20} {
		live := make([]byte, size)
		runtime.GC()
		waittest.Until(t, "the next collection comes at its distance", func() bool {
			goal, kept := heap()
			// The goal also counts stacks and the like, a few megabytes.
			far := int64(goal) - int64(kept)
			return far > spare-2*smallest && far < max(spare, int64(kept))+32<<20
		})
		runtime.KeepAlive(live)
	}
}

// TestALullIsUsedToCollect is about the whole process too.
func TestALullIsUsedToCollect(t *testing.T) {
	paceCollector()
	runtime.GC()
	garbage := make([]byte, 4*clutter)
	runtime.KeepAlive(garbage)
	before := collections()
	go collectInLulls(t.Context(), 20*time.Millisecond)
	waittest.Until(t, "a collection in a lull", func() bool { return collections() > before })
}

func collections() uint64 {
	read := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}

func heap() (goal, live uint64) {
	read := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64(), read[1].Value.Uint64()
}
