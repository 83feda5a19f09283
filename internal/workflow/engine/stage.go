package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/uuid7"
)

// Stage is a new stage of an advance.
type Stage struct {
	ID        uuid.UUID
	Component graph.Component // with the values of variables
	Iteration []int32
	Status    status.Stage
	Port      string
	Output    json.RawMessage
	Failure   json.RawMessage
	Execution *Execution    // nil if the engine itself runs the stage
	Usage     credit.Amount // of a computed stage
	Elapsed   time.Duration // how long the module of a computed stage took; 0: not computed
	Loop      *StoredLoop   // of a loop
	Items     json.RawMessage
	Wake      time.Duration // delay of its timer; 0: no timer
	Signal    string        // name of the signal that it waits for
	Child     uuid.UUID     // child run that it waits for
	Secret    bool          // an input is secret, so its output is sealed when it is stored

	bound
}

// bound holds the data of a stage that has not started.
type bound struct {
	scope   *scope
	input   json.RawMessage
	secrets []string // secret strings of the input, to redact from the stage's error
	values  *values  // to which its component refers
	price   credit.Amount
	refusal error          // why the stage fails instead of starting; nil: it can start
	call    component.Call // of its module; zero if the engine itself runs the stage
	result  *Result        // of the call; nil: unknown
	starts  *Child         // child run to start; nil: unknown
}

// Call returns the call of a stage's module, and the timeout of its component. 0 means that the component
// has none.
func (t *Stage) Call() (c component.Call, timeout time.Duration) {
	return t.call, time.Duration(t.Component.TimeoutMs) * time.Millisecond
}

// Input returns the bound input of a stage, and the secret strings in it.
func (t *Stage) Input() (input json.RawMessage, secrets []string) { return t.input, t.secrets }

// CanWait reports whether the next advance may start the stage instead, because it finds the stage's
// scope.
func (t *Stage) CanWait() bool { return t.scope.resumable() }

// Execution is the execution of a stage.
type Execution struct {
	ID        uuid.UUID
	EffectKey uuid.UUID // sent with external effects
	Input     json.RawMessage
	Config    json.RawMessage
	Attempts  int
	Retry     json.RawMessage // a policy, instead of Attempts; nil: none
	Timeout   time.Duration
	Reserve   credit.Amount // credits that the run reserves for it
	Secrets   []string
	Tokens    map[string]string // marks in the input and the config that stand for access tokens, by variable
}

// answered reports whether what a bound stage waited for is known.
func (t *Stage) answered() bool { return t.result != nil || t.starts != nil }

// start creates the stage of a ready component, and reports whether it did: otherwise, the advance needs
// to know more. If the component's input is invalid, the stage fails. If the limits of the workspace or
// the run allow no further stage, the run fails instead.
func (a *Advance) start(sc *scope, componentID string) (started bool, err error) {
	switch {
	case a.Run.StorageFull:
		a.FailWith(CodeStorage, "The workspace has reached the storage limit of its plan for this month.")
		return true, nil
	case !a.Run.Solvent && a.Run.Reserved <= a.Run.Committed && a.Own.Plus(a.Others).Fee() > 0:
		a.FailWith(string(fault.InsufficientCredits), "The next stage costs a storage fee, and the workspace has no credits left.")
		return true, nil
	case int64(a.Run.StageCount)+a.Others.Stages >= MaxStages:
		a.FailWith("LIMIT_EXCEEDED", fmt.Sprintf("A run and the runs below it can have at most %d stages.", MaxStages))
		return true, nil
	case !a.knowsSources(sc, componentID):
		return false, nil
	}
	a.started++
	p := PlaceOf(componentID, sc.iteration)
	t := a.bound[p]
	if t == nil {
		if t, err = a.bindStage(sc, componentID); err != nil {
			return false, err
		}
	}
	if !a.knowsAnswers(t) {
		a.bound[p] = t
		return false, nil
	}
	delete(a.bound, p)
	if t.refusal != nil {
		a.addStage(t.failed(t.refusal))
		return true, nil
	}
	run, control := controls[t.Component.Module]
	if !control {
		run = (*Advance).call
	}
	return true, run(a, t)
}

