package utility

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/componenttest"
)

// frequency returns the P-value of the frequency (monobit) test of NIST SP 800-22, section 2.1.
func frequency(bits string) float64 {
	sum := float64(strings.Count(bits, "1") - strings.Count(bits, "0"))
	return math.Erfc(math.Abs(sum) / math.Sqrt(float64(len(bits))) / math.Sqrt2)
}

// runs returns the P-value of the runs test of NIST SP 800-22, section 2.3.
func runs(bits string) float64 {
	n, ones := float64(len(bits)), float64(strings.Count(bits, "1"))/float64(len(bits))
	count := 1.0
	for i := 1; i < len(bits); i++ {
		if bits[i] != bits[i-1] {
			count++
		}
	}
	between := ones * (1 - ones)
	return math.Erfc(math.Abs(count-2*n*between) / (2 * math.Sqrt(2*n) * between))
}

// The first hundred binary digits of pi, which the publication uses in its examples.
const ofPi = "1100100100001111110110101010001000100001011010001100001000110100110001001100011001100010100010111000"

// Random output passes NIST's statistical tests, which are verified with the examples in NIST SP
// 800-22 rev. 1a, sections 2.1.8 and 2.3.8. A good source fails once in ten million runs.
func TestRandomOutputPassesNISTTests(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ got, want float64 }{"frequency": {frequency(ofPi), 0.109599}, "runs": {runs(ofPi), 0.500798}} {
		if math.Abs(c.got-c.want) > 0.000001 {
			t.Errorf("%s of the publication's example is %f, and it says %f", what, c.got, c.want)
		}
	}
	bench := componenttest.New(t, Modules()...)
	draw := map[string]func() string{
		"RANDOM_HEX": func() string {
			output, failed := bench.Run(t, "RANDOM_HEX", `{"bytes":1024}`, `{}`)
			if failed != nil {
				t.Fatal(failed)
			}
			return strings.TrimPrefix(member(t, output, "hex"), "0x")
		},
		"RANDOM_UUID": func() string { // without the digits of version and variant
			output, failed := bench.Run(t, "RANDOM_UUID", `{}`, `{}`)
			if failed != nil {
				t.Fatal(failed)
			}
			id := strings.ReplaceAll(member(t, output, "uuid"), "-", "")
			return id[:12] + id[13:16] + id[17:]
		},
	}
	for module, drawn := range draw {
		var digits strings.Builder
		for digits.Len() < 16384 {
			digits.WriteString(drawn())
		}
		data, err := hex.DecodeString(digits.String()[:16384])
		if err != nil {
			t.Fatalf("%s: %v", module, err)
		}
		var bits strings.Builder
		for _, one := range data {
			for i := range 8 {
				bits.WriteByte('0' + one>>i&1)
			}
		}
		if f, r := frequency(bits.String()), runs(bits.String()); f < 1e-7 || r < 1e-7 {
			t.Errorf("%s: P-values %g and %g", module, f, r)
		}
	}
}
