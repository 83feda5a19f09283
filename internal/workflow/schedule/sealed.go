package schedule

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// storedInput is the stored form of an input, before it is sealed.
type storedInput struct {
	Input  json.RawMessage `json:"input"`
	Hidden []string        `json:"hidden"` // secret places when the input was stored, see component.SecretPaths
}

// noInput is the input of a schedule without one. Earlier releases stored nothing.
const noInput = "{}"

var jsonNull = json.RawMessage("null")

// sealInput checks an input of the API against the workflow, and returns its stored form. It returns
// kept if the request has no input. It returns INVALID_INPUT for an input that contains the placeholder
// of a secret, or violates a schema of the workflow.
func (s *Service) sealInput(ctx context.Context, conn postgres.DB, key notify.Key, workflowID uuid.UUID, input json.RawMessage, kept []byte) ([]byte, error) {
	if input == nil {
		return kept, nil
	}
	if bytes.Equal(input, jsonNull) {
		input = json.RawMessage(noInput)
	}
	value, err := strictjson.Decode(input)
	if err != nil {
		return nil, err
	}
	if pointer, found := placeholderIn("/input", value); found {
		return nil, fault.InvalidAt(pointer, "is [redacted]: send the value, or leave input out, which keeps the input of the schedule")
	}
	hidden, err := s.Runs.CheckInput(ctx, conn, key.WorkspaceID, workflowID, input)
	if err != nil {
		return nil, err
	}
	plain, err := strictjson.Encode(storedInput{input, hidden})
	if err != nil {
		return nil, fmt.Errorf("encode the input of a schedule: %w", err)
	}
	return s.Vault.Seal(ctx, inputPlace(key), plain)
}

func inputPlace(key notify.Key) vault.Place {
	return vault.Place{WorkspaceID: key.WorkspaceID, Row: key.ID, Field: vault.ScheduleInput}
}

func callbackPlace(key notify.Key) vault.Place {
	return vault.Place{WorkspaceID: key.WorkspaceID, Row: key.ID, Field: vault.ScheduleCallback}
}

// openInput is the inverse of sealInput. The input is nil if an earlier release stored the schedule.
func (s *Service) openInput(ctx context.Context, key notify.Key, stored []byte) (opened storedInput, err error) {
	if len(stored) == 0 {
		return opened, nil
	}
	plain, err := s.Vault.Open(ctx, inputPlace(key), stored)
	if err != nil {
		return opened, err
	}
	if json.Unmarshal(plain, &opened) != nil {
		return opened, errors.New("decode the input of a schedule: invalid JSON") // the decoder's error may contain a secret
	}
	return opened, nil
}

// placeholderIn returns the JSON pointer of a value that is the placeholder of a secret.
func placeholderIn(pointer string, value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return pointer, value == component.Redacted
	case []any:
		for i, item := range value {
			if at, found := placeholderIn(pointer+"/"+strconv.Itoa(i), item); found {
				return at, true
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if at, found := placeholderIn(pointer+"/"+fault.EscapeToken(name), value[name]); found {
				return at, true
			}
		}
	}
	return "", false
}

// setPrevious sets or removes the previous result of a schedule, as the request says.
func (s *Service) setPrevious(ctx context.Context, key notify.Key, row *db.ScheduleUpdateParams, now time.Time, previous json.RawMessage) (err error) {
	switch {
	case previous == nil:
		return nil
	case bytes.Equal(previous, jsonNull):
		row.SealedPrevious, row.PreviousAt = nil, nil
		return nil
	}
	var p orchestrator.Previous
	if err := json.Unmarshal(previous, &p); err != nil {
		return fault.InvalidAt("/previous/scheduledAt", "must be a time, such as 2026-11-20T08:00:00.000Z")
	}
	p.Secret = false // not a field of the API
	// The next run that completes replaces the result, even if it says a time in the future.
	at := p.ScheduledAt.Std()
	if at.After(now) {
		at = now
	}
	row.PreviousAt = &at
	row.SealedPrevious, err = orchestrator.SealPrevious(ctx, s.Vault, key.WorkspaceID, key.ID, p)
	return err
}

// showSealed adds the input and the previous result to a record. If one cannot be decrypted, the record says
// why, so that a lost key does not keep anyone from reading, replacing and deleting the schedule.
func (s *Service) showSealed(ctx context.Context, key notify.Key, row db.ScheduleGetRow, shown *api.Schedule) error {
	shown.Input, shown.Previous = jsonNull, jsonNull
	input, err := s.openInput(ctx, key, row.SealedInput)
	if shown.SealedProblem = unopened(err); err != nil && shown.SealedProblem == nil {
		return err
	}
	if input.Input != nil && string(input.Input) != noInput {
		shown.Input = component.Redact(input.Input, input.Hidden)
	}
	previous, err := orchestrator.OpenPrevious(ctx, s.Vault, key.WorkspaceID, key.ID, row.SealedPrevious)
	if problem := unopened(err); problem != nil {
		shown.SealedProblem = problem
		return nil
	}
	if err == nil && previous != nil && previous.Secret && vault.Withholds(ctx) {
		previous.Output = json.RawMessage(vault.Withheld)
	}
	if err == nil && previous != nil {
		shown.Previous, err = strictjson.Encode(api.SchedulePrevious{ScheduledAt: previous.ScheduledAt, Output: previous.Output})
	}
	return err
}

// unopened returns why an input or a previous result cannot be shown, like present.Unopened.
func unopened(err error) *api.OutputProblem {
	problem := present.Unopened(err)
	if problem != nil && problem.Code == fault.Internal {
		problem.Message = "The input or the previous result cannot be decrypted: it is damaged, or its key is lost."
	}
	return problem
}

// Unfit returns the names of the schedules of a workflow whose input check refuses. It leaves out inputs that
// cannot be decrypted.
func (s *Service) Unfit(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, check func(json.RawMessage) error) (names []string, err error) {
	rows, err := db.New().ScheduleListInputs(ctx, conn, db.ScheduleListInputsParams{WorkspaceID: workspaceID, WorkflowID: workflowID})
	if err != nil {
		return nil, fmt.Errorf("list the inputs of schedules: %w", err)
	}
	for _, row := range rows {
		opened, err := s.openInput(ctx, notify.Key{WorkspaceID: workspaceID, ID: row.ID}, row.SealedInput)
		switch {
		case present.Unopened(err) != nil:
			continue
		case err != nil:
			return nil, err
		}
		if opened.Input != nil && fault.CodeOf(check(opened.Input)) == fault.InvalidInput {
			names = append(names, cmp.Or(row.Name, row.ID.String()))
		}
	}
	return names, nil
}
