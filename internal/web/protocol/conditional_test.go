package protocol_test

import (
	"testing"

	"github.com/weft-automation/weft/internal/web/protocol"
)

func TestMatchesComparesWeakly(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, `"3"`: true, `W/"3"`: true, ` "1" , W/"3"`: true, "*": true, " * ": true, `"*"`: false, "3": false, `"33"`: false, `w/"3"`: false, `"1", "2"`: false,
	} {
		if got := protocol.Matches(value, `"3"`); got != want {
			t.Errorf("%s: got %v, want %v", value, got, want)
		}
	}
}
