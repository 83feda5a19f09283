package footprint

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// TestTheCollectorKeepsItsDistance is about the whole process, which keeps the pace:
// not parallel.
func TestTheCollectorKeepsItsDistance(t *testing.T) {
	paceCollector()
	for _, size := range []int{1, 256 << 20} {
		live := make([]byte, size)
		runtime.GC()
		limit, tick := time.After(time.Minute), time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			goal, kept := heap()
			// The goal also counts stacks and the like, a few megabytes.
			if far := int64(goal) - int64(kept); far > spare-2*smallest && far < max(spare, int64(kept))+32<<20 {
				break
			}
			select {
			case <-tick.C:
			case <-limit:
				t.Fatalf("with %d bytes alive, of which %d here, the next collection comes at %d", kept, size, goal)
			}
		}
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
	for limit := time.Now().Add(time.Minute); collections() == before; {
		if time.Now().After(limit) {
			t.Fatal("nothing was collected although nothing was asked")
		}
		select {
		case <-t.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
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