// bindStage returns the stage of a component with its input. If the input is invalid, it sets the
// stage's refusal.
func (a *Advance) bindStage(sc *scope, componentID string) (*Stage, error) {
	written, _ := a.Plan.Component(componentID)
	id, err := uuid7.New()
	if err != nil {
		return nil, fmt.Errorf("make stage id: %w", err)
	}
	t := &Stage{ID: id, Component: written, Iteration: sc.iteration, Status: status.StageCreated, bound: bound{scope: sc}}
	t.input, err = a.boundInput(sc, t)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Code != fault.Unavailable {
		t.refusal, err = refusal, nil
	}
	if _, control := controls[written.Module]; err != nil || t.refusal != nil || control {
		return t, err
	}
	if a.Variables.Err != nil {
		return nil, a.Variables.Err
	}
	t.call = component.Call{ExecutionID: t.ID, EffectKey: t.ID, Attempt: 1, Input: t.input, Config: Object(t.Component.Config), Secrets: slices.Concat(a.Variables.Secrets, t.secrets)}
	if t.refusal = a.modules.CheckMode(t.Component.Module, component.ModeWorkflow); t.refusal == nil {
		t.refusal = a.modules.Check(t.Component.Module, t.call.Input, t.call.Config, t.call.Secrets...)
	}
	return t, nil
}

// boundInput resolves the variables of the stage's component and returns the bound input. It returns a
// *fault.Error if the input is invalid.
func (a *Advance) boundInput(sc *scope, t *Stage) (json.RawMessage, error) {
	written := t.Component
	var from binding
	err := a.fillReferences(sc, t, written, &from)
	t.Secret, t.secrets = from.secret || a.namesSecret(written), from.texts
	if err != nil {
		return nil, err
	}
	input, connected, err := a.bind(sc, t.Component)
	t.Secret, t.secrets = t.Secret || connected.secret, append(t.secrets, connected.texts...)
	if refusal, ok := errors.AsType[*graph.BindError](err); ok {
		return nil, fault.New(fault.InvalidInput, "%s", refusal.Error())
	}
	if err != nil {
		return nil, err
	}
	return input, a.checkInput(written, t, input)
}

// addStage adds a stage to the changes of this advance.
func (a *Advance) addStage(t *Stage) {
	a.Stages, a.Changed = append(a.Stages, t), true
	a.bytes += int64(len(t.Output) + len(t.Items))
	if t.Execution != nil {
		a.bytes += int64(len(t.Execution.Input) + len(t.Execution.Config))
	}
	a.Run.StageCount++
	if t.Status == status.StageFailed {
		t.Failure = a.redactFailure(t.Failure, t.secrets)
	}
	if t.Status.Terminal() {
		bytes := int64(len(t.Output))
		if t.Component.Module == component.Continue { // of the states of a loop, only the last counts
			a.StateBytes, bytes = a.StateBytes+bytes, 0
		}
		a.finished(End{
			ID: t.ID, ComponentID: t.Component.ID, Iteration: t.Iteration, Status: t.Status, Port: t.Port,
			Output: t.Output, Secret: t.Secret, Failure: t.Failure, Usage: t.Usage, Bytes: bytes,
		})
	} else {
		a.Run.PendingCount++
		a.setState(t.scope, t.Component.ID, graph.State{Status: t.Status, Port: t.Port})
	}
	a.countOutput(int64(len(t.Items))) // items are stored in addition to the output from which they come
}

// failed sets the result of a stage to a failure and returns the stage.
func (t *Stage) failed(why error) *Stage {
	t.Status, t.Failure = status.StageFailed, encodeFailure(why)
	return t
}

