package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// adminCommand works directly on the database. Anyone who can reach the database can grant credits,
// create owners and set passwords.
type adminCommand struct {
	Credits  adminCredits  `cmd:"" help:"Grant paid credits to a workspace, or revoke them."`
	Plan     adminPlan     `cmd:"" help:"Put a workspace on a plan."`
	Suspend  adminSuspend  `cmd:"" help:"Stop a workspace from starting work. Accepted work continues, and all data can be read. Takes effect at once in all processes."`
	Resume   adminResume   `cmd:"" help:"Let a suspended workspace start work again."`
	Owner    adminOwner    `cmd:"" help:"Make a person an owner of a workspace."`
	Password adminPassword `cmd:"" help:"Set a new password for a person. The person's roles stay the same."`
}

// adminCredits grants credits once for each reference.
type adminCredits struct {
	database
	Workspace string `arg:"" help:"Name or ID of the workspace."`
	Amount    string `arg:"" help:"Credits, with at most 6 decimals. To revoke credits, pass a negative number as the last argument: -- -5."`
	Reference string `placeholder:"TEXT" help:"Reference of the grant, such as an invoice number. A reference grants credits only once. Without a reference, every call grants credits."`
	Note      string `placeholder:"TEXT" help:"Note on the workspace's statement."`
}

// Run grants the credits.
func (c *adminCredits) Run(s *session, pool *pgxpool.Pool) error {
	amount, err := credit.Parse(c.Amount)
	if err != nil {
		return err
	}
	reference := c.Reference
	if reference == "" {
		reference = "by hand " + time.Now().UTC().Format(time.RFC3339Nano)
	}
	id, err := findWorkspace(s.ctx, pool, c.Workspace)
	if err != nil {
		return err
	}
	granted, err := billing.Books{}.Grant(s.ctx, pool, billing.Grant{WorkspaceID: id, Amount: amount, Reference: reference, Note: c.Note})
	if _, inDoubt := errors.AsType[*postgres.DoubtError](err); inDoubt {
		return fmt.Errorf("it is unknown whether the credits were granted: %w. Repeat the command with --reference %q, which grants them only once", err, reference)
	}
	if err != nil {
		return err
	}
	if !granted {
		s.note("These credits were already granted with the reference %q; nothing was changed.", reference)
		return nil
	}
	s.note("Workspace %s: %s paid credits, reference %q.", c.Workspace, amount, reference)
	return nil
}

type adminPlan struct {
	Set adminPlanSet `cmd:"" help:"Set plan and limits. Omitted limits use the plan's values. Takes effect within 5 s in all processes."`
}

type adminPlanSet struct {
	database
	Workspace string  `arg:"" help:"Name or ID of the workspace."`
	Plan      string  `arg:"" enum:"starter,growth,professional,enterprise" help:"starter, growth, professional or enterprise."`
	RPS       *int32  `name:"rps" placeholder:"N" help:"Requests per second."`
	RPH       *int32  `name:"rph" placeholder:"N" help:"Requests per hour."`
	Waits     *int32  `placeholder:"N" help:"Calls that may wait for their result at the same time."`
	Streams   *int32  `placeholder:"N" help:"Streams that may be open at the same time."`
	Credits   *string `placeholder:"N" help:"Plan credits per month."`
	Limit     *string `placeholder:"N" help:"Monthly usage that needs no paid credits."`
	Storage   *int64  `placeholder:"GIB" help:"GiB that may be stored per month."`
}

// Run sets the plan.
func (c *adminPlanSet) Run(s *session, pool *pgxpool.Pool) error {
	p := billing.Plan{Name: plan.Name(c.Plan), RPS: c.RPS, RPH: c.RPH, Waits: c.Waits, Streams: c.Streams}
	var err error
	if p.Credits, err = ownCredits("--credits", c.Credits); err != nil {
		return err
	}
	if p.UsageLimit, err = ownCredits("--limit", c.Limit); err != nil {
		return err
	}
	if c.Storage != nil {
		if *c.Storage < 1 || *c.Storage > 1<<30 {
			return errors.New("--storage is a number of GiB, at least 1 and at most 1,073,741,824")
		}
		p.Storage = new(*c.Storage << 30)
	}
	if p.WorkspaceID, err = findWorkspace(s.ctx, pool, c.Workspace); err != nil {
		return err
	}
	reader := billing.Reader{DB: pool}
	before, err := reader.Credits(s.ctx, p.WorkspaceID)
	if err != nil {
		return err
	}
	err = billing.Books{}.SetPlan(s.ctx, pool, p)
	if err != nil {
		return err
	}
	after, err := reader.Credits(s.ctx, p.WorkspaceID)
	if err != nil {
		return err
	}
	s.note("Workspace %s is on the plan %s. Rate limits: %s requests per second, %s per hour. Each month: %s plan credits, and usage of %s without paid credits.",
		c.Workspace, c.Plan, rate(p.RPS, p.Name.Terms().RPS), rate(p.RPH, p.Name.Terms().RPH), after.MonthlyCredits, *after.UsageLimit)
	s.note("Concurrency limits: %s waiting calls, %s streams.", rate(p.Waits, p.Name.Terms().Waits), rate(p.Streams, p.Name.Terms().Streams))
	s.note("Storage per month: %s.", gibibytes(after.StorageLimit))
	s.note("Plan credits available: %s before, %s now.", before.PlanCredits, after.PlanCredits)
	return nil
}

