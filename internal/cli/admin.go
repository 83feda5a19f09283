package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-automation/weft/internal/billing"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/plan"
)

// adminCommand works on the database: whoever reaches that may give credits,
// make owners and set passwords.
type adminCommand struct {
	Credits  adminCredits  `cmd:"" help:"Give a workspace paid credits."`
	Plan     adminPlan     `cmd:"" help:"Put a workspace on a plan."`
	Owner    adminOwner    `cmd:"" help:"Make an owner of a workspace. Who has an account keeps its password."`
	Password adminPassword `cmd:"" help:"Give a person another password. They keep their roles."`
}

// adminCredits grants once for each reference.
type adminCredits struct {
	database
	Workspace string `arg:"" help:"Name or id of the workspace."`
	Amount    string `arg:"" help:"Credits, with at most 6 decimals. To take back: -- -5."`
	Reference string `placeholder:"TEXT" help:"What it is for, such as an invoice. The same reference gives once. Without one, every call gives."`
	Note      string `placeholder:"TEXT" help:"What the workspace's statement says beside it."`
}

// Run grants the credits.
func (c *adminCredits) Run(s *session) error {
	amount, err := credit.Parse(c.Amount)
	if err != nil {
		return err
	}
	reference := c.Reference
	if reference == "" {
		reference = "by hand " + time.Now().UTC().Format(time.RFC3339Nano)
	}
	if len(reference) > 200 || len(c.Note) > 500 {
		return errors.New("a reference is at most 200 characters, a note at most 500")
	}
	pool, done, err := c.open(s.ctx)
	if err != nil {
		return err
	}
	defer done()
	id, err := findWorkspace(s.ctx, pool, c.Workspace)
	if err != nil {
		return err
	}
	granted, err := billing.Books{}.Grant(s.ctx, pool, billing.Grant{WorkspaceID: id, Amount: amount, Reference: reference, Note: c.Note})
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		return errors.New(failure.Message)
	}
	if err != nil {
		return err
	}
	if !granted {
		s.note("The reference %q gave these credits before; nothing was changed.", reference)
		return nil
	}
	s.note("Workspace %s: %s paid credits, reference %q.", c.Workspace, amount, reference)
	return nil
}

type adminPlan struct {
	Set adminPlanSet `cmd:"" help:"Set plan and limits. What is not given is as the plan has it. In force within 5 s everywhere."`
}

type adminPlanSet struct {
	database
	Workspace string  `arg:"" help:"Name or id of the workspace."`
	Plan      string  `arg:"" enum:"starter,growth,professional,enterprise" help:"starter, growth, professional or enterprise."`
	RPS       *int32  `name:"rps" placeholder:"N" help:"Requests a second."`
	RPH       *int32  `name:"rph" placeholder:"N" help:"Requests an hour."`
	Credits   *string `placeholder:"N" help:"Plan credits of a month."`
	Limit     *string `placeholder:"N" help:"Usage of a month that paid credits need not pay."`
}

// Run sets the plan.
func (c *adminPlanSet) Run(s *session) error {
	p := billing.Plan{Name: plan.Name(c.Plan), RPS: c.RPS, RPH: c.RPH}
	for _, rate := range []*int32{c.RPS, c.RPH} {
		if rate != nil && *rate <= 0 {
			return errors.New("a rate is at least 1; leave it out for the plan's own")
		}
	}
	for text, to := range map[*string]**credit.Amount{c.Credits: &p.Credits, c.Limit: &p.UsageLimit} {
		if text == nil {
			continue
		}
		amount, err := credit.Parse(*text)
		if err != nil || amount < 0 {
			return fmt.Errorf("%q is not a number of credits", *text)
		}
		*to = &amount
	}
	pool, done, err := c.open(s.ctx)
	if err != nil {
		return err
	}
	defer done()
	if p.WorkspaceID, err = findWorkspace(s.ctx, pool, c.Workspace); err != nil {
		return err
	}
	err = billing.Books{}.SetPlan(s.ctx, pool, p)
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		return errors.New(failure.Message)
	}
	if err != nil {
		return err
	}
	s.note("Workspace %s is on the plan %s.", c.Workspace, c.Plan)
	return nil
}
