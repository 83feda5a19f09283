// Package failpoint lets a test kill or stall this process at the points where a crash is most
// dangerous (the crash points of conformance/RELIABILITY.md).
//
// WEFT_CRASH_AT arms a point: P3 crashes when P3 is reached for the first time, P3:20 when P3 is
// reached for the twentieth time. P2:stall blocks every goroutine that reaches P2. A point that
// isn't armed costs one comparison.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Point is a point in the processing of an execution, a callback or a run.
type Point string

// The points.
const (
	AfterAccept    Point = "P1"  // after the acceptance is committed, before the response
	AfterClaim     Point = "P2"  // after the job is fetched from the queue, before the start
	AfterEffect    Point = "P3"  // after the side effect, before the finish
	InFinish       Point = "P4"  // inside the finishing transaction
	AfterFinish    Point = "P5"  // after the commit, before subscribers are notified
	AfterDelivery  Point = "P6"  // after the receiver's 2xx, before the delivery is recorded
	AfterRecording Point = "P7"  // after the delivery is recorded, before the job is completed
	BetweenStages  Point = "P8"  // inside the transaction that advances a run
	InRelease      Point = "P9"  // inside the transaction that releases plan credits
	InSchedule     Point = "P10" // inside the transaction in which a schedule starts a run and advances
)

var (
	armed, countdown = arm(os.Getenv("WEFT_CRASH_AT"))
	stalls           = strings.HasSuffix(os.Getenv("WEFT_CRASH_AT"), ":stall")
)

func arm(setting string) (Point, *atomic.Int64) {
	point, nth, _ := strings.Cut(setting, ":")
	left := new(atomic.Int64)
	left.Store(1)
	if n, err := strconv.ParseInt(nth, 10, 64); err == nil {
		left.Store(n)
	}
	return Point(point), left
}

// Reached kills the process, like kill -9, if the point is armed and was reached often enough.
func Reached(point Point) {
	if point != armed {
		return
	}
	if stalls {
		select {}
	}
	if countdown.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // until the signal arrives
}
