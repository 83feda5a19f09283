package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow"
)

// numbers returns the input schemas of a workflow and its trigger, both of which require numbers.
func numbers(t *testing.T) workflow.Input {
	t.Helper()
	var input workflow.Input
	for range 2 {
		schema, faults := component.NewSchema("", json.RawMessage(`{"type":"object","properties":{"items":{"type":"array","items":{"type":"integer"}}}}`))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		input = append(input, schema)
	}
	return input
}

// wrongItems returns an input with n items that are not numbers.
func wrongItems(n int) json.RawMessage {
	return json.RawMessage(`{"items":[` + strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") + `]}`)
}

func TestInputCheckStopsAfterHundredErrors(t *testing.T) {
	err := numbers(t).Check(t.Context(), "/input", wrongItems(32_000))
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok || len(failure.Details) != fault.MaxDetails || !strings.Contains(failure.Message, "(and more: errors has the first 100)") {
		t.Fatalf("%v", err)
	}
}

func TestErrorOfTwoSchemasIsReportedOnce(t *testing.T) {
	err := numbers(t).Check(t.Context(), "/input", wrongItems(2))
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok || len(failure.Details) != 2 || !strings.Contains(failure.Message, "(and 1 more, see errors)") {
		t.Fatalf("%v", err)
	}
}

func TestInputCheckStopsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := numbers(t).Check(ctx, "/input", wrongItems(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
