package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// spare is how much garbage may come together in bytes. The collector's own measure,
// as much as is live, makes it run every few megabytes in a heap as small as ours,
// which is a tenth of a request's processor time.
const spare = 64 << 20

// sentinel is garbage from the start, so its finalizer runs after the next collection.
type sentinel struct{ _ *sentinel }

// smallest is the heap that the collector takes for the least it reckons with.
const smallest = 4 << 20

// relaxCollector paces the collector from now on, for a process of its own, unless
// its operator does.
var relaxCollector = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		paceCollector()
	}
})

// paceCollector sets the collector's next run, and from then on each one that
// follows: to spare above what is live, or to twice that where it is more.
func paceCollector() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(int(max(100, spare*100/max(live[0].Value.Uint64(), smallest))))
	runtime.SetFinalizer(new(sentinel), func(*sentinel) { paceCollector() })
}
