// Package clock estimates PostgreSQL's time without a query, from the difference between
// PostgreSQL's clock and the clock of this process.
//
// Callers pass the time of each query's result to Observe. After that, Now differs from
// PostgreSQL's clock by at most the duration of the query.
package clock

import (
	"sync/atomic"
	"time"
)

// Clock returns PostgreSQL's time without a query. The zero value and nil return the
// process's own time.
type Clock struct {
	offset atomic.Int64     // of PostgreSQL's clock from this process's clock, in nanoseconds
	local  func() time.Time // this process's clock; nil: time.Now
}

// New makes a clock on top of local, which is time.Now outside of tests.
func New(local func() time.Time) *Clock { return &Clock{local: local} }

// Local returns the time by this process's clock.
func (c *Clock) Local() time.Time {
	if c == nil || c.local == nil {
		return time.Now()
	}
	return c.local()
}

// Now returns the time by PostgreSQL's clock. It is for times that are stored, such as due
// times. Don't use it for measuring durations: the clock may be set.
func (c *Clock) Now() time.Time { return c.Local().Round(0).Add(c.Offset()) }

// NowOrNil returns nil: River then uses PostgreSQL's time in SQL.
func (c *Clock) NowOrNil() *time.Time { return nil }

// Offset returns how far PostgreSQL's clock is ahead of this process's.
func (c *Clock) Offset() time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(c.offset.Load())
}

// Observe corrects the offset. PostgreSQL's clock showed dbTime at some point between sentAt and
// receivedAt, which are times of Local. The offset changes only as far as the response contradicts
// it, so a slow response does not make the offset worse.
func (c *Clock) Observe(sentAt, receivedAt, dbTime time.Time) {
	least, most := dbTime.Sub(receivedAt.Round(0)), dbTime.Sub(sentAt.Round(0)) // by the wall clock, which may have been set
	c.offset.Store(int64(min(max(c.Offset(), least), most)))
}
