package orchestrator

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// acceptance admits and accepts stages, like Acceptance.AcceptTx.
type acceptance func(ctx context.Context, tx *postgres.Tx, stages []execution.Stage) (refusals []error, err error)

// executions returns the new stages that are executions.
func (a *advance) executions() (stages []*engine.Stage) {
	for _, t := range a.Stages {
		if t.Execution != nil {
			stages = append(stages, t)
		}
	}
	return stages
}

// accept accepts the executions of new stages. If the credits do not admit a stage, accept drops
// the stage and the run fails (decisions 7.4).
func (a *advance) accept(stages []*engine.Stage, how acceptance) error {
	executions := make([]execution.Stage, len(stages))
	for i, t := range stages {
		executions[i] = execution.Stage{
			WorkspaceID: a.row.WorkspaceID, RunID: a.row.ID, ExecutionID: t.Execution.ID, EffectKey: t.Execution.EffectKey,
			Module: t.Component.Module, Input: t.Execution.Input, Config: t.Execution.Config, Attempts: t.Execution.Attempts,
			Timeout: t.Execution.Timeout, Reserve: t.Execution.Reserve, Secrets: t.Execution.Secrets, Secret: t.Secret, Nested: a.row.ParentRunID != nil,
			At: a.unlessFirst(a.At),
		}
		if a.row.Traceparent != nil {
			executions[i].Traceparent = *a.row.Traceparent
		}
	}
	refusals, err := how(a.ctx, a.tx, executions)
	if err != nil {
		return fmt.Errorf("accept stages: %w", err)
	}
	dropped := false
	for i, refusal := range refusals {
		if refusal != nil {
			dropped = true
			a.Drop(stages[i], withCode(refusal))
		}
	}
	if !dropped {
		return nil
	}
	return a.decide(maxTime) // the run is ending, so this starts nothing
}

// withCode returns a refusal with the code of a run or stage that fails because of it.
func withCode(why error) error {
	refusal, ok := errors.AsType[*fault.Error](why)
	if !ok || refusal.Reason != billing.ReasonStorage {
		return why
	}
	return component.Permanent(engine.CodeStorage, "%s", refusal.Message).With(map[string]any{"reason": refusal.Reason})
}

// codeOf returns the error code of a run that fails because of a refusal.
func codeOf(refusal *fault.Error) string {
	if refusal.Reason == billing.ReasonStorage {
		return engine.CodeStorage
	}
	return string(refusal.Code)
}
