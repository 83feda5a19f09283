package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/vault"
)

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
