package gate_test

import (
	"testing"

	"github.com/weft-automation/weft/internal/gate"
)

func TestNoneMatchComparesWeakly(t *testing.T) {
	for value, want := range map[string]bool{
		"": true, `"3"`: false, `W/"3"`: false, ` "1" , W/"3"`: false, "*": false, " * ": false, `"*"`: true, "3": true, `"33"`: true, `w/"3"`: true, `"1", "2"`: true,
	} {
		if got := gate.NoneMatch(value, `"3"`); got != want {
			t.Errorf("%s: got %v, want %v", value, got, want)
		}
	}
}
