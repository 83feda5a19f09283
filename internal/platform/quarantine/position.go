package quarantine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// trackEvery is the interval at which the position is read after commits. If a failover loses
// commits that were acknowledged less than this interval before, the loss may not be noticed.
const trackEvery = 20 * time.Millisecond

// server identifies a PostgreSQL server since its last recovery.
type server struct {
	timeline  int32
	recovered int64 // end of the log after the recovery; 0 if the server started without a recovery
}

func serverOf(now db.InstallationGetRow) server {
	return server{timeline: now.TimelineNow, recovered: now.Recovered}
}

// position is the end of the stored log at this process's last read. It includes all commits
// that were acknowledged before the read.
type position struct {
	mu     sync.Mutex
	server server // the server on which the position was read; zero if no position was read
	place  string // of the database; empty if no position was read
	stored int64

	judged postgres.Server // the last server that a poll judged because it may lack commits
}

// page is the size of a log page. Only PostgreSQL's background writer stores the log up to the
// end of a page inside a record. A crash may lose the rest of such a record, whose commit wasn't
// acknowledged. So a position at the end of a page must not be used.
const page = 8192

// follow records a position of a server that is known to have all earlier commits.
func (p *position) follow(on server, place string, stored int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server, p.place = on, place
	p.note(stored)
}

// advance records a position if it is from the same server. It returns false if the server has
// changed.
func (p *position) advance(on server, stored int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on != p.server {
		return p.server == server{} // no position was recorded, so no commit can be missing
	}
	p.note(stored)
	return true
}

func (p *position) note(stored int64) {
	if stored%page != 0 {
		p.stored = max(p.stored, stored)
	}
}

func (p *position) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server, p.place, p.stored, p.judged = server{}, "", 0, postgres.Server{}
}

// lost describes the acknowledged commits that a server lacks. It returns "" if no commits are
// missing, or if that is unknown.
func (p *position) lost(now server) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lacks(now)
}

func (p *position) lacks(now server) string {
	switch {
	case p.stored == 0 || now.timeline == 0 || now == p.server:
		return ""
	case now.recovered == 0 && now.timeline == p.server.timeline:
		return "" // a regular stop and start
	case now.recovered == 0:
		return fmt.Sprintf("another server took over, on timeline %d, and it may lack commits that were acknowledged to this process", now.timeline)
	case now.recovered < p.stored:
		return fmt.Sprintf("acknowledged work is lost: this process had read the log up to %s, but the server that took over has it only up to %s", lsn(p.stored), lsn(now.recovered))
	}
	return ""
}

// lsn formats a position as PostgreSQL does.
func lsn(position int64) string { return fmt.Sprintf("%X/%X", position>>32, uint32(position)) }

// Track reads the position after commits until ctx is done. committed reports whether there may
// have been commits since its last call. Track doesn't slow down the commits.
func (w *Watch) Track(ctx context.Context, committed func() bool) {
	for wait.For(ctx, trackEvery) == nil {
		switch {
		case !committed():
		case w.beats.Load(): // the poll that increments the beat reads the position as well
			w.pollSoon()
		default:
			w.track(ctx)
		}
	}
}

// track reads the position once. If the server has changed, track triggers a poll.
func (w *Watch) track(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	now, err := db.New().InstallationPosition(ctx, w.pool)
	if err != nil {
		return // the next poll reports the error
	}
	if !w.position.advance(server{timeline: now.TimelineNow, recovered: now.Recovered}, now.Flushed) {
		w.pollSoon()
	}
}

// pollSoon makes Run poll now.
func (w *Watch) pollSoon() {
	select {
	case w.soon <- struct{}{}:
	default:
	}
}
