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

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// controls are the components that the engine itself is: they need no worker.
var controls map[string]func(f *fold, sc *scope, t *stage, input json.RawMessage) error

func init() {
	controls = map[string]func(f *fold, sc *scope, t *stage, input json.RawMessage) error{
		"ON_API_CALLED": (*fold).triggered, "ON_SCHEDULE": (*fold).triggered, "ON_WEBHOOK": (*fold).triggered,
		"FOR_EACH": (*fold).forEach,
		"IF":       (*fold).evaluate, "SWITCH": (*fold).evaluate, "TRANSFORM": (*fold).evaluate, "ARRAY_BUILDER": (*fold).evaluate,
		"STRING_CONSTANT": (*fold).evaluate, "NUMBER_CONSTANT": (*fold).evaluate,
		"BOOLEAN_CONSTANT": (*fold).evaluate, "JSON_CONSTANT": (*fold).evaluate,
		"DELAY": (*fold).pause, "WAIT_UNTIL": (*fold).pause, "WAIT_FOR_SIGNAL": (*fold).waitForSignal,
		"RUN_WORKFLOW": (*fold).runWorkflow, "RESPOND": (*fold).respond, "FAIL": (*fold).failOnPurpose,
	}
}

// triggered gives what the run was begun with.
func (f *fold) triggered(sc *scope, t *stage, _ json.RawMessage) error {
	input, hidden, err := OpenInput(f.ctx, f.engine.Vault, f.run.WorkspaceID, f.run.ID, f.run.Input)
	if err != nil {
		return err
	}
	t.secret = len(hidden) > 0
	members := map[string]json.RawMessage{}
	if err := giveInput(t.component.Module, members, input); err != nil {
		return err
	}
	if t.component.Module == "ON_SCHEDULE" && members["scheduledAt"] == nil { // somebody tries it by a request
		if err := setTime(members, "scheduledAt", f.run.CreatedAt); err != nil {
			return err
		}
	}
	if err := setTime(members, "triggeredAt", f.run.CreatedAt); err != nil {
		return err
	}
	output, err := strictjson.Encode(members)
	if err != nil {
		return fmt.Errorf("write the trigger's output: %w", err)
	}
	t.status, t.output, t.port = status.StageCompleted, output, graph.PortNext // however large: it was accepted
	f.put(sc, t)
	return nil
}

// giveInput copies the run's input into the output of its trigger.
func giveInput(module string, members map[string]json.RawMessage, input json.RawMessage) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(input, &given); err != nil {
		return fmt.Errorf("read the input of the run: %w", err)
	}
	maps.Copy(members, given)
	if module == "ON_API_CALLED" {
		members["input"] = input
	}
	return nil
}

// HideInput returns the output of a run's trigger without the places of the input that are
// hidden (component.SecretPaths). The time of the trigger stays in it. It hides the whole
// output if that cannot be read.
func HideInput(module string, output, input json.RawMessage, hidden []string) json.RawMessage {
	nothing := json.RawMessage(`"` + component.Redacted + `"`)
	var members map[string]json.RawMessage
	if json.Unmarshal(output, &members) != nil || members == nil {
		return nothing
	}
	triggeredAt := members["triggeredAt"]
	if giveInput(module, members, component.Redact(input, hidden)) != nil {
		return nothing
	}
	members["triggeredAt"] = triggeredAt
	shown, err := strictjson.Encode(members)
	if err != nil {
		return nothing
	}
	return shown
}

// runInput is the stored form of the input of a run that is secret in places.
type runInput struct {
	Input  json.RawMessage `json:"input"`
	Hidden []string        `json:"hidden"`
}

// SealInput is an input as a run stores it: sealed where some places of it are secret, which
// stay hidden whenever the input is shown (component.SecretPaths). Errors are the vault's.
func SealInput(ctx context.Context, v *vault.Vault, workspaceID, runID uuid.UUID, input json.RawMessage, hidden []string) (json.RawMessage, error) {
	if len(hidden) == 0 {
		return input, nil
	}
	plain, err := strictjson.Encode(runInput{input, hidden})
	if err != nil {
		return nil, fmt.Errorf("write the input of a run: %w", err)
	}
	return v.SealJSON(ctx, vault.Place{WorkspaceID: workspaceID, Row: runID, Field: vault.Input}, plain)
}

// OpenInput is the reverse of SealInput.
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
		return nil, nil, errors.New("read the input of a run") // what is wrong may show some of it
	}
	return opened.Input, opened.Hidden, nil
}