// completed sets the result of a stage to an output and returns the stage. If the output is too
// large, the stage fails. The default port is `next`.
func (t *Stage) completed(output json.RawMessage, port string) *Stage {
	if len(output) > maxStageValue {
		return t.failed(component.Permanent(component.CodeOutputTooLarge, "the output has %d bytes; at most %d are allowed", len(output), maxStageValue))
	}
	t.Status, t.Output, t.Port = status.StageCompleted, output, cmp.Or(port, graph.PortNext)
	return t
}

// call finishes a stage with the result of its module if the result is known, and otherwise creates an
// execution.
func (a *Advance) call(t *Stage) error {
	entry, _ := a.modules.Lookup(t.Component.Module)
	if most := a.exceeded(entry.Price); most != nil {
		a.FailWith(string(fault.InsufficientCredits), fmt.Sprintf("The next stage would make this run, or one above it, cost more than its maxCredits of %s.", *most))
		return nil
	}
	if a.uncovered(entry.Price) > 0 {
		a.failFor(t.Component.ID, uuid.Nil, encodeFailure(a.refusal))
		return nil
	}
	t.price = entry.Price
	more := max(0, a.Run.Committed+t.price-a.Run.Reserved)
	a.Budget.Left -= more
	if !a.setResult(t, entry, more) {
		if err := a.execute(t, more); err != nil {
			return err
		}
	}
	a.Run.Committed += t.price
	a.Spent += t.price
	a.Run.Reserved += more
	a.addStage(t)
	return nil
}

// execute creates the execution of a stage. reserve is what the run reserves for it.
func (a *Advance) execute(t *Stage, reserve credit.Amount) error {
	executionID, err := uuid7.New()
	if err != nil {
		return fmt.Errorf("make execution id: %w", err)
	}
	input, config := a.neutralBinding(t.scope, t)
	effectKey, err := a.EffectID(t, a.Variables.unmarked(input), a.Variables.unmarked(config))
	if err != nil {
		return err
	}
	t.Execution = &Execution{
		ID: executionID, EffectKey: effectKey, Input: t.call.Input, Config: t.call.Config, Attempts: t.Component.Attempts, Retry: t.Component.Retry,
		Timeout: time.Duration(t.Component.TimeoutMs) * time.Millisecond, Reserve: reserve, Secrets: t.call.Secrets,
		Tokens: a.Variables.marked(t.call.Input, t.call.Config),
	}
	return nil
}

// Object returns a JSON object. If text is missing or null, it returns `{}`.
func Object(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || string(text) == "null" {
		return json.RawMessage(`{}`)
	}
	return text
}

// valueOf decodes JSON, so that values can be compared regardless of white space and the order of
// fields.
func valueOf(text json.RawMessage) (value any, err error) {
	if value, err = strictjson.Decode(text); err != nil {
		return nil, errors.New("decode the input or config of a stage: invalid JSON") // the decoder's error may contain a secret
	}
	return value, nil
}

// SameValue reports whether two JSON texts have the same value.
func SameValue(a, b json.RawMessage) (bool, error) {
	first, err := valueOf(a)
	if err != nil {
		return false, err
	}
	second, err := valueOf(b)
	return reflect.DeepEqual(first, second), err
}

// EffectID derives a UUID from the first run in a series of reruns, the component and iteration of the
// stage, and the values of JSON texts. With the input and config, it is the key that an execution sends
// with its external effects, such as the Idempotency-Key of API_CALL. So a rerun sends the same key.
func (a *Advance) EffectID(t *Stage, texts ...json.RawMessage) (uuid.UUID, error) {
	parts := []any{t.Component.ID, t.Iteration}
	for _, text := range texts {
		value, err := valueOf(text)
		if err != nil {
			return uuid.Nil, err
		}
		parts = append(parts, value)
	}
	text, err := strictjson.Encode(parts)
	if err != nil {
		return uuid.Nil, fmt.Errorf("encode the place of a stage: %w", err)
	}
	return uuid.NewHash(sha256.New(), a.Run.EffectRoot, text, 8), nil
}
