package ratelimit

import (
	"time"

	"github.com/weft-automation/weft/gen/db"
)

const (
	// longestWait is how long a call that waits inline stays open at most: the 15 s of
	// the contract, and aroundWait for what comes before and after the wait itself.
	longestWait = 15*time.Second + aroundWait
	aroundWait  = 500 * time.Millisecond
	// streamPause is what a client is told to wait for a stream: nobody knows when one
	// ends, but what a node that is gone had open counts no more by then.
	streamPause = openLife
)

// tenth is a time in tenths of a second, so that a workspace has few of them. 0 is
// never.
type tenth int64

func tenthOf(t time.Time) tenth { return tenth((t.UnixMilli() + 99) / 100) }

// endOf is when a wait that begins now ends at the latest.
func endOf(lasts time.Duration) tenth { return tenthOf(time.Now().Add(lasts + aroundWait)) }

// calls are what is open of a workspace.
type calls struct {
	open [kinds]int
	ends tenth // the first of the waits, at the latest
}

func callsOf(row db.OpenCallSumOthersRow) calls {
	c := calls{open: [kinds]int{Wait: int(row.Waits), Stream: int(row.Streams)}}
	if row.UntilWaitEnds > 0 {
		c.ends = tenthOf(time.Now().Add(row.UntilWaitEnds))
	}
	return c
}

// call is the opening as what is open.
func (o *opening) call() (c calls) {
	c.open[o.kind] = 1
	if o.kind == Wait {
		c.ends = o.ends
	}
	return c
}

// and is both together.
func (c calls) and(others calls) calls {
	for kind, n := range others.open {
		c.open[kind] += n
	}
	if c.ends == 0 || others.ends != 0 && others.ends < c.ends {
		c.ends = others.ends
	}
	return c
}

// untilEnd is the time until the first wait has ended; below 0 where there is none.
func (c calls) untilEnd() time.Duration {
	if c.open[Wait] == 0 || c.ends == 0 {
		return -time.Second
	}
	return max(0, time.Until(time.UnixMilli(int64(c.ends)*100)))
}

// untilRoom is how long an opening that is refused waits for room, if nobody else
// comes. Under a cap that was lowered more than one has to end.
func (c calls) untilRoom(o *opening) time.Duration {
	if o.kind == Stream {
		return streamPause
	}
	until := c.untilEnd()
	if c.open[Wait] > o.cap || until < 0 {
		return longestWait
	}
	return min(max(until, time.Second), longestWait)
}

// calls are what this node has open; the limiter's lock is held.
func (v *workspaceView) calls() calls {
	c := calls{open: v.open}
	for at := range v.ends {
		if c.ends == 0 || at < c.ends {
			c.ends = at
		}
	}
	return c
}

// begin counts a call; the limiter's lock is held.
func (v *workspaceView) begin(o *opening) {
	v.open[o.kind]++
	if o.kind == Wait {
		if v.ends == nil {
			v.ends = make(map[tenth]int)
		}
		v.ends[o.ends]++
	}
}

// end counts a call no more; the limiter's lock is held.
func (v *workspaceView) end(o *opening) {
	v.open[o.kind]--
	if o.kind == Wait {
		if v.ends[o.ends]--; v.ends[o.ends] == 0 {
			delete(v.ends, o.ends)
		}
	}
}