func setTime(members map[string]json.RawMessage, name string, at time.Time) error {
	text, err := json.Marshal(timestamp.Of(at))
	if err != nil {
		return fmt.Errorf("write a time: %w", err)
	}
	members[name] = text
	return nil
}

// evaluate computes what is a function of its input.
func (f *fold) evaluate(sc *scope, t *stage, input json.RawMessage) error {
	outcome, err := logic.Evaluate(t.component.Module, input, Object(t.component.Config))
	if err != nil {
		f.put(sc, t.failed(err))
		return nil
	}
	f.put(sc, t.completed(outcome.Output, outcome.Port))
	return nil
}

// forEach begins a loop.
func (f *fold) forEach(sc *scope, t *stage, input json.RawMessage) error {
	var in struct {
		Items json.RawMessage `json:"items"`
	}
	var items []json.RawMessage
	_ = json.Unmarshal(input, &in)
	switch err := json.Unmarshal(in.Items, &items); {
	case err != nil || !bytes.HasPrefix(bytes.TrimSpace(in.Items), []byte("[")):
		f.put(sc, t.failed(component.Permanent(component.CodeInvalidInput, "items is not an array")))
		return nil
	case len(items) > MaxItems:
		f.put(sc, t.failed(component.Permanent(component.CodeInvalidInput, "items has %d entries; at most %d are allowed", len(items), MaxItems)))
		return nil
	}
	stored, err := f.storedItems(sc, t.component.ID, in.Items)
	if err != nil {
		return err
	}
	t.status, t.items = status.StageRunning, stored
	t.loop = &loop{id: t.id, componentID: t.component.ID, iteration: t.iteration, count: int32(len(items)), stage: t}
	t.loop.configure(t.component.Config)
	f.engine.items.put(f.run.ID, t.id, items, t.secret, len(in.Items))
	f.loops[at(t.component.ID, t.iteration)] = t.loop
	f.put(sc, t)
	return f.fill(t.loop)
}

// pause waits for a while or until a time, and holds nobody.
func (f *fold) pause(sc *scope, t *stage, input json.RawMessage) error {
	due, err := logic.Due(t.component.Module, input, Object(t.component.Config), f.run.Now)
	if err != nil {
		f.put(sc, t.failed(err))
		return nil
	}
	f.wait(sc, t, due.Sub(f.run.Now))
	return nil
}

// wait has a stage go on after a time; at once where that is over.
func (f *fold) wait(sc *scope, t *stage, after time.Duration) {
	t.status, t.wake = status.StageRunning, max(after, time.Millisecond)
	f.put(sc, t)
}

// waitForSignal waits for a signal, which may have come before, or until its time is over.
func (f *fold) waitForSignal(sc *scope, t *stage, _ json.RawMessage) error {
	var config struct {
		Name      string `json:"name"`
		TimeoutMs int64  `json:"timeoutMs"`
	}
	_ = json.Unmarshal(t.component.Config, &config)
	if f.variables.hidden.In(config.Name) {
		f.put(sc, t.failed(component.Permanent(component.CodeInvalidInput, "the name of a signal is not secret, and a secret environment variable stands in it")))
		return nil
	}
	t.signal = config.Name
	f.wait(sc, t, time.Duration(config.TimeoutMs)*time.Millisecond)
	f.more = true // the next fold sees whether it has come
	return nil
}

// respond gives the run its output; the last one counts.
func (f *fold) respond(sc *scope, t *stage, input json.RawMessage) error {
	f.put(sc, t.completed(input, graph.PortNext))
	if t.status != status.StageCompleted {
		return nil
	}
	if f.run.Output = input; t.secret {
		return f.answer(input)
	}
	return nil
}

// answer gives the run an output that is secret.
func (f *fold) answer(output json.RawMessage) (err error) {
	f.run.Output, err = f.engine.Vault.SealJSON(f.ctx, f.place(f.run.ID, vault.Output), output)
	return err
}

// failOnPurpose fails as its config says.
func (f *fold) failOnPurpose(sc *scope, t *stage, _ json.RawMessage) error {
	config := struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{logic.FailCode, logic.FailMessage}
	_ = json.Unmarshal(Object(t.component.Config), &config)
	// An error's code is shown as it is, and a secret is taken out of its message only.
	if written, _ := f.plan.Component(t.component.ID); f.namesSecret(written) && f.variables.hidden.In(config.Code) {
		f.put(sc, t.failed(component.Permanent(component.CodeInvalidInput, "the code of an error is not secret, and a secret environment variable stands in it")))
		return nil
	}
	f.put(sc, t.failed(&component.Error{Code: config.Code, Message: config.Message}))
	return nil
}
