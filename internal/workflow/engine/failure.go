package engine

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// namesSecret reports whether a component refers to a secret variable in a field that its schema
// does not mark as secret. In that case its output may contain the secret. For marked fields, the
// module's output schema says what is secret.
func (a *Advance) namesSecret(c graph.Component) bool {
	if len(a.Variables.Secrets) == 0 {
		return false
	}
	if entry, known := a.modules.Lookup(c.Module); known && controls[c.Module] == nil {
		c.Input, c.Config = entry.RedactInput(c.Input), entry.RedactConfig(c.Config)
	}
	return slices.ContainsFunc(slices.Concat(envref.Names(c.Input, c.Config), a.Plan.Variables(c.ID)), a.Variables.secret)
}

// redactFailure returns the error of a stage without the secrets of the run and of the stage's
// input. It does not change the code and the names of fields.
func (a *Advance) redactFailure(failure json.RawMessage, secrets []string) json.RawMessage {
	if a.Variables.Err != nil {
		return encodeFailure(component.Permanent(component.CodeInternal, "the environment variables of the run cannot be decrypted"))
	}
	hidden := a.Variables.Hidden
	if len(secrets) > 0 {
		hidden = component.NewRedactor(slices.Concat(a.Variables.Secrets, secrets)...)
	}
	var why api.ExecutionError
	err := json.Unmarshal(failure, &why)
	if why.Message = hidden.Text(why.Message); hidden.Whole() {
		why.Details = nil
	}
	var shown json.RawMessage
	if err == nil {
		why.Details = hidden.JSON(why.Details)
		shown, err = present.ExecutionError(why)
	}
	if err != nil {
		return encodeFailure(component.Permanent(component.CodeInternal, component.Redacted))
	}
	return shown
}

// FailWith fails the run for a reason that is not the failure of a stage. The run finishes when
// its running stages have finished.
func (a *Advance) FailWith(code, message string) {
	a.fail(api.RunError{Code: code, Message: message})
}

// failFor fails the run because a component failed. stage is its stage; zero: it was not created.
func (a *Advance) failFor(componentID string, stage uuid.UUID, failure json.RawMessage) {
	why := api.RunError{Code: "INTERNAL_ERROR", Message: "A stage failed.", ComponentID: &componentID}
	var read api.ExecutionError
	if json.Unmarshal(failure, &read) == nil && read.Code != "" {
		why.Code, why.Message, why.Retryable = read.Code, read.Message, read.Retryable
	}
	if stage != uuid.Nil {
		why.StageID = &stage
	}
	a.fail(why)
}

// fail sets the error of the run, unless the run already has an error: the first failure counts.
func (a *Advance) fail(why api.RunError) {
	if len(a.Run.Error) > 0 {
		return
	}
	encoded, err := strictjson.Encode(why)
	if err != nil { // not expected: a RunError contains only strings
		encoded = json.RawMessage(`{"code":"INTERNAL_ERROR","message":"A stage failed.","retryable":false,"componentId":null,"stageId":null}`)
	}
	a.Run.Error, a.Changed, a.Halted = encoded, true, true
}

// encodeFailure returns the JSON of a stage's error (decisions 3). It encodes an error that is not
// meant for users as an internal error.
func encodeFailure(why error) json.RawMessage {
	e := component.Permanent(component.CodeInternal, "the stage could not be started")
	if reported, ok := errors.AsType[*component.Error](why); ok {
		e = reported
	} else if refusal, ok := errors.AsType[*fault.Error](why); ok {
		e = component.Permanent(string(refusal.Code), "%s", refusal.Message)
		details := map[string]any{}
		if refusal.Reason != "" {
			details["reason"] = refusal.Reason
		}
		if len(refusal.Details) > 0 {
			details["errors"] = refusal.Details
		}
		if len(details) > 0 {
			e = e.With(details)
		}
	}
	shown := api.ExecutionError{Code: e.Code, Message: e.Message, Retryable: e.Retryable, Attempt: 1, Details: e.Details}
	encoded, err := present.ExecutionError(shown)
	if err != nil { // the details are not valid JSON
		shown.Details = nil
		encoded, _ = present.ExecutionError(shown)
	}
	return encoded
}

// CodeStorage is the code of a run or stage that fails because the workspace has reached its
// storage limit for the month.
const CodeStorage = "STORAGE_EXHAUSTED"
