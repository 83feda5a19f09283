package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// stage is a new stage of this fold.
type stage struct {
	id        uuid.UUID
	component graph.Component
	iteration []int32
	scope     *scope
	input     json.RawMessage
	refusal   error          // why the stage fails instead of starting; nil: it can start
	call      component.Call // of its module; zero if the engine itself runs the stage
	result    *result        // of the call; nil: unknown
	starts    *child         // child run to start; nil: unknown
	status    status.Stage
	port      string
	output    json.RawMessage
	failure   json.RawMessage

	execution *execution.Stage // nil if the engine itself runs the stage
	price     credit.Amount
	usage     credit.Amount // credits of a computed stage
	elapsed   time.Duration // how long the module of a computed stage took; 0: not computed
	loop      *loop
	items     json.RawMessage // items of the loop
	wake      time.Duration   // delay of its timer; 0: no timer
	signal    string          // name of the signal that it waits for
	child     uuid.UUID       // child run that it waits for
	dropped   bool            // the stage was not admitted, so it is not written

	secret  bool     // an input is secret, so its output is sealed
	secrets []string // secret strings of its input, to redact from its error
}

// answered reports whether what a bound stage waited for is known.
func (t *stage) answered() bool { return t.result != nil || t.starts != nil }

// start creates the stage of a ready component, and reports whether it did: otherwise, the fold needs
// to know more. If the component's input is invalid, the stage fails. If the limits of the workspace or
// the run allow no further stage, the run fails instead.
func (f *fold) start(sc *scope, componentID string) (started bool, err error) {
	switch {
	case f.run.StorageFull:
		f.failWith(codeStorage, "The workspace has reached the storage limit of its plan for this month.")
		return true, nil
	case !f.run.Solvent && f.run.Reserved <= f.run.Committed && f.own.Plus(f.others).Fee() > 0:
		f.failWith(string(fault.InsufficientCredits), "The next stage costs a storage fee, and the workspace has no credits left.")
		return true, nil
	case int64(f.run.StageCount)+f.others.Stages >= MaxStages:
		f.failWith("LIMIT_EXCEEDED", fmt.Sprintf("A run and the runs below it can have at most %d stages.", MaxStages))
		return true, nil
	case !f.knowsSources(sc, componentID):
		return false, nil
	}
	p := placeOf(componentID, sc.iteration)
	t := f.bound[p]
	if t == nil {
		if t, err = f.bindStage(sc, componentID); err != nil {
			return false, err
		}
	}
	if !f.knowsAnswers(t) {
		f.bound[p] = t
		return false, nil
	}
	delete(f.bound, p)
	if t.refusal != nil {
		f.addStage(sc, t.failed(t.refusal))
		return true, nil
	}
	run, control := controls[t.component.Module]
	if !control {
		run = (*fold).call
	}
	return true, run(f, sc, t, t.input)
}

// bindStage returns the stage of a component with its input. If the input is invalid, it sets the
// stage's refusal.
func (f *fold) bindStage(sc *scope, componentID string) (*stage, error) {
	written, _ := f.plan.Component(componentID)
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make stage id: %w", err)
	}
	t := &stage{id: id, component: written, iteration: sc.iteration, scope: sc, status: status.StageCreated}
	t.input, err = f.input(sc, t)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Code != fault.Unavailable {
		t.refusal, err = refusal, nil
	}
	if _, control := controls[written.Module]; err != nil || t.refusal != nil || control {
		return t, err
	}
	if f.variables.err != nil {
		return nil, f.variables.err
	}
	t.call = component.Call{ExecutionID: t.id, EffectKey: t.id, Attempt: 1, Input: t.input, Config: Object(t.component.Config), Secrets: slices.Concat(f.variables.Secrets, t.secrets)}
	if t.refusal = f.engine.Modules.CheckMode(t.component.Module, component.ModeWorkflow); t.refusal == nil {
		t.refusal = f.engine.Modules.Check(t.component.Module, t.call.Input, t.call.Config, t.call.Secrets...)
	}
	return t, nil
}

