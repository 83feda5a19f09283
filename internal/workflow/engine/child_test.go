package engine_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// A stage whose child run responds and then fails stores no output, so the output does not count.
func TestOutputOfAFailedChildRunIsNotCounted(t *testing.T) {
	t.Parallel()
	below := &workflowtest.Drawing{
		Parts:  []workflowtest.Part{{ID: "r", Module: "RESPOND", Input: map[string]any{"n": 1}, Config: map[string]any{}}, {ID: "f", Module: "FAIL", Config: map[string]any{}}},
		Arrows: []workflowtest.Arrow{{ID: "1", From: "r", To: "f", Port: "next"}},
	}
	m := newGame(t, 0, workflowtest.Nest(below, uuid.NewString(), 0)).play(0, odds{})
	if want := int64(len(`{"value":2}{"bad":2}`)); m.run.OutputBytes != want {
		t.Errorf("%d bytes are counted, want %d", m.run.OutputBytes, want)
	}
}
