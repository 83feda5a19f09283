package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// controls maps the modules that the engine runs itself, without a worker, to the methods that run
// them.
var controls map[string]func(a *Advance, t *Stage) error

func init() {
	controls = map[string]func(a *Advance, t *Stage) error{
		component.OnAPICalled: (*Advance).triggered, component.OnSchedule: (*Advance).triggered, component.OnWebhook: (*Advance).triggered,
		component.ForEach: (*Advance).forEach, component.RepeatLoop: (*Advance).repeat, component.Continue: (*Advance).continueLoop,
		component.If: (*Advance).evaluate, component.Switch: (*Advance).evaluate, component.Transform: (*Advance).evaluate, component.ArrayBuilder: (*Advance).evaluate,
		component.StringConstant: (*Advance).evaluate, component.NumberConstant: (*Advance).evaluate,
		component.BooleanConstant: (*Advance).evaluate, component.JSONConstant: (*Advance).evaluate,
		component.Delay: (*Advance).pause, component.WaitUntil: (*Advance).pause, component.WaitForSignal: (*Advance).waitForSignal,
		component.RunWorkflow: (*Advance).runWorkflow, component.Respond: (*Advance).respond, component.Fail: (*Advance).failOnPurpose,
	}
}

// checkInput checks a bound input against the limits of a caller's input (decisions 1.1).
// Executions check the rest themselves. Components that the engine runs are checked here if they
// refer to variables, whose values were unknown when the workflow was saved.
func (a *Advance) checkInput(written graph.Component, t *Stage, input json.RawMessage) error {
	_, control := controls[written.Module]
	switch {
	case len(input) > maxStageValue:
		return fault.New(fault.InvalidInput, "The input, including the values of connections, has %d bytes. At most %d are allowed.", len(input), maxStageValue)
	case !control:
		return nil
	case len(envref.Names(written.Input, written.Config)) > 0, a.Plan.Refers(written.ID):
		return a.modules.Check(written.Module, input, Object(t.Component.Config), slices.Concat(a.Variables.Secrets, t.secrets)...)
	}
	if refusal, ok := errors.AsType[*fault.Error](strictjson.Check(input)); ok {
		return fault.New(fault.InvalidInput, "The input, including the values of connections, is invalid: %s.", refusal.Message)
	}
	return nil
}

// triggered outputs the input of the run and the time of its trigger.
func (a *Advance) triggered(t *Stage) error {
	if a.Input.Err != nil {
		return a.Input.Err
	}
	t.Secret = a.Input.Secret
	fields := map[string]json.RawMessage{}
	if err := copyInput(t.Component.Module, a.Run.Trigger, fields, a.Input.JSON); err != nil {
		return err
	}
	fields["triggeredAt"] = json.RawMessage(`"` + timestamp.Of(a.Run.CreatedAt).String() + `"`)
	if t.Component.Module == component.OnSchedule && fields["scheduledAt"] == nil { // the run was started by a request, not by a schedule
		fields["scheduledAt"] = fields["triggeredAt"]
	}
	output, err := strictjson.Encode(fields)
	if err != nil {
		return fmt.Errorf("encode the trigger's output: %w", err)
	}
	t.Status, t.Output, t.Port = status.StageCompleted, output, graph.PortNext // no size limit: the input was accepted
	a.addStage(t)
	return nil
}

// copyInput copies the run's input into the output of its trigger. trigger is what started the run. The
// input of a run that a schedule started consists of the input of the schedule, scheduledAt and previous.
func copyInput(module, trigger string, fields map[string]json.RawMessage, input json.RawMessage) error {
	var values, scheduled map[string]json.RawMessage
	err := json.Unmarshal(input, &values)
	if module == component.OnSchedule && trigger == "SCHEDULE" && err == nil {
		scheduled, input = values, Object(values["input"])
		values = nil
		err = json.Unmarshal(input, &values)
	}
	if err != nil {
		return fmt.Errorf("read the input of the run: %w", err)
	}
	maps.Copy(fields, values)
	if module == component.OnSchedule {
		delete(fields, "previous") // only a schedule has an earlier run
	}
	maps.Copy(fields, scheduled)
	if module != component.OnWebhook {
		fields["input"] = input
	}
	return nil
}

// HideInput returns the output of the trigger of a run, which trigger started, with the hidden places of the input redacted
// (see component.SecretPaths). It keeps the time of the trigger. If the output cannot be decoded,
// HideInput redacts all of it.
func HideInput(module, trigger string, output, input json.RawMessage, hidden []string) json.RawMessage {
	nothing := json.RawMessage(`"` + component.Redacted + `"`)
	var fields map[string]json.RawMessage
	if json.Unmarshal(output, &fields) != nil || fields == nil {
		return nothing
	}
	triggeredAt := fields["triggeredAt"]
	if copyInput(module, trigger, fields, component.Redact(input, hidden)) != nil {
		return nothing
	}
	fields["triggeredAt"] = triggeredAt
	shown, err := strictjson.Encode(fields)
	if err != nil {
		return nothing
	}
	return shown
}