type adminSuspend struct {
	database
	Workspace string `arg:"" help:"Name or ID of the workspace."`
	Reason    string `required:"" placeholder:"TEXT" help:"Reason for the workspace's audit log, which its admins can read."`
	Cancel    bool   `help:"Also cancel the workspace's unfinished runs and executions."`
}

// Run suspends the workspace. The workspace may be suspended already if its work is to be canceled.
func (c *adminSuspend) Run(s *session, pool *pgxpool.Pool) error {
	done, same := "Workspace %s can start no executions or runs. Accepted work continues. To undo this, run weft admin resume.", "Workspace %s is already suspended; nothing was changed."
	if c.Cancel {
		done, same = "Workspace %s can start no executions or runs. To undo this, run weft admin resume.", "Workspace %s is already suspended."
	}
	err := change(s, pool, c.Workspace, done, same, func(id uuid.UUID) (bool, error) { return billing.Suspend(s.ctx, pool, id, c.Reason) })
	if err != nil || !c.Cancel {
		return err
	}
	id, err := findWorkspace(s.ctx, pool, c.Workspace)
	if err != nil {
		return err
	}
	runs, executions, err := cancelAll(s.ctx, pool, id)
	if err != nil {
		return err
	}
	s.note("Canceled: %s and %s.", fault.Count(runs, "run"), fault.Count(executions, "execution"))
	return nil
}

type adminResume struct {
	database
	Workspace string `arg:"" help:"Name or ID of the workspace."`
}

// Run ends the suspension.
func (c *adminResume) Run(s *session, pool *pgxpool.Pool) error {
	return change(s, pool, c.Workspace, "Workspace %s can start executions and runs again.", "Workspace %s is not suspended; nothing was changed.",
		func(id uuid.UUID) (bool, error) { return billing.EndSuspension(s.ctx, pool, id) })
}

// change calls fn for the workspace with that name or ID, and prints done or, if nothing changed, same.
func change(s *session, pool *pgxpool.Pool, nameOrID, done, same string, fn func(uuid.UUID) (changed bool, err error)) error {
	id, err := findWorkspace(s.ctx, pool, nameOrID)
	if err != nil {
		return err
	}
	changed, err := fn(id)
	if err != nil {
		return err
	}
	if !changed {
		done = same
	}
	s.note(done, nameOrID)
	return nil
}

// gibibytes formats a storage limit.
func gibibytes(limit *int64) string {
	if limit == nil {
		return "no limit"
	}
	return fmt.Sprintf("%d GiB", *limit>>30)
}

// ownCredits parses a flag; nil means the plan's value.
func ownCredits(flag string, text *string) (*credit.Amount, error) {
	if text == nil {
		return nil, nil
	}
	amount, err := credit.Parse(*text)
	if err != nil || amount < 0 {
		return nil, fmt.Errorf("%s: %q is not a number of credits from 0 on", flag, *text)
	}
	return &amount, nil
}

// rate formats a limit: the workspace's own limit or, if that is nil, the limit of its plan.
func rate(own *int32, of int) string {
	if own != nil {
		of = int(*own)
	}
	if of == plan.None {
		return "unlimited"
	}
	return strconv.Itoa(of)
}

// auditCommand checks every posting. It can run while the service is running. It can also create
// checkpoints for the hourly audits, and resume workspaces that were stopped because of wrong
// credits once the credits are correct again.
type auditCommand struct {
	database
	Workspace string `arg:"" optional:"" help:"Name or ID of the workspace. Default: all workspaces."`
	Renew     bool   `name:"renew-checkpoints" help:"Recompute the checkpoints of the workspace from its current postings. Use this flag only after you know why the postings differ from the checkpoint."`
}

// wrongRow is a row that the audit found wrong.
type wrongRow struct {
	WorkspaceID uuid.UUID `json:"workspaceId"`
	Row         string    `json:"row"`
	Problem     string    `json:"problem"`
}

// Run prints every incorrect row, one per line. The exit code is 1 if there are any.
func (c *auditCommand) Run(s *session, pool *pgxpool.Pool) error {
	var of uuid.UUID
	var err error
	if c.Workspace != "" {
		if of, err = findWorkspace(s.ctx, pool, c.Workspace); err != nil {
			return err
		}
	}
	if c.Renew {
		if of == uuid.Nil {
			return errors.New("--renew-checkpoints needs a workspace")
		}
		if err := billing.RenewCheckpoints(s.ctx, pool, of); err != nil {
			return err
		}
	}
	auditing := s.wait("Auditing the credits")
	broken, workspaces, incomplete := billing.Audit(s.ctx, pool, of)
	auditing.end()
	wrongRows := make([]wrongRow, len(broken))
	for i, drift := range broken {
		wrongRows[i] = wrongRow{drift.WorkspaceID, drift.Row, drift.Problem}
	}
	if err := s.printAll(wrongRows, view{columns: "ROW=row PROBLEM=problem WORKSPACE=workspaceId"}); err != nil {
		return err
	}
	resumed, err := billing.Resume(s.ctx, pool, of)
	for _, id := range resumed {
		s.note("The credits of workspace %s are correct again. The workspace can start new work.", id)
	}
	if err := errors.Join(incomplete, err); err != nil {
		return err
	}
	if len(broken) > 0 {
		return errors.New(counted(len(broken), "1 row is wrong", "%d rows are wrong"))
	}
	whose := counted(workspaces, "1 workspace", "%d workspaces")
	if c.Workspace != "" {
		whose = "Workspace " + c.Workspace
	}
	s.note("%s: every account is the sum of its postings, and every final execution was charged exactly once, for its usage.", whose)
	return nil
}
