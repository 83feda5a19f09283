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
	"github.com/weft-automation/weft/internal/secret/vault"
)

// stage is one that this fold makes.
type stage struct {
	id        uuid.UUID
	component graph.Component
	iteration []int32
	status    status.Stage
	port      string
	output    json.RawMessage
	failure   json.RawMessage

	execution *execution.Stage // that it is
	price     credit.Amount
	loop      *loop
	items     json.RawMessage // of the loop
	wake      time.Duration   // after which it goes on; 0: no timer
	signal    string          // that it waits for
	child     uuid.UUID       // the run that it waits for
	dropped   bool            // it was not made after all

	secret  bool     // what it gives is sealed: it took something secret
	secrets []string // what it took of that, for its error
}

// begin makes the stage of a component that is ready.
func (f *fold) begin(sc *scope, componentID string) error {
	if f.run.StorageFull {
		f.failWith(codeStorage, "The workspace has stored as much as its plan allows in a month.")
		return nil
	}
	if !f.run.Solvent && f.run.Reserved <= f.run.Committed && f.own.Plus(f.others).Fee() > 0 {
		f.failWith(string(fault.InsufficientCredits), "The next stage costs a storage fee, and the workspace has no credits left.")
		return nil
	}
	if int64(f.run.StageCount)+f.others.Stages >= MaxStages {
		f.failWith("LIMIT_EXCEEDED", fmt.Sprintf("A run and the runs below it have at most %d stages.", MaxStages))
		return nil
	}
	written, _ := f.plan.Component(componentID)
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make stage id: %w", err)
	}
	t := &stage{id: id, component: written, iteration: sc.iteration, status: status.StageCreated}
	input, err := f.input(sc, t)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Code != fault.Unavailable {
		f.put(sc, t.failed(refusal))
		return nil
	}
	if err != nil {
		return err
	}
	begin, control := controls[written.Module]
	if !control {
		begin = (*fold).execute
	}
	if err := begin(f, sc, t, input); err != nil || !t.secret {
		return err
	}
	return f.secure(t)
}

// secure seals what a stage that took something secret has given, or runs through. Of a loop
// the output is but numbers.
func (f *fold) secure(t *stage) (err error) {
	if len(t.output) > 0 && t.loop == nil {
		if t.output, err = f.engine.Vault.SealJSON(f.ctx, f.place(t.id, vault.Output), t.output); err != nil {
			return err
		}
	}
	if len(t.items) > 0 {
		t.items, err = f.engine.Vault.SealJSON(f.ctx, f.place(t.id, vault.Items), t.items)
	}
	return err
}

// namesSecret reports whether a component names a variable that is secret where it does not
// mark what it takes as secret: what it gives may tell it. One that is executed, and marks
// it, says itself what of its output is secret.
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

// hide takes the run's secrets, and what the stage took of others, out of what its error
// tells: its code and the names of its members stay what they are.
func (f *fold) hide(t *stage) json.RawMessage {
	env, err := f.environment()
	if err != nil {
		return failure(component.Permanent(component.CodeInternal, "the environment variables of the run cannot be opened"))
	}
	hidden := env.hidden
	if len(t.secrets) > 0 {
		hidden = component.NewRedactor(slices.Concat(env.Secrets, t.secrets)...)
	}
	var why api.ExecutionError
	err = json.Unmarshal(t.failure, &why)
	if why.Message = hidden.Text(why.Message); hidden.Whole() {
		why.Details = nil
	}
	var shown json.RawMessage
	if err == nil {
		why.Details = hidden.JSON(why.Details)
		shown, err = present.ExecutionError(why)
	}
	if err != nil {
		return failure(component.Permanent(component.CodeInternal, component.Redacted))
	}
	return shown
}

// place is where something of the run is sealed for.
func (f *fold) place(row uuid.UUID, field vault.Field) vault.Place {
	return vault.Place{WorkspaceID: f.run.WorkspaceID, Row: row, Field: field}
}

// input is what a stage takes, whose component it gives its variables. A *fault.Error says
// what does not fit.
func (f *fold) input(sc *scope, t *stage) (json.RawMessage, error) {
	written := t.component
	var err error
	if t.component, err = f.resolved(written); err != nil {
		return nil, err
	}
	input, err := f.bind(sc, t.component)
	t.secret, t.secrets = f.binding.secret || f.namesSecret(written), f.binding.texts
	if refusal, ok := errors.AsType[*graph.BindError](err); ok {
		return nil, fault.New(fault.InvalidInput, "%s", refusal.Error())
	}
	if err != nil {
		return nil, err
	}
	return input, f.fits(written, t, input)
}

