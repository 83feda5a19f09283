// Package footprint limits how much of the machine's memory the process holds.
package footprint

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// spare is how much garbage may come together in bytes. The collector's own measure,
// as much as is live, makes it run every few megabytes in a heap as small as ours,
// which is a tenth of a request's processor time.
const spare = 64 << 20

// sentinel is garbage from the start, so its finalizer runs after the next collection.
type sentinel struct{ _ *sentinel }

// smallest is the heap that the collector takes for the least it reckons with.
const smallest = 4 << 20

var paced sync.Once

// tight is how much garbage a start may make between two collections, in per cent of what
// is live: it makes much and keeps little, and what it keeps lies close together when the
// rest was taken away between.
const tight = 25

// Tighten is for the start of a process, until [Settle].
func Tighten() {
	if !pacedByOperator() {
		debug.SetGCPercent(tight)
	}
}

// SettleAfter is how long after a start those are answered who waited for it.
const SettleAfter = time.Second

// Settle gives back what the start took, but takes nobody's time for that. From then on
// the collector is paced, for a process of its own, and until ctx ends has it run in lulls.
// An operator's GOGC is left as it is.
func Settle(ctx context.Context) {
	time.AfterFunc(SettleAfter, func() {
		debug.FreeOSMemory()
		unmapText()
		if !pacedByOperator() {
			paced.Do(paceCollector)
			go collectInLulls(ctx, lullEvery)
		}
	})
}

func pacedByOperator() bool { return os.Getenv("GOGC") != "" }

// paceCollector sets the collector's next run, and from then on each one that
// follows: to spare above what is live, or to twice that where it is more.
func paceCollector() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(int(max(100, spare*100/max(live[0].Value.Uint64(), smallest))))
	runtime.SetFinalizer(new(sentinel), func(*sentinel) { paceCollector() })
}

const (
	lullEvery = 5 * time.Second
	// lull is how little may have been made between two looks for next to nothing to be
	// asked of the process, and clutter how much garbage is worth a collection then. A
	// thousand streams that only hold their connections make 2 MiB between two looks.
	lull    = 4 << 20
	clutter = 4 << 20
)

// collectInLulls looks every so often, until ctx ends, whether nothing is asked of the
// process, and then collects and gives back what came together: it costs nobody time.
func collectInLulls(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	heap := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	var before uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(heap)
		made, held, live := heap[0].Value.Uint64(), heap[1].Value.Uint64(), heap[2].Value.Uint64()
		if made-before < lull && held > live+clutter {
			debug.FreeOSMemory()
		}
		before = made
	}
}
