package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// Record returns the record of a run without its stages and its callback. Secrets in its input are
// redacted. If the output cannot be decrypted, the record contains the reason instead.
func Record(ctx context.Context, v *vault.Vault, workspaceID uuid.UUID, row db.RunGetRow) (shown api.WorkflowRun, err error) {
	output, err := v.OpenJSON(ctx, vault.Place{WorkspaceID: workspaceID, Row: row.ID, Field: vault.Output}, row.Output)
	problem := present.Unopened(err)
	if err != nil && problem == nil {
		return shown, err
	}
	row.Output = output
	input, hidden, err := OpenInput(ctx, v, workspaceID, row.ID, row.Input)
	if err != nil {
		return shown, err
	}
	row.Input = component.Redact(input, hidden)
	shown = present.Run(row)
	shown.OutputProblem = problem
	return shown, nil
}

// freezeCallback freezes the callback of a run that this advance ends. The run's row is read once more
// for what an advance does not know of it.
func (a *advance) freezeCallback() (err error) {
	if !a.row.HasCallback || !a.Run.Status.Terminal() {
		return nil
	}
	row, err := db.New().RunGet(a.ctx, a.tx, db.RunGetParams{WorkspaceID: a.row.WorkspaceID, ID: a.row.ID})
	if err != nil {
		return fmt.Errorf("read the run that calls back: %w", err)
	}
	row.Status, row.Output, row.Error = a.Run.Status, a.Run.Output, a.Run.Error
	row.Usage, row.UsageBelow, row.FailedCount, row.PendingCount = a.Run.Usage, a.Run.UsageBelow, a.Run.FailedCount, a.Run.PendingCount
	row.FinishedAt = &a.At
	if row.UpdatedAt.Before(a.At) {
		row.UpdatedAt = a.At
	}
	record, err := a.recordCalledBack(row)
	if err != nil {
		return err
	}
	a.calls, err = a.o.Executions.Deliverer.FreezeManyTx(a.ctx, a.tx, a.o.Vault, []callback.Final{{
		WorkspaceID: a.row.WorkspaceID, ID: a.row.ID, Type: "run." + strings.ToLower(string(row.Status)),
		Secret: vault.Sealed(row.Output) || vault.Sealed(row.Input), Run: &record,
	}})
	return err
}

// recordCalledBack returns the record that the callback of a run sends. A run must be able to end although
// its input cannot be decrypted: then its record has none.
func (a *advance) recordCalledBack(row db.RunGetRow) (api.WorkflowRun, error) {
	if _, _, err := OpenInput(a.ctx, a.o.Vault, a.row.WorkspaceID, row.ID, row.Input); present.Unopened(err) != nil {
		row.Input = json.RawMessage("null")
	}
	return Record(a.ctx, a.o.Vault, a.row.WorkspaceID, row)
}

// dropCallback releases the callback of an advance that was not committed. a may be nil.
func (a *advance) dropCallback(err error) {
	if a != nil && err != nil {
		a.calls.Drop()
	}
}
