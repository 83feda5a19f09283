package quarantine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weft-automation/weft/gen/db"
)

// trackEvery is the interval at which the position is read after commits. Commits that are
// acknowledged within it before a failover may be lost without being noticed.
const trackEvery = 20 * time.Millisecond

// server identifies a PostgreSQL server since its last recovery.
type server struct {
	timeline  int32
	recovered int64 // end of the log after the recovery; 0 if it started without one
}

func serverOf(now db.InstallationGetRow) server {
	return server{timeline: now.TimelineNow, recovered: now.Recovered}
}

// position is the end of the stored log when this process last read it. All commits that were
// acknowledged before that are included.
type position struct {
	mu     sync.Mutex
	server server // the server on which it was read; zero if none was
	stored int64
}

// page is the size of a log page. Only PostgreSQL's background writer stores the log up to the
// end of a page inside a record. A crash may lose the rest of that record, whose commit wasn't
// acknowledged. So such a position must not be used.
const page = 8192

// follow records a position of a server that is known to have all earlier commits.
func (p *position) follow(on server, stored int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = on
	p.note(stored)
}

// advance records a position if it is from the same server, and reports whether it is.
func (p *position) advance(on server, stored int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on != p.server {
		return p.server == server{} // no position was recorded, so nothing can be missing
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
	p.server, p.stored = server{}, 0
}

// lost describes the acknowledged commits that a server lacks. It returns "" if it lacks none,
// or if that is unknown.
func (p *position) lost(now server) string {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// Track reads the position after commits until ctx is done. used reports whether there may have
// been commits since its last call. Track doesn't slow down the commits.
func (w *Watch) Track(ctx context.Context, used func() bool) {
	ticker := time.NewTicker(trackEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if used() {
			w.track(ctx)
		}
	}
}

// track reads the position once. On another server it triggers a poll.
func (w *Watch) track(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	now, err := db.New().InstallationPosition(ctx, w.pool)
	if err != nil {
		return // the next poll reports the error
	}
	if !w.position.advance(server{timeline: now.TimelineNow, recovered: now.Recovered}, now.Flushed) {
		select {
		case w.soon <- struct{}{}:
		default:
		}
	}
}
