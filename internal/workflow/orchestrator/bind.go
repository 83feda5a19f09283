package orchestrator

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/secret/vault"
)

// outputValue is an output that was read or computed. If it is stored sealed, all of it is secret.
type outputValue struct {
	output json.RawMessage
	secret bool
}

// open decrypts a stored output if it is sealed. source is the row that the output is bound to.
func (f *fold) open(source uuid.UUID, stored json.RawMessage) (outputValue, error) {
	output, err := f.engine.Vault.OpenJSON(f.ctx, f.vaultPlace(source, vault.Output), stored)
	if err != nil {
		return outputValue{}, fmt.Errorf("read outputs: %w", err)
	}
	return outputValue{output, vault.Sealed(stored)}, nil
}

// iterationOutput is the output of a component in an iteration.
type iterationOutput struct {
	iteration []int32
	outputValue
}
