package cli

import (
	"fmt"
	"time"

	"github.com/weft-automation/weft/internal/quarantine"
)

// quarantineCommand works on the database: it needs no running process.
type quarantineCommand struct {
	Status  quarantineStatus  `cmd:"" help:"Say whether the database is in quarantine, and what would go on after a release."`
	Begin   quarantineBegin   `cmd:"" help:"Let no component run and no callback be sent until a release."`
	Release quarantineRelease `cmd:"" help:"End the quarantine: work goes on from what the database shows."`
}

type quarantineStatus struct{ database }

func (q *quarantineStatus) Run(s *session) error {
	pool, done, err := q.open(s.ctx)
	if err != nil {
		return err
	}
	defer done()
	status, err := quarantine.StatusOf(s.ctx, pool)
	if err != nil {
		return err
	}
	switch {
	case status.Elsewhere:
		_, _ = fmt.Fprintln(s.stdout, "The database is not where it was known to live: the processes of Weft will put it in quarantine.")
	case status.Since == nil:
		_, err := fmt.Fprintln(s.stdout, "The database is not in quarantine.")
		return err
	default:
		_, _ = fmt.Fprintf(s.stdout, "In quarantine since %s: %s.\n", status.Since.UTC().Format(time.DateTime), status.Reason)
	}
	_, err = fmt.Fprintf(s.stdout, `%s not final and would go on. %d of them were under way and may not be repeated: they would fail with WORKER_LOST.
%s would be delivered, perhaps again.
`, counted(int(status.Executions), "1 execution is", "%d executions are"), status.Doubtful, counted(int(status.Callbacks), "1 callback", "%d callbacks"))
	return err
}

type quarantineBegin struct {
	database
	Reason string `default:"an operator began it" placeholder:"TEXT" help:"Why, for the log and for status."`
}

func (q *quarantineBegin) Run(s *session) error {
	if q.Reason == "" || len(q.Reason) > 500 {
		return fmt.Errorf("--reason: must have 1 to 500 bytes")
	}
	pool, done, err := q.open(s.ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := quarantine.Begin(s.ctx, pool, q.Reason); err != nil {
		return err
	}
	s.note("The database is in quarantine: every process begins nothing new within two seconds.")
	return nil
}

type quarantineRelease struct{ database }

func (q *quarantineRelease) Run(s *session) error {
	pool, done, err := q.open(s.ctx)
	if err != nil {
		return err
	}
	defer done()
	released, err := quarantine.Release(s.ctx, pool)
	if err != nil {
		return err
	}
	if !released {
		s.note("The database was not in quarantine.")
		return errQuiet
	}
	s.note("Released: work goes on within two seconds.")
	return nil
}
