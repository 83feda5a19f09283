package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// sealed returns the stored form of a secret value.
func (f *fold) sealed(row uuid.UUID, field vault.Field, value json.RawMessage) (json.RawMessage, error) {
	if len(value) == 0 {
		return value, nil
	}
	sealed, err := f.engine.Vault.SealJSON(f.ctx, f.vaultPlace(row, field), value)
	if err != nil {
		return nil, fmt.Errorf("seal a secret value: %w", err)
	}
	return sealed, nil
}

// vaultPlace returns the place that a sealed value of the run is bound to.
func (f *fold) vaultPlace(row uuid.UUID, field vault.Field) vault.Place {
	return vault.Place{WorkspaceID: f.run.WorkspaceID, Row: row, Field: field}
}

// acceptance admits and accepts stages, like Acceptance.AcceptTx.
type acceptance func(ctx context.Context, tx *postgres.Tx, stages []execution.Stage) (refusals []error, err error)

// accept accepts the executions of new stages. If the credits do not admit a stage, accept drops
// the stage and the run fails (decisions 7.4).
func (f *fold) accept(how acceptance) error {
	stages := make([]execution.Stage, len(f.accepts))
	for i, t := range f.accepts {
		stages[i] = *t.execution
		stages[i].At = f.unlessFirst(f.stamp)
	}
	refusals, err := how(f.ctx, f.tx, stages)
	if err != nil {
		return fmt.Errorf("accept stages: %w", err)
	}
	for i, refusal := range refusals {
		if refusal != nil {
			f.drop(f.accepts[i], refusal)
		}
	}
	return f.advance()
}

// codeOf returns the error code of a stage or a run that fails because of a refusal.
func codeOf(refusal *fault.Error) string {
	if refusal.Reason == billing.ReasonStorage {
		return codeStorage
	}
	return string(refusal.Code)
}
