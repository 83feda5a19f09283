package cli

import (
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
)

func TestNoFaultExitsAsDone(t *testing.T) {
	t.Parallel()
	for _, code := range fault.Codes() {
		if got := exitCode(fault.New(code, "it failed")); got == exitDone {
			t.Errorf("%s exits with %d", code, got)
		}
	}
}
