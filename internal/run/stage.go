package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/graph"
	"github.com/weft-automation/weft/internal/status"
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
}

// begin makes the stage of a component that is ready.
func (f *fold) begin(sc *scope, componentID string) error {
	if f.run.StageCount >= maxStages {
		f.failWith("LIMIT_EXCEEDED", fmt.Sprintf("A run has at most %d stages.", maxStages))
		return nil
	}
	c, _ := f.plan.Component(componentID)
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make stage id: %w", err)
	}
	t := &stage{id: id, component: c, iteration: sc.iteration, status: status.StageCreated}
	input, err := f.bind(sc, c)
	if refusal, ok := errors.AsType[*graph.BindError](err); ok {
		f.put(sc, t.failed(failure("INVALID_INPUT", refusal.Error(), nil)))
		return nil
	}
	if err != nil {
		return err
	}
	make, control := controls[c.Module]
	if !control {
		make = (*fold).execute
	}
	return make(f, sc, t, input)
}

// put adds a stage to what this fold makes.
func (f *fold) put(sc *scope, t *stage) {
	f.made = append(f.made, t)
	f.changed = true
	f.run.StageCount++
	switch {
	case !t.status.Terminal():
		f.run.PendingCount++
	case t.status == status.StageFailed:
		f.run.FailedCount++
		f.failures[at(t.component.ID, t.iteration)] = failed{t.id, t.failure}
	case t.status == status.StageCompleted:
		f.values[at(t.component.ID, t.iteration)] = t.output
		f.run.OutputBytes += int64(len(t.output))
	}
	f.set(sc, t.component.ID, graph.State{Status: t.status, Port: t.port})
}

func (t *stage) failed(why json.RawMessage) *stage {
	t.status, t.failure = status.StageFailed, why
	return t
}

func (t *stage) completed(output json.RawMessage, port string) *stage {
	if len(output) > maxStageValue {
		return t.failed(failure("OUTPUT_TOO_LARGE", "the output is larger than 1 MiB", nil))
	}
	t.status, t.output, t.port = status.StageCompleted, output, cmp.Or(port, graph.PortNext)
	return t
}

// execute has a component executed.
func (f *fold) execute(sc *scope, t *stage, input json.RawMessage) error {
	s := f.service
	config := object(t.component.Config)
	if err := s.Executions.CheckStage(t.component.Module, input, config); err != nil {
		f.put(sc, t.failed(refused(err)))
		return nil
	}
	entry, _ := s.Modules.Lookup(t.component.Module)
	if most := f.run.MaxCredits; most != nil && f.run.Committed+entry.Price > *most {
		f.failWith(string(fault.InsufficientCredits), fmt.Sprintf("The next stage would make this run cost more than its maxCredits of %s.", *most))
		return nil
	}
	executionID, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make execution id: %w", err)
	}
	t.price = entry.Price
	f.run.Committed += t.price
	more := max(0, f.run.Committed-f.run.Reserved)
	f.run.Reserved += more
	t.execution = &execution.Stage{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ExecutionID: executionID,
		Module: t.component.Module, Input: input, Config: config, Attempts: t.component.Attempts,
		Timeout: time.Duration(t.component.TimeoutMs) * time.Millisecond, Reserve: more,
	}
	if f.run.Traceparent != nil {
		t.execution.Traceparent = *f.run.Traceparent
	}
	f.accepts = append(f.accepts, t)
	f.put(sc, t)
	return nil
}

// accept has the executions of new stages accepted. A stage that the credits do not admit
// is not made, and the run ends (decisions 7.4).
func (f *fold) accept(how *execution.Acceptance) error {
	if len(f.accepts) == 0 {
		return nil
	}
	stages := make([]execution.Stage, len(f.accepts))
	for i, t := range f.accepts {
		stages[i] = *t.execution
	}
	refusals, err := how.AcceptTx(f.ctx, f.tx, stages)
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
	t.dropped = true
	f.run.StageCount--
	f.run.PendingCount--
	f.run.Committed -= t.price
	f.run.Reserved -= t.execution.Reserve
	sc := f.scopeOf(t.component.ID, t.iteration)
	delete(f.states, at(t.component.ID, t.iteration))
	delete(sc.states, t.component.ID)
	f.failFor(sc, t.component.ID, failed{why: refused(why)})
	f.touch(sc)
}

func object(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || string(text) == "null" {
		return json.RawMessage(`{}`)
	}
	return text
}