// evaluate runs a component whose output depends only on its input and config.
func (a *Advance) evaluate(t *Stage) error {
	outcome, err := logic.Evaluate(t.Component.Module, t.input, Object(t.Component.Config), logic.Scope{
		Context: expression.Context{Variables: a.Variables.Values, Value: t.values.get}, Known: a.Plan.Known(t.Component.ID),
	})
	if err != nil {
		a.addStage(t.failed(err))
		return nil
	}
	a.addStage(t.completed(outcome.Output, outcome.Port))
	return nil
}

// forEach starts a loop.
func (a *Advance) forEach(t *Stage) error {
	var in struct {
		Items json.RawMessage `json:"items"`
	}
	var items []json.RawMessage
	_ = json.Unmarshal(t.input, &in)
	switch err := json.Unmarshal(in.Items, &items); {
	case err != nil || !bytes.HasPrefix(bytes.TrimSpace(in.Items), []byte("[")):
		a.addStage(t.failed(component.Permanent(component.CodeInvalidInput, "items is not an array")))
		return nil
	case len(items) > MaxItems:
		a.addStage(t.failed(component.Permanent(component.CodeInvalidInput, "items has %d entries; at most %d are allowed", len(items), MaxItems)))
		return nil
	}
	stored, err := a.storedItems(t, in.Items)
	if err != nil {
		return err
	}
	a.startLoop(t, int32(len(items)), stored, items)
	return nil
}

// startLoop starts a loop over items, of which stored is the stored form. most is the number of iterations.
func (a *Advance) startLoop(t *Stage, most int32, stored json.RawMessage, items []json.RawMessage) {
	_, module := a.Plan.Component(t.Component.ID)
	l := &loop{StoredLoop: StoredLoop{ID: t.ID, ComponentID: t.Component.ID, Iteration: t.Iteration, ItemCount: most}, stage: t, repeats: module.Repeats}
	l.configure(t.Component.Config)
	t.Status, t.Items, t.Loop = status.StageRunning, stored, &l.StoredLoop
	a.lists[t.ID] = Items{items, t.Secret}
	a.loops[PlaceOf(t.Component.ID, t.Iteration)] = l
	a.addStage(t)
	a.fill(l)
}

// pause waits for a duration or until a time.
func (a *Advance) pause(t *Stage) error {
	due, err := logic.Due(t.Component.Module, t.input, Object(t.Component.Config), a.Run.Now)
	if err != nil {
		a.addStage(t.failed(err))
		return nil
	}
	a.wait(t, due.Sub(a.Run.Now))
	return nil
}

// wait sets the timer of a stage. A time in the past is due immediately.
func (a *Advance) wait(t *Stage, after time.Duration) {
	t.Status, t.Wake = status.StageRunning, max(after, time.Millisecond)
	a.addStage(t)
}

// waitForSignal waits for a signal until its timeout. The signal may already have arrived.
func (a *Advance) waitForSignal(t *Stage) error {
	var config struct {
		Name      string `json:"name"`
		TimeoutMs int64  `json:"timeoutMs"`
	}
	_ = json.Unmarshal(t.Component.Config, &config)
	if a.Variables.Hidden.In(config.Name) || component.NewRedactor(t.secrets...).In(config.Name) {
		a.addStage(t.failed(component.Permanent(component.CodeInvalidInput, "the name of a signal must not contain a secret, because it is shown")))
		return nil
	}
	t.Signal = config.Name
	a.wait(t, time.Duration(config.TimeoutMs)*time.Millisecond)
	a.More = true // the next advance checks whether the signal has arrived
	return nil
}

// respond sets the output of the run. If several stages respond, the last output counts.
func (a *Advance) respond(t *Stage) error {
	a.addStage(t.completed(t.input, graph.PortNext))
	if t.Status != status.StageCompleted {
		return nil
	}
	a.Run.Output, a.Run.SecretOutput = t.input, t.Secret
	return nil
}

// failOnPurpose fails the stage with the code and message of the config.
func (a *Advance) failOnPurpose(t *Stage) error {
	config := struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{logic.FailCode, logic.FailMessage}
	_ = json.Unmarshal(Object(t.Component.Config), &config)
	// Secrets are redacted from an error's message, but not from its code.
	if written, _ := a.Plan.Component(t.Component.ID); a.namesSecret(written) && a.Variables.Hidden.In(config.Code) {
		a.addStage(t.failed(component.Permanent(component.CodeInvalidInput, "the code of an error must not contain a secret environment variable, because it is shown")))
		return nil
	}
	a.addStage(t.failed(&component.Error{Code: config.Code, Message: config.Message}))
	return nil
}

// SecretSignal reports whether the payload of a signal is secret. It is secret if a
// WAIT_FOR_SIGNAL with that name marks it as secret. It is also secret if a WAIT_FOR_SIGNAL that
// marks its payload has an environment variable in its name, because only a run can resolve the
// name.
func SecretSignal(plan *graph.Plan, name string) bool {
	return slices.ContainsFunc(plan.Components(), func(c graph.Component) bool {
		if c.Module != component.WaitForSignal {
			return false
		}
		var config map[string]json.RawMessage
		var waits string
		_ = json.Unmarshal(c.Config, &config)
		_ = json.Unmarshal(config["name"], &waits)
		secret := string(config["secret"])
		return secret != "" && secret != "false" && (waits == name || reference.In(waits))
	})
}
