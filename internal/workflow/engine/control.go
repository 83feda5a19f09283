package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// controls maps the modules that the engine runs itself, without a worker, to the methods that run
// them.
var controls map[string]func(f *fold, sc *scope, t *stage, input json.RawMessage) error

func init() {
	controls = map[string]func(f *fold, sc *scope, t *stage, input json.RawMessage) error{
		component.OnAPICalled: (*fold).triggered, component.OnSchedule: (*fold).triggered, component.OnWebhook: (*fold).triggered,
		component.ForEach: (*fold).forEach,
		component.If:      (*fold).evaluate, component.Switch: (*fold).evaluate, component.Transform: (*fold).evaluate, component.ArrayBuilder: (*fold).evaluate,
		component.StringConstant: (*fold).evaluate, component.NumberConstant: (*fold).evaluate,
		component.BooleanConstant: (*fold).evaluate, component.JSONConstant: (*fold).evaluate,
		component.Delay: (*fold).pause, component.WaitUntil: (*fold).pause, component.WaitForSignal: (*fold).waitForSignal,
		component.RunWorkflow: (*fold).runWorkflow, component.Respond: (*fold).respond, component.Fail: (*fold).failOnPurpose,
	}
}

// checkInput checks a bound input against the limits of a caller's input (decisions 1.1).
// Executions check the rest themselves. Components that the engine runs are checked here if they
// refer to variables, whose values were unknown when the workflow was saved.
func (f *fold) checkInput(written graph.Component, t *stage, input json.RawMessage) error {
	_, control := controls[written.Module]
	switch {
	case len(input) > maxStageValue:
		return fault.New(fault.InvalidInput, "The input, including the values of connections, has %d bytes. At most %d are allowed.", len(input), maxStageValue)
	case !control:
		return nil
	case len(envref.Names(written.Input, written.Config)) > 0:
		return f.engine.Modules.Check(written.Module, input, Object(t.component.Config), f.variables.Secrets...)
	}
	if refusal, ok := errors.AsType[*fault.Error](strictjson.Check(input)); ok {
		return fault.New(fault.InvalidInput, "The input, including the values of connections, is invalid: %s.", refusal.Message)
	}
	return nil
}

// triggered outputs the input of the run and the time of its trigger.
func (f *fold) triggered(sc *scope, t *stage, _ json.RawMessage) error {
	if f.given.err != nil {
		return f.given.err
	}
	t.secret = f.given.secret
	fields := map[string]json.RawMessage{}
	if err := copyInput(t.component.Module, fields, f.given.text); err != nil {
		return err
	}
	if t.component.Module == component.OnSchedule && fields["scheduledAt"] == nil { // the run was started by a request, not by a schedule
		if err := setTime(fields, "scheduledAt", f.run.CreatedAt); err != nil {
			return err
		}
	}
	if err := setTime(fields, "triggeredAt", f.run.CreatedAt); err != nil {
		return err
	}
	output, err := strictjson.Encode(fields)
	if err != nil {
		return fmt.Errorf("encode the trigger's output: %w", err)
	}
	t.status, t.output, t.port = status.StageCompleted, output, graph.PortNext // no size limit: the input was accepted
	f.addStage(sc, t)
	return nil
}

// triggerInput is the input of a run.
type triggerInput struct {
	text   json.RawMessage
	secret bool
	err    error // why it could not be decrypted
}

// openInput decrypts the input of a run.
func (e *Engine) openInput(ctx context.Context, run db.RunLockRow) (input triggerInput) {
	var hidden []string
	input.text, hidden, input.err = OpenInput(ctx, e.Vault, run.WorkspaceID, run.ID, run.Input)
	input.secret = len(hidden) > 0
	return input
}

// copyInput copies the run's input into the output of its trigger.
func copyInput(module string, fields map[string]json.RawMessage, input json.RawMessage) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(input, &values); err != nil {
		return fmt.Errorf("read the input of the run: %w", err)
	}
	maps.Copy(fields, values)
	if module == component.OnAPICalled {
		fields["input"] = input
	}
	return nil
}

