package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
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

// seal replaces a secret value by its stored form.
func (a *advance) seal(row uuid.UUID, field vault.Field, value *json.RawMessage) (err error) {
	if len(*value) == 0 {
		return nil
	}
	if *value, err = a.o.Vault.SealJSON(a.ctx, a.vaultPlace(row, field), *value); err != nil {
		return fmt.Errorf("seal a secret value: %w", err)
	}
	return nil
}

// vaultPlace returns the place that a sealed value of the run is bound to.
func (a *advance) vaultPlace(row uuid.UUID, field vault.Field) vault.Place {
	return vault.Place{WorkspaceID: a.row.WorkspaceID, Row: row, Field: field}
}

// sealAll encrypts the secret values that the advance writes: the outputs and items of stages, and the
// output of the run. The output of a FOR_EACH is not encrypted: it contains only counts.
func (a *advance) sealAll() (err error) {
	for _, t := range a.Stages {
		if t.Secret {
			err = cmp.Or(err, a.seal(t.ID, vault.Items, &t.Items))
		}
		if t.Secret && t.Component.Module != component.ForEach {
			err = cmp.Or(err, a.seal(t.ID, vault.Output, &t.Output))
		}
	}
	for i, e := range a.Ends {
		if e.Secret {
			err = cmp.Or(err, a.seal(e.ID, vault.Output, &a.Ends[i].Output))
		}
	}
	if a.Run.SecretOutput {
		err = cmp.Or(err, a.seal(a.row.ID, vault.Output, &a.Run.Output))
	}
	return err
}

// Previous is the result of a run that a schedule started, as later runs of the schedule see it.
type Previous struct {
	ScheduledAt timestamp.Time  `json:"scheduledAt"`
	Output      json.RawMessage `json:"output"`           // null if the run has no RESPOND
	Secret      bool            `json:"secret,omitempty"` // the output derives from a secret
}

// SealPrevious returns the stored form of a result, which is part of the row of the schedule, so that
// retention does not delete it with the run. It returns the errors of the vault.
func SealPrevious(ctx context.Context, v *vault.Vault, workspaceID, scheduleID uuid.UUID, p Previous) ([]byte, error) {
	plain, err := strictjson.Encode(p)
	if err != nil {
		return nil, fmt.Errorf("encode the result of a scheduled run: %w", err)
	}
	return v.Seal(ctx, vault.Place{WorkspaceID: workspaceID, Row: scheduleID, Field: vault.SchedulePrevious}, plain)
}

// OpenPrevious is the inverse of SealPrevious. It returns nil if nothing is stored.
func OpenPrevious(ctx context.Context, v *vault.Vault, workspaceID, scheduleID uuid.UUID, stored []byte) (*Previous, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	plain, err := v.Open(ctx, vault.Place{WorkspaceID: workspaceID, Row: scheduleID, Field: vault.SchedulePrevious}, stored)
	if err != nil {
		return nil, err
	}
	var p Previous
	if json.Unmarshal(plain, &p) != nil {
		return nil, errors.New("decode the result of a scheduled run: invalid JSON") // the decoder's error may contain a secret
	}
	return &p, nil
}

// sealResult seals the result of a run that completes for the schedule that started it, if any.
func (a *advance) sealResult() error {
	if a.Run.Status != status.RunCompleted || a.row.ScheduleID == nil {
		return nil
	}
	output, err := a.o.Vault.OpenJSON(a.ctx, a.vaultPlace(a.row.ID, vault.Output), a.Run.Output)
	if err != nil {
		return fmt.Errorf("read the output of a scheduled run: %w", err)
	}
	p := Previous{ScheduledAt: timestamp.Of(*a.row.ScheduledAt), Output: output, Secret: vault.Sealed(a.Run.Output)}
	a.result, err = SealPrevious(a.ctx, a.o.Vault, a.row.WorkspaceID, *a.row.ScheduleID, p)
	return err
}

// runInput is the stored form of a run's input that contains secrets.
type runInput struct {
	Input  json.RawMessage `json:"input"`
	Hidden []string        `json:"hidden"`
}

// SealInput returns the stored form of a run's input. If the input has hidden places, the stored
// form is encrypted, and those places are redacted whenever the input is shown (see
// component.SecretPaths). SealInput returns the errors of the vault.
func SealInput(ctx context.Context, v *vault.Vault, workspaceID, runID uuid.UUID, input json.RawMessage, hidden []string) (json.RawMessage, error) {
	if len(hidden) == 0 {
		return input, nil
	}
	plain, err := strictjson.Encode(runInput{input, hidden})
	if err != nil {
		return nil, fmt.Errorf("encode the input of a run: %w", err)
	}
	return v.SealJSON(ctx, vault.Place{WorkspaceID: workspaceID, Row: runID, Field: vault.Input}, plain)
}

// OpenInput is the inverse of SealInput: it returns the input and its hidden places.
func OpenInput(ctx context.Context, v *vault.Vault, workspaceID, runID uuid.UUID, stored json.RawMessage) (input json.RawMessage, hidden []string, err error) {
	if !vault.Sealed(stored) {
		return stored, nil, nil
	}
	plain, err := v.OpenJSON(ctx, vault.Place{WorkspaceID: workspaceID, Row: runID, Field: vault.Input}, stored)
	if err != nil {
		return nil, nil, err
	}
	var opened runInput
	if json.Unmarshal(plain, &opened) != nil {
		return nil, nil, errors.New("decode the input of a run: invalid JSON") // the decoder's error may contain a secret
	}
	return opened.Input, opened.Hidden, nil
}
