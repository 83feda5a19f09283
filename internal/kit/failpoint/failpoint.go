// Package failpoint lets a test kill or stall this process at the places where a crash is most
// dangerous (reliability: crash points P1 to P9; P10 is in schedules).
//
// Nothing is armed unless the environment says so: WEFT_CRASH_AT=P3, or P3:20 for the twentieth
// time. P2:stall blocks every goroutine that reaches P2. The one invariant: an unarmed point costs
// one load and does nothing.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Point is a place in the life of an execution, a callback or a run.
type Point string

// The points.
const (
	AfterAccept    Point = "P1"  // after the commit of the acceptance, before the answer
	AfterClaim     Point = "P2"  // after the queue gave the job, before the start
	AfterEffect    Point = "P3"  // after the side effect, before the finish
	InFinish       Point = "P4"  // inside the finishing transaction
	AfterFinish    Point = "P5"  // after its commit, before anybody is told
	AfterDelivery  Point = "P6"  // after the receiver's 2xx, before it is recorded
	AfterRecording Point = "P7"  // after that record, before the job is closed
	BetweenStages  Point = "P8"  // inside the transaction that brings a run on
	InRelease      Point = "P9"  // inside the transaction of a release of credits
	InSchedule     Point = "P10" // inside the transaction in which a schedule goes on with its run
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

// Reached kills the process, as kill -9 would, if the point is armed and this
// is the time.
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
	select {} // the signal is on its way
}
