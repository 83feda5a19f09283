package orchestrator

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// open decrypts a stored output if it is sealed. source is the row that the output is bound to.
func (a *advance) open(source uuid.UUID, stored json.RawMessage) (engine.Value, error) {
	output, err := a.o.Vault.OpenJSON(a.ctx, a.vaultPlace(source, vault.Output), stored)
	if err != nil {
		return engine.Value{}, fmt.Errorf("read outputs: %w", err)
	}
	return engine.Value{Output: output, Secret: vault.Sealed(stored)}, nil
}

// openItems decrypts and decodes the items of a loop, and caches them.
func (a *advance) openItems(l engine.Loop, stored json.RawMessage) (items engine.Items, err error) {
	raw, err := a.o.Vault.OpenJSON(a.ctx, a.vaultPlace(l.ID, vault.Items), stored)
	if err == nil {
		raw, err = a.ResolveItems(l.Component, raw)
	}
	if err != nil {
		return items, err
	}
	if err := json.Unmarshal(raw, &items.List); err != nil {
		return items, err
	}
	items.Secret = vault.Sealed(stored)
	a.o.cache.putItems(a.row.ID, l.ID, items)
	return items, nil
}

// sealed returns the stored form of a secret value.
func (a *advance) sealed(row uuid.UUID, field vault.Field, value json.RawMessage) (json.RawMessage, error) {
	if len(value) == 0 {
		return value, nil
	}
	sealed, err := a.o.Vault.SealJSON(a.ctx, a.vaultPlace(row, field), value)
	if err != nil {
		return nil, fmt.Errorf("seal a secret value: %w", err)
	}
	return sealed, nil
}

// vaultPlace returns the place that a sealed value of the run is bound to.
func (a *advance) vaultPlace(row uuid.UUID, field vault.Field) vault.Place {
	return vault.Place{WorkspaceID: a.row.WorkspaceID, Row: row, Field: field}
}

// sealAll encrypts the secret values that the advance writes: the outputs and items of stages, and the
// output of the run. The output of a loop is not encrypted: it contains only counts.
func (a *advance) sealAll() (err error) {
	for _, t := range a.Stages {
		if !t.Secret {
			continue
		}
		if t.Items, err = a.sealed(t.ID, vault.Items, t.Items); err != nil {
			return err
		}
		if t.Loop != nil {
			continue
		}
		if t.Output, err = a.sealed(t.ID, vault.Output, t.Output); err != nil {
			return err
		}
	}
	for i, e := range a.Ends {
		if !e.Secret {
			continue
		}
		if a.Ends[i].Output, err = a.sealed(e.ID, vault.Output, e.Output); err != nil {
			return err
		}
	}
	if a.Run.SecretOutput {
		a.Run.Output, err = a.sealed(a.row.ID, vault.Output, a.Run.Output)
	}
	return err
}