// put adds a stage to what this fold makes.
func (f *fold) put(sc *scope, t *stage) {
	f.made, f.changed = append(f.made, t), true
	f.bytes += int64(len(t.output) + len(t.items))
	if t.execution != nil {
		f.bytes += int64(len(t.execution.Input) + len(t.execution.Config))
	}
	f.run.StageCount++
	switch {
	case !t.status.Terminal():
		f.run.PendingCount++
	case t.status == status.StageFailed:
		f.run.FailedCount++
		t.failure = f.hide(t)
		f.failures[at(t.component.ID, t.iteration)] = failed{t.id, t.failure}
	case t.status == status.StageCompleted:
		f.values[at(t.component.ID, t.iteration)] = given{t.output, t.secret}
		f.gave(int64(len(t.output)))
	}
	f.set(sc, t.component.ID, graph.State{Status: t.status, Port: t.port})
	f.gave(int64(len(t.items))) // a loop in a loop may keep as many again
}

func (t *stage) failed(why error) *stage {
	t.status, t.failure = status.StageFailed, failure(why)
	return t
}

func (t *stage) completed(output json.RawMessage, port string) *stage {
	if len(output) > maxStageValue {
		return t.failed(component.Permanent(component.CodeOutputTooLarge, "the output has %d bytes; at most %d are allowed", len(output), maxStageValue))
	}
	t.status, t.output, t.port = status.StageCompleted, output, cmp.Or(port, graph.PortNext)
	return t
}

// execute has a component executed.
func (f *fold) execute(sc *scope, t *stage, input json.RawMessage) error {
	e := f.engine
	config := Object(t.component.Config)
	env, err := f.environment()
	if err != nil {
		return err
	}
	secrets := slices.Concat(env.Secrets, t.secrets)
	if err := e.Executions.CheckStage(t.component.Module, input, config, secrets...); err != nil {
		f.put(sc, t.failed(err))
		return nil
	}
	entry, _ := e.Modules.Lookup(t.component.Module)
	if most, err := f.beyond(entry.Price); err != nil || most != nil {
		if err == nil {
			f.failWith(string(fault.InsufficientCredits), fmt.Sprintf("The next stage would make this run, or one above it, cost more than its maxCredits of %s.", *most))
		}
		return err
	}
	executionID, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make execution id: %w", err)
	}
	effectKey, err := f.effectKey(t, input, config)
	if err != nil {
		return err
	}
	t.price = entry.Price
	f.run.Committed += t.price
	f.spent += t.price
	more := max(0, f.run.Committed-f.run.Reserved)
	f.run.Reserved += more
	t.execution = &execution.Stage{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ExecutionID: executionID, EffectKey: effectKey,
		Module: t.component.Module, Input: input, Config: config, Attempts: t.component.Attempts,
		Timeout: time.Duration(t.component.TimeoutMs) * time.Millisecond, Reserve: more, Secrets: secrets, Secret: t.secret, Nested: f.run.ParentRunID != nil, At: f.unlessFirst(f.stamp),
	}
	if f.run.Traceparent != nil {
		t.execution.Traceparent = *f.run.Traceparent
	}
	f.accepts = append(f.accepts, t)
	f.put(sc, t)
	return nil
}

// acceptance is a way to accept stages, as Acceptance.AcceptTx is.
type acceptance func(ctx context.Context, tx *postgres.Tx, stages []execution.Stage) (refusals []error, err error)

// accept has the executions of new stages accepted. A stage that the credits do not admit
// is not made, and the run ends (decisions 7.4).
func (f *fold) accept(how acceptance) error {
	stages := make([]execution.Stage, len(f.accepts))
	for i, t := range f.accepts {
		stages[i] = *t.execution
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

// drop takes back a stage that this fold was to make.
func (f *fold) drop(t *stage, why error) {
	t.dropped, f.dropped = true, true
	f.run.StageCount--
	f.run.PendingCount--
	f.run.Committed -= t.price
	f.spent -= t.price
	f.run.Reserved -= t.execution.Reserve
	sc := f.scopeOf(t.component.ID, t.iteration)
	delete(f.states, at(t.component.ID, t.iteration))
	delete(sc.states, t.component.ID)
	f.failFor(t.component.ID, failed{why: failure(why)})
	f.touch(sc)
}

// Object is a JSON object that may be absent, `{}` then.
func Object(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || string(text) == "null" {
		return json.RawMessage(`{}`)
	}
	return text
}

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
func (f *fold) failFor(componentID string, of failed) {
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

// codeOf returns the code of a stage or a run that fails for a refusal.
func codeOf(refusal *fault.Error) string {
	if refusal.Reason == billing.ReasonStorage {
		return codeStorage
	}
	return string(refusal.Code)
}

// failure is why a stage failed, in the form of its error (decisions 3).
func failure(why error) json.RawMessage {
	e := component.Permanent(component.CodeInternal, "the stage could not be made")
	if said, ok := errors.AsType[*component.Error](why); ok {
		e = said
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
	if err != nil { // its details are no JSON
		shown.Details = nil
		encoded, _ = present.ExecutionError(shown)
	}
	return encoded
}
