package engine

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

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

// sealAll encrypts the secret values that the fold writes: the outputs and items of stages, and the
// output of the run. The output of a loop is not encrypted: it contains only counts.
func (f *fold) sealAll() (err error) {
	for _, t := range f.made {
		if !t.secret {
			continue
		}
		if t.items, err = f.sealed(t.id, vault.Items, t.items); err != nil {
			return err
		}
		if t.loop != nil {
			continue
		}
		if t.output, err = f.sealed(t.id, vault.Output, t.output); err != nil {
			return err
		}
	}
	for i, e := range f.ends {
		if !e.secret {
			continue
		}
		if f.ends[i].output, err = f.sealed(e.id, vault.Output, e.output); err != nil {
			return err
		}
	}
	if f.secretOutput {
		f.run.Output, err = f.sealed(f.run.ID, vault.Output, f.run.Output)
	}
	return err
}
