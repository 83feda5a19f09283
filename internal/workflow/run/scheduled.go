package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// Scheduled is what a run gets from the schedule that starts it.
type Scheduled struct {
	At       time.Time
	Input    json.RawMessage        // nil: the schedule is of an earlier release, and its runs have no input to check
	Hidden   []string               // places of the input that were secret when it was stored
	Previous *orchestrator.Previous // nil: no run has completed
}

// ErrInput means that the input of a schedule violates a schema of the workflow.
var ErrInput = errors.New("the input of the schedule does not match the workflow")

// bind checks the input of the schedule against the schemas of the workflow, and returns the input of the
// run with its secret places. It returns ErrInput.
func (from *Scheduled) bind(ctx context.Context, schemas workflow.Input) (input json.RawMessage, hidden []string, err error) {
	var bound struct {
		Input       json.RawMessage `json:"input,omitempty"`
		ScheduledAt timestamp.Time  `json:"scheduledAt"`
		Previous    any             `json:"previous,omitempty"`
	}
	bound.Input, bound.ScheduledAt = from.Input, timestamp.Of(from.At)
	if from.Input != nil {
		if err := schemas.Check(ctx, "/input", from.Input); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrInput, err)
		}
		for _, path := range slices.Concat(from.Hidden, hiddenIn(schemas, from.Input)) {
			hidden = append(hidden, "/input"+path)
		}
	}
	if p := from.Previous; p != nil {
		bound.Previous = map[string]any{"scheduledAt": p.ScheduledAt, "output": p.Output}
		if p.Secret {
			hidden = append(hidden, "/previous/output")
		}
	}
	if input, err = strictjson.Encode(bound); err != nil {
		return nil, nil, fmt.Errorf("encode the input of a scheduled run: %w", err)
	}
	return input, hidden, nil
}

// hiddenIn returns the secret places of an input, or nil if it has no secret.
func hiddenIn(schemas workflow.Input, input json.RawMessage) []string {
	if !schemas.Marks(input) {
		return nil
	}
	return schemas.SecretPaths()
}

// CheckInput returns the secret places of an input for runs of a workflow, in the form of
// component.SecretPaths. It returns NOT_FOUND for an unknown workflow, and INVALID_INPUT (422) for an
// input that violates a schema of the workflow's current version.
func (s *Service) CheckInput(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, input json.RawMessage) (hidden []string, err error) {
	loaded, err := s.Workflows.Load(ctx, conn, workspaceID, workflowID, nil)
	if err != nil {
		return nil, err
	}
	return hiddenIn(loaded.Input, input), loaded.Input.Check(ctx, "/input", input)
}

// copySchedule sets the schedule and the scheduled time of a rerun to those of the earlier run: a rerun
// that completes counts as the run of that time.
func (s *Service) copySchedule(ctx context.Context, earlier notify.Key, p *TriggerParams) error {
	row, err := db.New().RunGetSchedule(ctx, s.API, db.RunGetScheduleParams{WorkspaceID: earlier.WorkspaceID, ID: earlier.ID})
	if err != nil {
		return fmt.Errorf("read the schedule of the earlier run: %w", err)
	}
	p.scheduleID, p.scheduledAt = row.ScheduleID, row.ScheduledAt
	return nil
}
