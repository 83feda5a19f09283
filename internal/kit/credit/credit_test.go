package credit

import (
	"encoding/json"
	"math"
	"testing"
)

func TestLE10AmountsAreExactAndWithoutFloatNoise(t *testing.T) {
	for text, want := range map[string]Amount{
		"0": 0, "1": 1_000_000, "0.1": 100_000, "0.000001": 1, "-2.5": -2_500_000,
		"9223372036854.775807": math.MaxInt64,
	} {
		var got Amount
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s parses to %d, %v; want %d", text, got, err, want)
		}
		if out, _ := json.Marshal(want); string(out) != text {
			t.Errorf("%d prints as %s, want %s", want, out, text)
		}
	}
	tenth, fifth := Amount(100_000), Amount(200_000)
	if got := (tenth + fifth).String(); got != "0.3" {
		t.Errorf("0.1 + 0.2 = %s", got)
	}
	if got := Amount(math.MinInt64).String(); got != "-9223372036854.775808" {
		t.Errorf("smallest amount prints as %s", got)
	}
}

func TestInexactAmountsAreRejected(t *testing.T) {
	for _, text := range []string{"", "1.", ".5", "1e3", "0.0000001", "9223372036854.775808", "null", `"1"`, "--1", "+1"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q was accepted as %d", text, got)
		}
	}
}
