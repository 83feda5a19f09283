package orchestrator

import (
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
)

// openVariables decrypts the variables of a run.
func (e *Engine) openVariables(run db.RunLockRow) (v variables) {
	if run.Variables == nil {
		return v
	}
	v.Snapshot, v.err = e.Environment.Open(run.WorkspaceID, run.ID, run.Variables)
	v.hidden = component.NewRedactor(v.Secrets...)
	return v
}
