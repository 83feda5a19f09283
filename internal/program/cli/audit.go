package cli

import (
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/billing"
)

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
	if err := printAll(s, wrongRows, view{columns: "ROW=row PROBLEM=problem WORKSPACE=workspaceId"}); err != nil {
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
