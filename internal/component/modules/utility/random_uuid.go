package utility

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

type randomUUID struct{}

func (randomUUID) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "RANDOM_UUID",
		Title:       "Random UUID",
		Description: "Generates a random UUID (version 4) from the system's cryptographic random source.",
		Category:    category,
		Input:       json.RawMessage(emptySchema),
		Config:      json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "The generated identifier.",
			"required": ["uuid"],
			"properties": {
				"uuid": {"type": "string", "format": "uuid", "title": "UUID", "description": "The UUID, in lower case.", "examples": ["0b0e1c5e-6d0a-4f0e-9d6c-2f1f4f7a9b3c"]}
			}
		}`),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
}

func (randomUUID) Run(context.Context, component.Call) (component.Result, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return component.Result{}, fmt.Errorf("generate UUID: %w", err)
	}
	return component.Encode(map[string]string{"uuid": id.String()})
}