// namesSecret reports whether a component refers to a secret variable in a field that its schema
// does not mark as secret. In that case its output may contain the secret. For marked fields, the
// module's output schema says what is secret.
func (f *fold) namesSecret(c graph.Component) bool {
	if len(f.variables.Secrets) == 0 {
		return false
	}
	if entry, known := f.engine.Modules.Lookup(c.Module); known && controls[c.Module] == nil {
		c.Input, c.Config = entry.RedactInput(c.Input), entry.RedactConfig(c.Config)
	}
	return slices.ContainsFunc(envref.Names(c.Input, c.Config), func(name string) bool {
		return slices.Contains(f.variables.Secrets, f.variables.Values[name])
	})
}

// redactFailure returns the error of a stage without the secrets of the run and of the stage's
// input. It does not change the code and the names of fields.
func (f *fold) redactFailure(t *stage) json.RawMessage {
	if f.variables.err != nil {
		return encodeFailure(component.Permanent(component.CodeInternal, "the environment variables of the run cannot be decrypted"))
	}
	hidden := f.variables.hidden
	if len(t.secrets) > 0 {
		hidden = component.NewRedactor(slices.Concat(f.variables.Secrets, t.secrets)...)
	}
	var why api.ExecutionError
	err := json.Unmarshal(t.failure, &why)
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

// input resolves the variables of the stage's component and returns the bound input. It returns a
// *fault.Error if the input is invalid.
func (f *fold) input(sc *scope, t *stage) (json.RawMessage, error) {
	written := t.component
	var err error
	if t.component, err = f.resolve(written); err != nil {
		return nil, err
	}
	input, from, err := f.bind(sc, t.component)
	t.secret, t.secrets = from.secret || f.namesSecret(written), from.texts
	if refusal, ok := errors.AsType[*graph.BindError](err); ok {
		return nil, fault.New(fault.InvalidInput, "%s", refusal.Error())
	}
	if err != nil {
		return nil, err
	}
	return input, f.checkInput(written, t, input)
}

// addStage adds a stage to the changes of this fold.
func (f *fold) addStage(sc *scope, t *stage) {
	f.made, f.changed = append(f.made, t), true
	f.bytes += int64(len(t.output) + len(t.items))
	if t.execution != nil {
		f.bytes += int64(len(t.execution.Input) + len(t.execution.Config))
	}
	f.run.StageCount++
	f.run.Usage += t.usage
	switch {
	case !t.status.Terminal():
		f.run.PendingCount++
	case t.status == status.StageFailed:
		f.run.FailedCount++
		t.failure = f.redactFailure(t)
		f.failures[placeOf(t.component.ID, t.iteration)] = stageFailure{t.id, t.failure}
	case t.status == status.StageCompleted:
		f.values[placeOf(t.component.ID, t.iteration)] = outputValue{t.output, t.secret}
		f.countOutput(int64(len(t.output)))
	}
	f.setState(sc, t.component.ID, graph.State{Status: t.status, Port: t.port})
	f.countOutput(int64(len(t.items))) // items are stored in addition to the output from which they come
}

// failed sets the result of a stage to a failure and returns the stage.
func (t *stage) failed(why error) *stage {
	t.status, t.failure = status.StageFailed, encodeFailure(why)
	return t
}

// completed sets the result of a stage to an output and returns the stage. If the output is too
// large, the stage fails. The default port is `next`.
func (t *stage) completed(output json.RawMessage, port string) *stage {
	if len(output) > maxStageValue {
		return t.failed(component.Permanent(component.CodeOutputTooLarge, "the output has %d bytes; at most %d are allowed", len(output), maxStageValue))
	}
	t.status, t.output, t.port = status.StageCompleted, output, cmp.Or(port, graph.PortNext)
	return t
}

// call finishes a stage with the result of its module if the result is known, and otherwise creates an
// execution.
func (f *fold) call(sc *scope, t *stage, _ json.RawMessage) error {
	entry, _ := f.engine.Modules.Lookup(t.component.Module)
	if most := f.exceeded(entry.Price); most != nil {
		f.failWith(string(fault.InsufficientCredits), fmt.Sprintf("The next stage would make this run, or one above it, cost more than its maxCredits of %s.", *most))
		return nil
	}
	t.price = entry.Price
	more := max(0, f.run.Committed+t.price-f.run.Reserved)
	if !f.setResult(t, entry, more) {
		if err := f.execute(t, t.call, more); err != nil {
			return err
		}
	}
	f.run.Committed += t.price
	f.spent += t.price
	f.run.Reserved += more
	f.addStage(sc, t)
	return nil
}

// execute creates the execution of a stage. reserve is what the run reserves for it.
func (f *fold) execute(t *stage, c component.Call, reserve credit.Amount) error {
	executionID, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make execution id: %w", err)
	}
	effectKey, err := f.effectKey(t, c.Input, c.Config)
	if err != nil {
		return err
	}
	t.execution = &execution.Stage{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ExecutionID: executionID, EffectKey: effectKey,
		Module: t.component.Module, Input: c.Input, Config: c.Config, Attempts: t.component.Attempts,
		Timeout: time.Duration(t.component.TimeoutMs) * time.Millisecond, Reserve: reserve, Secrets: c.Secrets, Secret: t.secret, Nested: f.run.ParentRunID != nil,
	}
	if f.run.Traceparent != nil {
		t.execution.Traceparent = *f.run.Traceparent
	}
	f.accepts = append(f.accepts, t)
	return nil
}

