package schedule

import (
	"time"

	"github.com/weft-automation/weft/internal/kit/cron"
)

const (
	// grace is how long after its time a run may begin: the service was down, say.
	grace = time.Hour
	// maxWaiting is how many runs of a schedule wait for those before.
	maxWaiting = 10
)

// Why a time was passed over.
const (
	skipOverlap   = "overlap"
	skipQueueFull = "queue_full"
	skipMissed    = "missed"
)

// state is how a schedule stands.
type state struct {
	overlap string
	next    *time.Time
	waiting []time.Time
	running bool // a run of it is under way
	now     time.Time
}

// step is what follows from it.
type step struct {
	begin   *time.Time // the time whose run begins
	next    *time.Time
	waiting []time.Time
	skipped *time.Time // the last time that was passed over
	reason  string
}

// decide says what is to be done now. Of times that were missed the last one counts, if it
// is within the grace: never do several begin at once.
func decide(times *cron.Schedule, s state) step {
	do := step{next: s.next, waiting: s.waiting}
	if s.next != nil && !s.next.After(s.now) {
		at := do.catchUp(times, *s.next, s.now)
		do.next = first(times, s.now)
		if at != nil {
			do.take(*at, s)
		}
	}
	if do.begin == nil && len(do.waiting) > 0 && !s.running {
		do.begin, do.waiting = new(do.waiting[0]), do.waiting[1:]
	}
	return do
}

// catchUp is the time whose run is due, the last one of all that have passed; nil: all are
// too long ago.
func (do *step) catchUp(times *cron.Schedule, due, now time.Time) *time.Time {
	last := &due
	if earliest := now.Add(-grace); due.Before(earliest) {
		do.skip(due, skipMissed)
		if last = first(times, earliest.Add(-time.Nanosecond)); last == nil || last.After(now) {
			return nil
		}
	}
	for later := first(times, *last); later != nil && !later.After(now); later = first(times, *last) {
		do.skip(*last, skipMissed)
		last = later
	}
	return last
}

// take begins the run of a time, or has it wait, as the overlap says.
func (do *step) take(at time.Time, s state) {
	busy := s.running || len(do.waiting) > 0
	switch {
	case !busy || s.overlap == allow:
		do.begin = &at
	case s.overlap != queue:
		do.skip(at, skipOverlap)
	case len(do.waiting) >= maxWaiting:
		do.skip(at, skipQueueFull)
	default:
		do.waiting = append(do.waiting[:len(do.waiting):len(do.waiting)], at)
	}
}

func (do *step) skip(at time.Time, reason string) { do.skipped, do.reason = &at, reason }
