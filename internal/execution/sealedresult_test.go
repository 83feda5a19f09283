package execution_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
)

// withSecret is a component with a secret input field.
type withSecret struct{ module }

func (m withSecret) Describe() component.Descriptor {
	d := m.module.Describe()
	d.Input = json.RawMessage(`{"type":"object","properties":{"token":{"type":"string","x-secret":true}},"additionalProperties":true}`)
	return d
}

// row returns the stored row of an execution, whether its state and its output are sealed, and the
// number of output keys.
func (b *bench) row(t *testing.T, id uuid.UUID) (row string, sealedState, sealedOutput bool, keys int) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `SELECT e::text, COALESCE(json_typeof(wait_state) = 'string', false), COALESCE(json_typeof(output) = 'string', false),
		(SELECT count(*) FROM output_keys) FROM component_executions e WHERE id = $1`, id).Scan(&row, &sealedState, &sealedOutput, &keys)
	if err != nil {
		t.Fatal(err)
	}
	return row, sealedState, sealedOutput, keys
}

// A result that contains a secret input is stored sealed, both while the execution waits and when
// it has finished. This holds in every process that continues the execution. Callers receive the
// result unsealed.
func TestMT05AResultThatContainsASecretInputIsSealed(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry-that-comes-back"
	b := newBench(t)
	looking, done := make(chan string, 10), make(chan struct{})
	echoes := withSecret{module{name: "ECHOES", price: 1, repeat: component.RepeatIdempotent, timeout: time.Minute,
		run: func(ctx context.Context, call component.Call) (component.Result, error) {
			if call.State == nil {
				return component.Result{Wait: &component.Wait{After: time.Millisecond, State: call.Input}}, nil
			}
			looking <- string(call.State)
			select {
			case <-ctx.Done():
				return component.Result{}, ctx.Err()
			case <-done:
				return component.Result{Output: call.State}, nil
			}
		}}}
	const input = `{"token":"` + canary + `","kind":"application/json"}`
	n := b.start(t, options{workers: 4}, echoes)
	id := b.submit(t, n, execution.SubmitParams{Module: "ECHOES", Input: json.RawMessage(input)}).ID
	for range 2 { // first in one process, then in a second one
		if got := <-looking; got != input {
			t.Errorf("it continues with %s", got)
		}
		row, sealed, _, _ := b.row(t, id)
		if strings.Contains(row, canary) || !sealed {
			t.Errorf("while it waits the row is %s", row)
		}
		n.stop()
		n = b.start(t, options{workers: 4}, echoes)
	}
	<-looking
	close(done)
	if got := b.await(t, n, id); got.Status != status.ExecutionCompleted || string(got.Output) != input {
		t.Errorf("it ended %s with %s", got.Status, got.Output)
	}
	if row, _, sealed, _ := b.row(t, id); strings.Contains(row, canary) || !sealed {
		t.Errorf("the row is %s", row)
	}
}

// A result without a secret is stored unsealed, and creates no key.
func TestAResultWithoutASecretIsNotSealed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const state = `{"kind":"application/json"}`
	looked := make(chan struct{}, 1)
	waits := withSecret{module{name: "WAITS", price: 1, repeat: component.RepeatIdempotent, timeout: time.Minute,
		run: func(_ context.Context, call component.Call) (component.Result, error) {
			if call.State == nil {
				return component.Result{Wait: &component.Wait{After: time.Millisecond, State: json.RawMessage(state)}}, nil
			}
			<-looked
			return component.Result{Output: call.State}, nil
		}}}
	n := b.start(t, options{slots: 2, workers: 2}, waits)
	id := b.submit(t, n, execution.SubmitParams{Module: "WAITS", Input: json.RawMessage(`{"token":"c4n4ry-that-stays","kind":"application/json"}`)}).ID
	looked <- struct{}{}
	if got := b.await(t, n, id); string(got.Output) != state {
		t.Errorf("it ended %s with %s", got.Status, got.Output)
	}
	if row, _, sealed, keys := b.row(t, id); sealed || keys != 0 || strings.Contains(row, "c4n4ry") {
		t.Errorf("there are %d keys, and the row is %s", keys, row)
	}
}
