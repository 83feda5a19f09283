package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

func runPath(runID uuid.UUID) string {
	return "/v1/sdk/workflows/executions/" + runID.String()
}

// Run returns the current record of a run without its stages. It calls stage for each stage,
// because a run may have many large stages.
func (c *Client) Run(ctx context.Context, runID uuid.UUID, stage func(api.RunStage)) (api.WorkflowRun, error) {
	var run api.WorkflowRun
	answer, err := c.do(ctx, http.MethodGet, runPath(runID), nil, nil)
	if err != nil {
		return run, err
	}
	defer answer.Body.Close()
	rest, err := walkRun(json.NewDecoder(answer.Body), stage)
	if err == nil {
		err = json.Unmarshal(rest, &run)
	}
	if err != nil {
		return run, fmt.Errorf("read the run: %w", err)
	}
	return run, nil
}

// walkRun decodes the record from the stream, and returns all of it except the stages.
func walkRun(in *json.Decoder, stage func(api.RunStage)) (json.RawMessage, error) {
	rest := map[string]json.RawMessage{}
	if err := delimiter(in, '{'); err != nil {
		return nil, err
	}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, err
		}
		if name == "runStages" {
			if err := walkStages(in, stage); err != nil {
				return nil, err
			}
			continue
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return nil, err
		}
		rest[name.(string)] = value
	}
	if err := delimiter(in, '}'); err != nil {
		return nil, err
	}
	return strictjson.Encode(rest)
}

func walkStages(in *json.Decoder, stage func(api.RunStage)) error {
	if err := delimiter(in, '['); err != nil {
		return err
	}
	for in.More() {
		var next api.RunStage
		if err := in.Decode(&next); err != nil {
			return err
		}
		stage(next)
	}
	return delimiter(in, ']')
}

func delimiter(in *json.Decoder, want json.Delim) error {
	token, err := in.Token()
	if err == nil && token != want {
		err = errors.New("the JSON is not a run")
	}
	return err
}