// HideInput returns the output of a run's trigger with the hidden places of the input redacted
// (see component.SecretPaths). It keeps the time of the trigger. If the output cannot be decoded,
// HideInput redacts all of it.
func HideInput(module string, output, input json.RawMessage, hidden []string) json.RawMessage {
	nothing := json.RawMessage(`"` + component.Redacted + `"`)
	var fields map[string]json.RawMessage
	if json.Unmarshal(output, &fields) != nil || fields == nil {
		return nothing
	}
	triggeredAt := fields["triggeredAt"]
	if copyInput(module, fields, component.Redact(input, hidden)) != nil {
		return nothing
	}
	fields["triggeredAt"] = triggeredAt
	shown, err := strictjson.Encode(fields)
	if err != nil {
		return nothing
	}
	return shown
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

func setTime(fields map[string]json.RawMessage, name string, at time.Time) error {
	text, err := json.Marshal(timestamp.Of(at))
	if err != nil {
		return fmt.Errorf("encode a time: %w", err)
	}
	fields[name] = text
	return nil
}

// evaluate runs a component whose output depends only on its input and config.
func (f *fold) evaluate(sc *scope, t *stage, input json.RawMessage) error {
	outcome, err := logic.Evaluate(t.component.Module, input, Object(t.component.Config), f.variables.Values)
	if err != nil {
		f.addStage(sc, t.failed(err))
		return nil
	}
	f.addStage(sc, t.completed(outcome.Output, outcome.Port))
	return nil
}

// forEach starts a loop.
func (f *fold) forEach(sc *scope, t *stage, input json.RawMessage) error {
	var in struct {
		Items json.RawMessage `json:"items"`
	}
	var items []json.RawMessage
	_ = json.Unmarshal(input, &in)
	switch err := json.Unmarshal(in.Items, &items); {
	case err != nil || !bytes.HasPrefix(bytes.TrimSpace(in.Items), []byte("[")):
		f.addStage(sc, t.failed(component.Permanent(component.CodeInvalidInput, "items is not an array")))
		return nil
	case len(items) > MaxItems:
		f.addStage(sc, t.failed(component.Permanent(component.CodeInvalidInput, "items has %d entries; at most %d are allowed", len(items), MaxItems)))
		return nil
	}
	stored, err := f.storedItems(sc, t.component.ID, in.Items)
	if err != nil {
		return err
	}
	t.status, t.items = status.StageRunning, stored
	t.loop = &loop{id: t.id, componentID: t.component.ID, iteration: t.iteration, count: int32(len(items)), stage: t}
	t.loop.configure(t.component.Config)
	f.items[t.id] = f.engine.items.put(f.run.ID, t.id, items, t.secret, len(in.Items))
	f.loops[placeOf(t.component.ID, t.iteration)] = t.loop
	f.addStage(sc, t)
	f.fill(t.loop)
	return nil
}

// pause waits for a duration or until a time.
func (f *fold) pause(sc *scope, t *stage, input json.RawMessage) error {
	due, err := logic.Due(t.component.Module, input, Object(t.component.Config), f.run.Now)
	if err != nil {
		f.addStage(sc, t.failed(err))
		return nil
	}
	f.wait(sc, t, due.Sub(f.run.Now))
	return nil
}

// wait sets the timer of a stage. A time in the past is due immediately.
func (f *fold) wait(sc *scope, t *stage, after time.Duration) {
	t.status, t.wake = status.StageRunning, max(after, time.Millisecond)
	f.addStage(sc, t)
}

// waitForSignal waits for a signal until its timeout. The signal may already have arrived.
func (f *fold) waitForSignal(sc *scope, t *stage, _ json.RawMessage) error {
	var config struct {
		Name      string `json:"name"`
		TimeoutMs int64  `json:"timeoutMs"`
	}
	_ = json.Unmarshal(t.component.Config, &config)
	if f.variables.hidden.In(config.Name) {
		f.addStage(sc, t.failed(component.Permanent(component.CodeInvalidInput, "the name of a signal must not contain a secret environment variable, because it is shown")))
		return nil
	}
	t.signal = config.Name
	f.wait(sc, t, time.Duration(config.TimeoutMs)*time.Millisecond)
	f.more = true // the next fold checks whether the signal has arrived
	return nil
}

// respond sets the output of the run. If several stages respond, the last output counts.
func (f *fold) respond(sc *scope, t *stage, input json.RawMessage) error {
	f.addStage(sc, t.completed(input, graph.PortNext))
	if t.status != status.StageCompleted {
		return nil
	}
	f.run.Output, f.secretOutput = input, t.secret
	return nil
}

// failOnPurpose fails the stage with the code and message of the config.
func (f *fold) failOnPurpose(sc *scope, t *stage, _ json.RawMessage) error {
	config := struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{logic.FailCode, logic.FailMessage}
	_ = json.Unmarshal(Object(t.component.Config), &config)
	// Secrets are redacted from an error's message, but not from its code.
	if written, _ := f.plan.Component(t.component.ID); f.namesSecret(written) && f.variables.hidden.In(config.Code) {
		f.addStage(sc, t.failed(component.Permanent(component.CodeInvalidInput, "the code of an error must not contain a secret environment variable, because it is shown")))
		return nil
	}
	f.addStage(sc, t.failed(&component.Error{Code: config.Code, Message: config.Message}))
	return nil
}
