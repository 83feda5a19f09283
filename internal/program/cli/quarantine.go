package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/quarantine"
	"github.com/weft-automation/weft/internal/program/app"
)

// quarantineCommand works on the database and needs no running process.
type quarantineCommand struct {
	Status  quarantineStatus  `cmd:"" help:"Show whether the database is in quarantine, and what a release does with unfinished work."`
	Begin   quarantineBegin   `cmd:"" help:"Put the database in quarantine: no component runs and no callback is sent until a release."`
	Release quarantineRelease `cmd:"" help:"Release the database. Work continues from the state of the database."`
}

type quarantineStatus struct {
	database
	List bool `help:"Also list each unfinished execution, unfinished run and due callback."`
}

func (q *quarantineStatus) Run(s *session, pool *pgxpool.Pool) error {
	status, err := quarantine.StatusOf(s.ctx, pool)
	if err != nil {
		return err
	}
	all := []unfinished{}
	if q.List && (status.Elsewhere || status.Since != nil) {
		err := quarantine.List(s.ctx, pool, func(row db.InstallationListUnfinishedRow) error {
			all = append(all, unfinished(row))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.printAs(struct {
		Since        *time.Time   `json:"since"`
		Reason       string       `json:"reason"`
		Elsewhere    bool         `json:"elsewhere"`
		Executions   int64        `json:"executions"`
		Runs         int64        `json:"runs"`
		DueCallbacks int64        `json:"dueCallbacks"`
		Unfinished   []unfinished `json:"unfinished"`
	}{status.Since, status.Reason, status.Elsewhere, status.Unfinished(), status.Runs, status.Queued, all}, func(out io.Writer) error { return drawQuarantine(s, out, status, all) })
}

// unfinished is an execution, a run or a callback that is not finished.
type unfinished struct {
	Kind        string    `json:"kind"`
	WorkspaceID uuid.UUID `json:"workspaceId"`
	ID          uuid.UUID `json:"id"`
	Status      string    `json:"status"`
	What        string    `json:"what"`
	Rule        string    `json:"rule"`
}

// drawQuarantine prints the status for people.
func drawQuarantine(s *session, out io.Writer, status quarantine.Status, all []unfinished) error {
	switch {
	case status.Elsewhere:
		_, _ = fmt.Fprintln(out, "The database is not at the place recorded in it: the processes of Weft will put it in quarantine.")
	case status.Since == nil:
		_, err := fmt.Fprintln(out, "The database is not in quarantine.")
		return err
	default:
		_, _ = fmt.Fprintf(out, "In quarantine since %s: %s.\n", status.Since.UTC().Format(time.DateTime), status.Reason)
	}
	if err := printUnfinished(s, out, status); err != nil || len(all) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(out)
	lines := s.newTable(out, "KIND", "WORKSPACE", "ID", "STATUS", "MODULE OR WORKFLOW", "REPEAT RULE")
	for _, row := range all {
		lines.row(row.Kind, row.WorkspaceID.String(), row.ID.String(), row.Status, row.What, row.Rule)
	}
	return lines.flush()
}

// afterRelease describes, by repeat rule, how a release treats unfinished executions.
var afterRelease = map[string]string{
	"pure":       "run again; they change nothing outside Weft",
	"idempotent": "run again; a repeat has the effect of one call",
	"unsafe":     "not safe to repeat; choose --fail-unsafe or --repeat-unsafe",
}

// printUnfinished prints what is unfinished, and how a release treats it.
func printUnfinished(s *session, w io.Writer, status quarantine.Status) error {
	_, _ = fmt.Fprintf(w, "%s unfinished. If the database was restored, each of them may have finished after the backup.\n",
		counted(int(status.Unfinished()), "1 execution is", "%d executions are"))
	table := s.newTable(w)
	if len(status.Executions) > 0 {
		table.row("REPEAT RULE", "CREATED", "EXECUTING", "AFTER A RELEASE")
	}
	for _, u := range status.Executions {
		what := afterRelease[u.Rule]
		if u.Rule == "unsafe" && u.Held > 0 {
			what += fmt.Sprintf(", which fails %d of them with WORKER_LOST if their workers are gone and runs the others", u.Held)
		}
		table.row(u.Rule, strconv.FormatInt(u.Created, 10), strconv.FormatInt(u.Executing, 10), what)
	}
	_ = table.flush()
	_, err := fmt.Fprintf(w, `%s unfinished: stages that ran after the backup run again, unless --cancel-runs cancels them.
%s of unfinished executions get another webhook-id (ID.2 and so on), because the body may differ.
%s due. A release sends due callbacks with the same body and webhook-id as before. Receivers may get them twice.
`, counted(int(status.Runs), "1 run is", "%d runs are"), counted(int(status.Unfrozen), "1 callback", "%d callbacks"), counted(int(status.Queued), "1 callback is", "%d callbacks are"))
	return err
}

type quarantineBegin struct {
	database
	Reason string `default:"an operator began it" placeholder:"TEXT" help:"Reason, for the log and for weft quarantine status."`
}

func (q *quarantineBegin) Run(s *session, pool *pgxpool.Pool) error {
	if q.Reason == "" || len(q.Reason) > 500 {
		return fmt.Errorf("--reason must have 1 to 500 bytes")
	}
	begun, err := quarantine.Start(s.ctx, pool, q.Reason)
	if err != nil {
		return err
	}
	if !begun {
		status, err := quarantine.StatusOf(s.ctx, pool)
		if err == nil && status.Since != nil {
			s.note("The database is already in quarantine, since %s: %s. Nothing changed.", status.Since.UTC().Format(time.DateTime), status.Reason)
		}
		return err
	}
	s.note("The database is in quarantine. After two seconds, no process starts new work.")
	return nil
}

type quarantineRelease struct {
	database
	FailUnsafe   bool `name:"fail-unsafe" xor:"unsafe" help:"Fail unfinished executions that are not safe to repeat with RESTORE_UNCERTAIN, in batches of up to 500."`
	RepeatUnsafe bool `name:"repeat-unsafe" xor:"unsafe" help:"Run unfinished executions that are not safe to repeat, although they may already have taken effect. Executions that a lost worker had started fail with WORKER_LOST instead."`
	CancelRuns   bool `name:"cancel-runs" help:"Cancel the unfinished runs of workflows."`
}

// cancelReason is recorded on the runs that a release cancels.
const cancelReason = "the database was restored from a backup in which this run had not finished"

func (q *quarantineRelease) Run(s *session, pool *pgxpool.Pool) error {
	status, err := quarantine.StatusOf(s.ctx, pool)
	if err != nil {
		return err
	}
	if status.Since == nil && !status.Elsewhere {
		return errors.New("the database was not in quarantine")
	}
	if n := status.Unsafe(); n > 0 && !q.FailUnsafe && !q.RepeatUnsafe {
		return fmt.Errorf("%s not safe to repeat, and may have taken effect before the restore: choose --fail-unsafe or --repeat-unsafe (`weft quarantine status --list` lists them)",
			counted(int(n), "1 unfinished execution is", "%d unfinished executions are"))
	}
	if status.Elsewhere { // no process has put the database in quarantine yet
		if _, err := quarantine.Start(s.ctx, pool, "an operator prepares the release"); err != nil {
			return err
		}
	}
	if q.FailUnsafe {
		failing := s.wait("Failing executions that are not safe to repeat")
		n, err := app.FailUnsafe(s.ctx, pool)
		failing.end()
		s.note("%s with RESTORE_UNCERTAIN.", counted(n, "1 execution failed", "%d executions failed"))
		if err != nil {
			return err
		}
	}
	if q.CancelRuns {
		n, err := quarantine.CancelRuns(s.ctx, pool, cancelReason)
		s.note("The cancellation of %s was requested.", counted(int(n), "1 run", "%d runs"))
		if err != nil {
			return err
		}
	}
	released, err := quarantine.Release(s.ctx, pool)
	if err != nil {
		return err
	}
	if !released {
		return errors.New("somebody else has already released the database")
	}
	s.note("Released: work continues within two seconds.")
	if n := status.Unsafe() - status.UnsafeHeld(); n > 0 && q.RepeatUnsafe {
		s.note("%s not safe to repeat and will run.", counted(int(n), "1 execution is", "%d executions are"))
	}
	if n := status.UnsafeHeld(); n > 0 && q.RepeatUnsafe {
		s.note("%s not safe to repeat and had started on a worker. If that worker is gone, the result is FAILED with WORKER_LOST.", counted(int(n), "1 execution is", "%d executions are"))
	}
	if status.Runs > 0 && !q.CancelRuns {
		s.note("%s: stages that ran after the backup run again.", counted(int(status.Runs), "1 run continues", "%d runs continue"))
	}
	return nil
}
