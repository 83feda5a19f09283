package quarantine

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

func TestOP14AServerThatLacksAcknowledgedWorkIsDetected(t *testing.T) {
	before := server{timeline: 1}
	for _, c := range []struct {
		name string
		now  server
		lost bool
	}{
		{"the same server", before, false},
		{"stopped and started in order", server{timeline: 1}, false},
		{"recovered from a crash with everything", server{timeline: 1, recovered: 5000}, false},
		{"recovered from a crash without the last commits", server{timeline: 1, recovered: 4999}, true},
		{"a standby with everything", server{timeline: 2, recovered: 5000}, false},
		{"a standby with more", server{timeline: 2, recovered: 9000}, false},
		{"a standby without the last commits", server{timeline: 2, recovered: 4999}, true},
		{"a standby that was started again before it was seen", server{timeline: 2}, true},
		{"a server that still recovers", server{recovered: 10}, false},
	} {
		var p position
		p.follow(before, "here", 4000)
		if !p.advance(before, 5000) {
			t.Errorf("%s: the position did not advance", c.name)
		}
		if got := p.lost(c.now); (got != "") != c.lost {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestOP14APositionOfAnotherServerIsNotRecorded(t *testing.T) {
	var p position
	p.follow(server{timeline: 1}, "here", 4000)
	if p.advance(server{timeline: 2, recovered: 3000}, 5000) || p.stored != 4000 {
		t.Errorf("recorded %d", p.stored)
	}
}

func TestOP14APositionAtTheEndOfAPageIsNotRecorded(t *testing.T) {
	var p position
	p.follow(server{timeline: 1}, "here", 4000)
	p.advance(server{timeline: 1}, 2*page)
	if p.stored != 4000 {
		t.Errorf("recorded %d", p.stored)
	}
}

// The poll that increments the beat reads the position as well, so it is not read twice.
func TestOP14ADueBeatIsPolledInsteadOfThePosition(t *testing.T) {
	w := NewWatch(nil, slog.New(slog.DiscardHandler)) // without a database, reading the position panics
	w.Beat()
	ctx, cancel := context.WithCancel(t.Context())
	var tracking sync.WaitGroup
	tracking.Go(func() { w.Track(ctx, func() bool { return true }) })
	waittest.Receive(t, "the poll", w.soon)
	cancel()
	tracking.Wait()
}

// The position that is read next includes every acknowledged commit.
func TestOP14APositionIsReadAfterACommit(t *testing.T) {
	pool := pgtest.DB(t)
	w := NewWatch(pool, slog.New(slog.DiscardHandler))
	poll(t, w)
	var committed int64
	for range 3 {
		change(t, pool, "UPDATE installation SET beat = beat")
		if err := pool.QueryRow(t.Context(), "SELECT flushed_position()").Scan(&committed); err != nil {
			t.Fatal(err)
		}
		w.track(t.Context())
	}
	if w.position.stored < committed && committed%page != 0 {
		t.Errorf("%s is recorded, %s was committed", lsn(w.position.stored), lsn(committed))
	}
	w.position.follow(server{timeline: 1, recovered: 1}, w.position.place, committed+1_000_000)
	w.track(t.Context())
	select {
	case <-w.soon:
	default:
		t.Error("another server doesn't trigger a poll")
	}
	w.position.server.timeline = 0 // differs from the server's timeline
	if !poll(t, w) {
		t.Error("work continues on a server that may lack acknowledged commits")
	}
	status, err := StatusOf(t.Context(), pool)
	if err != nil || status.Since == nil || !strings.Contains(status.Reason, "acknowledged") {
		t.Errorf("%+v, %v", status, err)
	}
	if released, err := Release(t.Context(), pool); err != nil || !released || poll(t, w) {
		t.Errorf("released: %v, %v, held: %v", released, err, w.Held())
	}
}
