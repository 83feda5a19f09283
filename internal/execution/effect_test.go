package execution_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
)

// If an execution is not a stage, its ID is the effect key of all its attempts and checks.
func TestTheEffectKeyOfAnExecutionIsItsID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	keys := make(chan uuid.UUID, 10)
	looks := module{name: "LOOKS", price: 1, repeat: component.RepeatIdempotent, timeout: time.Minute, run: func(_ context.Context, call component.Call) (component.Result, error) {
		keys <- call.EffectKey
		if call.State == nil {
			return component.Result{Wait: &component.Wait{After: time.Millisecond, State: json.RawMessage(`1`)}}, nil
		}
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}}
	n := b.start(t, options{slots: 2, workers: 2}, looks)
	id := b.submit(t, n, execution.SubmitParams{Module: "LOOKS", Input: json.RawMessage(`{}`)}).ID
	for n := range 2 {
		if key := <-keys; key != id {
			t.Errorf("call %d had the key %s, want %s", n+1, key, id)
		}
	}
}
