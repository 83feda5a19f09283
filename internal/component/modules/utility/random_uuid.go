package utility

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
)

type randomUUID struct{}

func (randomUUID) Describe() component.Descriptor {
	return component.Computation{
		Module:      "RANDOM_UUID",
		Title:       "Random UUID",
		Description: "Generates a random UUID (version 4) from the system's cryptographic random source.",
		Category:    category,
		Output: `"description": "The generated identifier.", "required": ["uuid"], "properties": {
			"uuid": {"type": "string", "format": "uuid", "title": "UUID", "description": "The UUID, in lower case.", "examples": ["0b0e1c5e-6d0a-4f0e-9d6c-2f1f4f7a9b3c"]}
		}`,
	}.Descriptor()
}

func (randomUUID) Run(context.Context, component.Call) (component.Result, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return component.Result{}, fmt.Errorf("generate UUID: %w", err)
	}
	return component.Encode(map[string]string{"uuid": id.String()})
}