// acceptance admits and accepts stages, like Acceptance.AcceptTx.
type acceptance func(ctx context.Context, tx *postgres.Tx, stages []execution.Stage) (refusals []error, err error)

// accept accepts the executions of new stages. If the credits do not admit a stage, accept drops
// the stage and the run fails (decisions 7.4).
func (f *fold) accept(how acceptance) error {
	stages := make([]execution.Stage, len(f.accepts))
	for i, t := range f.accepts {
		stages[i] = *t.execution
		stages[i].At = f.unlessFirst(f.stamp)
	}
	refusals, err := how(f.ctx, f.tx, stages)
	if err != nil {
		return fmt.Errorf("accept stages: %w", err)
	}
	for i, refusal := range refusals {
		if refusal != nil {
			f.drop(f.accepts[i], refusal)
		}
	}
	return f.advance()
}

// drop removes a stage that was not admitted from the changes of this fold, and fails the run.
func (f *fold) drop(t *stage, why error) {
	t.dropped, f.dropped = true, true
	f.run.StageCount--
	f.run.PendingCount--
	f.run.Committed -= t.price
	f.spent -= t.price
	f.run.Reserved -= t.execution.Reserve
	sc := f.scopeOf(t.component.ID, t.iteration)
	delete(f.states, placeOf(t.component.ID, t.iteration))
	delete(sc.states, t.component.ID)
	f.failFor(t.component.ID, stageFailure{why: encodeFailure(why)})
	f.enqueue(sc)
}

// Object returns a JSON object. If text is missing or null, it returns `{}`.
func Object(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || string(text) == "null" {
		return json.RawMessage(`{}`)
	}
	return text
}

// stageFailure is the error of a failed stage.
type stageFailure struct {
	stage uuid.UUID
	why   json.RawMessage
}

// failWith fails the run for a reason that is not the failure of a stage. The run finishes when
// its running stages have finished.
func (f *fold) failWith(code, message string) {
	f.fail(api.RunError{Code: code, Message: message})
}

// failFor fails the run because a stage failed.
func (f *fold) failFor(componentID string, of stageFailure) {
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

// fail sets the error of the run, unless the run already has an error: the first failure counts.
func (f *fold) fail(why api.RunError) {
	if len(f.run.Error) > 0 {
		return
	}
	encoded, err := strictjson.Encode(why)
	if err != nil { // not expected: a RunError contains only strings
		encoded = json.RawMessage(`{"code":"INTERNAL_ERROR","message":"A stage failed.","retryable":false,"componentId":null,"stageId":null}`)
	}
	f.run.Error, f.changed, f.halted = encoded, true, true
}

// codeOf returns the error code of a stage or a run that fails because of a refusal.
func codeOf(refusal *fault.Error) string {
	if refusal.Reason == billing.ReasonStorage {
		return codeStorage
	}
	return string(refusal.Code)
}

// encodeFailure returns the JSON of a stage's error (decisions 3). It encodes an error that is not
// meant for users as an internal error.
func encodeFailure(why error) json.RawMessage {
	e := component.Permanent(component.CodeInternal, "the stage could not be started")
	if reported, ok := errors.AsType[*component.Error](why); ok {
		e = reported
	} else if refusal, ok := errors.AsType[*fault.Error](why); ok {
		e = component.Permanent(codeOf(refusal), "%s", refusal.Message)
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
