package schedule

import (
	"time"

	"github.com/weft-automation/weft/internal/kit/cron"
)

const (
	// grace is how late a run may start, for example after an outage.
	grace = time.Hour
	// maxWaiting limits the times of a schedule whose runs wait for earlier runs.
	maxWaiting = 10
)

// Reasons for skipping a time.
const (
	skipOverlap   = "overlap"
	skipQueueFull = "queue_full"
	skipMissed    = "missed"
	skipRestored  = "restored"
	skipInput     = "input_invalid"
)

// state is the state of a schedule.
type state struct {
	overlap string
	next    *time.Time
	waiting []time.Time
	running bool // a run of the schedule is unfinished
	now     time.Time
}

// step says what to do with a schedule, and contains its next state.
type step struct {
	start   *time.Time // time whose run starts; nil: no run starts
	next    *time.Time
	waiting []time.Time
	skipped *time.Time // last time that was skipped; nil: no time was skipped
	reason  string
}

// decide returns what to do now. If several times were missed, only the last time within the grace
// period gets a run, so that an outage does not start several runs at once.
func decide(times *cron.Schedule, s state) step {
	do := step{next: s.next, waiting: s.waiting}
	if s.next != nil && !s.next.After(s.now) {
		at := do.catchUp(times, *s.next, s.now)
		do.next = first(times, s.now)
		if at != nil {
			do.schedule(*at, s)
		}
	}
	if do.start == nil && len(do.waiting) > 0 && !s.running {
		do.start, do.waiting = new(do.waiting[0]), do.waiting[1:]
	}
	return do
}

// catchUp returns the last time that has passed, and skips the times before it. It returns nil if
// no passed time is within the grace period.
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

// schedule starts the run for a time, queues the time, or skips it, as the overlap setting says.
func (do *step) schedule(at time.Time, s state) {
	busy := s.running || len(do.waiting) > 0
	switch {
	case !busy || s.overlap == allow:
		do.start = &at
	case s.overlap != queue:
		do.skip(at, skipOverlap)
	case len(do.waiting) >= maxWaiting:
		do.skip(at, skipQueueFull)
	default:
		do.waiting = append(do.waiting[:len(do.waiting):len(do.waiting)], at)
	}
}

// skip records a time for which no run starts.
func (do *step) skip(at time.Time, reason string) { do.skipped, do.reason = &at, reason }
