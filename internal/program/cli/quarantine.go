package cli

import (
	"context"
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
	unsafeRuns := 0
	if status.Elsewhere || status.Since != nil {
		if unsafeRuns, err = app.CountUncertainRuns(s.ctx, pool); err != nil {
			return err
		}
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
		UnsafeRuns   int          `json:"unsafeRuns"`
		DueCallbacks int64        `json:"dueCallbacks"`
		Unfinished   []unfinished `json:"unfinished"`
	}{status.Since, status.Reason, status.Elsewhere, status.Unfinished(), status.Runs, unsafeRuns, status.Queued, all}, func(out io.Writer) error { return drawQuarantine(s, out, status, unsafeRuns, all) })
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
func drawQuarantine(s *session, out io.Writer, status quarantine.Status, unsafeRuns int, all []unfinished) error {
	switch {
	case status.Elsewhere:
		_, _ = fmt.Fprintln(out, "The database is not at the place recorded in it: the processes of Weft will put it in quarantine.")
	case status.Since == nil:
		_, err := fmt.Fprintln(out, "The database is not in quarantine.")
		return err
	default:
		_, _ = fmt.Fprintf(out, "In quarantine since %s: %s.\n", status.Since.UTC().Format(time.DateTime), status.Reason)
	}
	if err := printUnfinished(s, out, status, unsafeRuns); err != nil || len(all) == 0 {
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
func printUnfinished(s *session, w io.Writer, status quarantine.Status, unsafeRuns int) error {
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
	_, err := fmt.Fprintf(w, `%s unfinished: stages that ran after the backup run again, unless --cancel-runs cancels them. %s not safe to repeat ahead: --fail-unsafe fails these runs.
%s of unfinished executions get another webhook-id (ID.2 and so on), because the body may differ.
%s due. A release sends due callbacks with the same body and webhook-id as before. Receivers may get them twice.
`, counted(int(status.Runs), "1 run is", "%d runs are"), counted(unsafeRuns, "1 of them has a component", "%d of them have components"), counted(int(status.Unfrozen), "1 callback", "%d callbacks"), counted(int(status.Queued), "1 callback is", "%d callbacks are"))
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
	FailUnsafe   bool `name:"fail-unsafe" xor:"unsafe" help:"Fail with RESTORE_UNCERTAIN the unfinished executions that are not safe to repeat, and the runs that may still start such a component. Skip the times of schedules that are due."`
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
	if err := q.decided(s, pool, status); err != nil {
		return err
	}
	if status.Elsewhere { // no process has put the database in quarantine yet
		if _, err := quarantine.Start(s.ctx, pool, "an operator prepares the release"); err != nil {
			return err
		}
	}
	if q.FailUnsafe {
		if err := q.fail(s, pool); err != nil {
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

// decided returns an error if there is work that is not safe to repeat, and the operator hasn't chosen
// what happens to it.
func (q *quarantineRelease) decided(s *session, pool *pgxpool.Pool, status quarantine.Status) error {
	if q.FailUnsafe || q.RepeatUnsafe {
		return nil
	}
	unsafeRuns := 0
	if !q.CancelRuns {
		var err error
		if unsafeRuns, err = app.CountUncertainRuns(s.ctx, pool); err != nil {
			return err
		}
	}
	if status.Unsafe() == 0 && unsafeRuns == 0 {
		return nil
	}
	return fmt.Errorf("%s not safe to repeat, and %s such a component; their calls may have taken effect before the restore: choose --fail-unsafe or --repeat-unsafe (`weft quarantine status --list` lists them)",
		counted(int(status.Unsafe()), "1 unfinished execution is", "%d unfinished executions are"), counted(unsafeRuns, "1 unfinished run may still start", "%d unfinished runs may still start"))
}

// fail fails what is not safe to repeat, and skips the times of schedules.
func (q *quarantineRelease) fail(s *session, pool *pgxpool.Pool) error {
	failing := s.wait("Failing executions and runs that are not safe to repeat")
	defer failing.end()
	for _, step := range []struct {
		doFunc    func(context.Context, *pgxpool.Pool) (int, error)
		ofRuns    bool
		one, many string
	}{
		{app.FailUnsafe, false, "1 execution failed with RESTORE_UNCERTAIN.", "%d executions failed with RESTORE_UNCERTAIN."},
		{app.FailUncertainRuns, true, "1 run fails with RESTORE_UNCERTAIN: a component that is not safe to repeat was still ahead.", "%d runs fail with RESTORE_UNCERTAIN: components that are not safe to repeat were still ahead."},
		{app.SkipDueSchedules, false, "1 schedule skipped the times that were due.", "%d schedules skipped the times that were due."},
	} {
		if q.CancelRuns && step.ofRuns {
			continue // all runs are canceled
		}
		n, err := step.doFunc(s.ctx, pool)
		s.note("%s", counted(n, step.one, step.many))
		if err != nil {
			return err
		}
	}
	return nil
}
