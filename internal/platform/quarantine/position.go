package quarantine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weft-automation/weft/gen/db"
)

// trackEvery is how soon after a commit the position is read, and so how much of what was
// acknowledged just before a failover may be lost unnoticed.
const trackEvery = 20 * time.Millisecond

// server is a PostgreSQL server since its last recovery.
type server struct {
	timeline  int32
	recovered int64 // how much of the log it had then; 0: it was started without a recovery
}

func serverOf(now db.InstallationGetRow) server {
	return server{timeline: now.TimelineNow, recovered: now.Recovered}
}

// position remembers how far the log was stored when this process last read it. Every
// commit that was acknowledged before that read lies before this position.
type position struct {
	mu     sync.Mutex
	server server // that it was read on; zero: none yet
	stored int64
}

// page is a page of the log. Only PostgreSQL's background writer stores to the end of a page
// that is not the end of a record. A crash may lose the rest of that record, which was
// acknowledged to nobody, so such a position proves nothing.
const page = 8192

// follow notes a position of a server that is known to have everything before.
func (p *position) follow(on server, stored int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = on
	p.note(stored)
}

// advance notes a position if it is of the same server, and reports whether it is.
func (p *position) advance(on server, stored int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on != p.server {
		return p.server == server{} // nothing was noted yet, and so nothing is lost
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

// lost returns what a server lacks that was acknowledged before; "" if it lacks nothing, or
// if that isn't known.
func (p *position) lost(now server) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stored == 0 || now.timeline == 0 || now == p.server:
		return ""
	case now.recovered == 0 && now.timeline == p.server.timeline:
		return "" // it was stopped and started in order
	case now.recovered == 0:
		return fmt.Sprintf("another server took over, on timeline %d, and it is unknown whether it has everything that this process saw acknowledged", now.timeline)
	case now.recovered < p.stored:
		return fmt.Sprintf("acknowledged work is lost: this process had seen the log up to %s stored, and the server that took over has it up to %s", lsn(p.stored), lsn(now.recovered))
	}
	return ""
}

// lsn is a position as PostgreSQL writes it.
func lsn(position int64) string { return fmt.Sprintf("%X/%X", position>>32, uint32(position)) }

// Track reads the position after commits until ctx ends. used reports whether something may
// have been committed since it was last called. It costs the commits themselves nothing.
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

// track reads the position once. On another server it has the next look made at once.
func (w *Watch) track(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	now, err := db.New().InstallationPosition(ctx, w.pool)
	if err != nil {
		return // the next look reports it
	}
	if !w.position.advance(server{timeline: now.TimelineNow, recovered: now.Recovered}, now.Flushed) {
		select {
		case w.soon <- struct{}{}:
		default:
		}
	}
}
