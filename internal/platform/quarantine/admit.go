package quarantine

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/platform/postgres"
)

var (
	errLacks      = errors.New("another server took over, and it may lack acknowledged work; the quarantine is checked first")
	errRecovering = errors.New("the server is still recovering, so it may lack acknowledged work")
)

// Admit is a postgres.Gate. It admits a session if its server has everything that this process has
// seen, as far as the process knows. On any other server, Admit first polls through the session, so
// that the quarantine starts before a session can be used. It then refuses this one session,
// because its user may have called Check before the server changed. Later sessions on that server
// are admitted.
//
// A server that is still recovering is refused, because a session would survive its promotion.
func (w *Watch) Admit(ctx context.Context, session *pgx.Conn, on postgres.Server) error {
	switch {
	case w.position.admits(on):
		return nil
	case on.Timeline == 0:
		return errRecovering
	}
	w.held.Store(true)
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if _, err := session.Exec(ctx, "SET ROLE "+string(postgres.System)); err != nil {
		return fmt.Errorf("check the quarantine: %w", err)
	}
	if err := w.judge(ctx, session); err != nil {
		return err
	}
	w.position.judge(on)
	return errLacks
}

// admits reports whether a server has everything that this process has seen, as far as that is
// known, or was judged already.
func (p *position) admits(on postgres.Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.place == "" || on == p.judged:
		return true
	case on.Timeline == 0:
		return p.stored == 0 // some services never show the timeline, and no position either
	}
	return on.Place == p.place && p.lacks(server{timeline: on.Timeline, recovered: on.Recovered}) == ""
}

// judge records that a poll has judged a server that may lack commits.
func (p *position) judge(on postgres.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judged = on
}
