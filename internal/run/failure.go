package run

import (
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/record"
	"github.com/weft-automation/weft/internal/strictjson"
)

// failed is a stage that failed, and why.
type failed struct {
	stage uuid.UUID
	why   json.RawMessage
}

// failWith ends the run, once what runs has finished, for a reason of its own.
func (f *fold) failWith(code, message string) {
	f.fail(api.RunError{Code: code, Message: message})
}

// failFor ends the run for a stage that failed.
func (f *fold) failFor(_ *scope, componentID string, of failed) {
	why := api.RunError{Code: "INTERNAL_ERROR", Message: "A stage failed.", ComponentID: &componentID}
	var read api.ExecutionError
	if json.Unmarshal(of.why, &read) == nil && read.Code != "" {
		why.Code, why.Message, why.Retryable = read.Code, read.Message, read.Retryable
	}
	if of.stage != uuid.Nil {
		why.StageID = &of.stage
	}
	f.fail(why)
}

// fail ends the run, once what runs has finished. The first failure is the run's.
func (f *fold) fail(why api.RunError) {
	if len(f.run.Error) > 0 {
		return
	}
	encoded, err := strictjson.Encode(why)
	if err != nil { // it holds nothing but texts
		encoded = json.RawMessage(`{"code":"INTERNAL_ERROR","message":"A stage failed.","retryable":false,"componentId":null,"stageId":null}`)
	}
	f.run.Error, f.changed, f.halted = encoded, true, true
}

// failure is an error in the form of stages (decisions 3).
func failure(code, message string, details map[string]any) json.RawMessage {
	var more json.RawMessage
	if len(details) > 0 {
		more, _ = strictjson.Encode(details)
	}
	encoded, err := record.ExecutionError(code, message, false, 1, more)
	if err != nil {
		encoded, _ = record.ExecutionError(code, message, false, 1, nil)
	}
	return encoded
}

// failureOf is the error of a component as that of a stage.
func failureOf(err error) json.RawMessage {
	if e, ok := errors.AsType[*component.Error](err); ok {
		encoded, err := record.ExecutionError(e.Code, e.Message, e.Retryable, 1, e.Details)
		if err == nil {
			return encoded
		}
	}
	return failure("INTERNAL_ERROR", "the component failed", nil)
}

// refused is a refusal as the error of a stage.
func refused(err error) json.RawMessage {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return failure("INTERNAL_ERROR", "the stage could not be made", nil)
	}
	details := map[string]any{}
	if e.Reason != "" {
		details["reason"] = e.Reason
	}
	if len(e.Details) > 0 {
		details["errors"] = e.Details
	}
	return failure(string(e.Code), e.Message, details)
}
