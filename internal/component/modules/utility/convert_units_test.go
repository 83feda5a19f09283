package utility

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

func TestConvertUnitsIsExact(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, convertUnits{})
	for _, c := range []struct{ value, from, to, want string }{
		// Ether's denominations: 1 ether is 10^9 gwei is 10^18 wei (Solidity documentation, Ether Units).
		{"1", `"ether"`, `"wei"`, "1000000000000000000"},
		{"1", `"ether"`, `"gwei"`, "1000000000"},
		{"1", `"gwei"`, `"wei"`, "1000000000"},
		{"1", `"wei"`, `"ether"`, "0.000000000000000001"},
		// The examples of viem's documentation: parseEther, parseGwei, parseUnits, formatEther, formatGwei, formatUnits.
		{"420", `"ether"`, `"wei"`, "420000000000000000000"},
		{"420", `"gwei"`, `"wei"`, "420000000000"},
		{"420", `9`, `0`, "420000000000"},
		{"1000000000000000000", `"wei"`, `"ether"`, "1"},
		{"1000000000", `"wei"`, `"gwei"`, "1"},
		{"420000000000", `0`, `"9"`, "420"},
		{"1.5", `6`, `0`, "1500000"},
		{"1500000", `"0"`, `"6"`, "1.5"},
		{"1500000", `0.0`, `6`, "1.5"},
		{"-0.10", `"ether"`, `"gwei"`, "-100000000"},
		{"-0.000", `"ether"`, `"wei"`, "0"},
		{"0001.50", `"gwei"`, `"gwei"`, "1.5"},
		{"1.0", `"wei"`, `"wei"`, "1"}, // trailing zeros are not fractions of a base unit
		{"115792089237316195423570985008687907853269984665640564039457584007913129639935", `"wei"`, `"ether"`, "115792089237316195423570985008687907853269984665640564039457.584007913129639935"},
		{"1", `0`, `255`, "0." + strings.Repeat("0", 254) + "1"},
		{"1", `255`, `0`, "1" + strings.Repeat("0", 255)},
	} {
		gives(t, bench, "CONVERT_UNITS", fmt.Sprintf(`{"value":%q,"from":%s,"to":%s}`, c.value, c.from, c.to), object(t, "result", c.want))
	}
}

func TestConvertUnitsErrorNamesField(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, convertUnits{})
	refuses(t, bench, "CONVERT_UNITS", `{"from":"wei","to":"ether"}`, "/input/value", "is required")
	refuses(t, bench, "CONVERT_UNITS", `{"value":"1","to":"ether"}`, "/input/from", "is required")
	refuses(t, bench, "CONVERT_UNITS", `{"value":"1","from":"wei"}`, "/input/to", "is required")
	refuses(t, bench, "CONVERT_UNITS", `{"value":1.5,"from":"ether","to":"wei"}`, "/input/value", "must be a string", "number")
	for _, text := range []string{"", "-", ".5", "5.", "1e18", "1,5", "+1", "0x10", "1 ether", "Infinity", "1.2.3"} {
		refuses(t, bench, "CONVERT_UNITS", object(t, "value", text, "from", "ether", "to", "wei"), "/input/value", "must match")
	}
	for _, unit := range []string{`"finney"`, `"Ether"`, `""`, `"-1"`, `"1.5"`, `-1`, `256`, `1.5`, `null`, `[18]`} {
		refuses(t, bench, "CONVERT_UNITS", `{"value":"1","from":`+unit+`,"to":"wei"}`, "/input/from", "must ")
		refuses(t, bench, "CONVERT_UNITS", `{"value":"1","from":"wei","to":`+unit+`}`, "/input/to", "must ")
	}
	refuses(t, bench, "CONVERT_UNITS", `{"value":"1","from":"wei","to":"256"}`, "to must be wei, gwei, ether or a number of decimals between 0 and 255, got \"256\"")
	refuses(t, bench, "CONVERT_UNITS", object(t, "value", strings.Repeat("1", maxAmount+1), "from", "wei", "to", "ether"), "/input/value", "at most 1000 characters", "got 1001")
	// More decimals than the unit has are an error, never rounded.
	refuses(t, bench, "CONVERT_UNITS", `{"value":"0.5","from":"wei","to":"wei"}`, "value must have at most 0 decimals, the precision of the unit from; got 1 in \"0.5\"")
	refuses(t, bench, "CONVERT_UNITS", `{"value":"1.0000000000000000001","from":"ether","to":"ether"}`, "value must have at most 18 decimals", "got 19 in \"1.0000000000000000001\"")
	refuses(t, bench, "CONVERT_UNITS", `{"value":"0.1234567","from":6,"to":18}`, "value must have at most 6 decimals", "got 7")
}

// randomAmount returns a random decimal number, with leading and trailing zeros.
func randomAmount(random *rand.Rand) string {
	digits := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte('0' + max(0, random.IntN(14)-4))
		}
		return string(text)
	}
	amount := digits(1 + random.IntN(40))
	if random.IntN(3) > 0 {
		amount += "." + digits(1+random.IntN(30))
	}
	if random.IntN(3) == 0 {
		amount = "-" + amount
	}
	return amount
}

// One hundred thousand random cases against long division with JavaScript's
// BigInt.
func TestConvertUnitsMatchesJavaScript(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(4, 2027))
	usual := []int{0, 6, 8, 9, 18}
	decimals := func() string {
		if random.IntN(2) == 0 {
			return strconv.Itoa(usual[random.IntN(len(usual))])
		}
		return strconv.Itoa(random.IntN(60))
	}
	cases := make([][]string, 100_000)
	for i := range cases {
		cases[i] = []string{"units", randomAmount(random), decimals(), decimals()}
	}
	wrong, refused := 0, 0
	for i, want := range independent(t, cases) {
		value, from, to := cases[i][1], cases[i][2], cases[i][3]
		got := "error"
		result, err := convertUnits{}.Run(t.Context(), component.Call{Input: json.RawMessage(object(t, "value", value, "from", from, "to", to))})
		if err == nil {
			got = strings.TrimSuffix(strings.TrimPrefix(string(result.Output), `{"result":"`), `"}`)
		} else {
			refused++
		}
		if got != want {
			if wrong++; wrong <= 10 {
				t.Errorf("%s from %s to %s: got %s, want %s (%v)", value, from, to, got, want, err)
			}
		}
	}
	if refused < 10_000 || refused > 60_000 {
		t.Errorf("%d cases were refused: the drawing is off", refused)
	}
}

// Converting an amount back returns the original amount.
func FuzzConvertUnits(f *testing.F) {
	f.Add("1.5", "ether", "wei")
	f.Add("-00.10", "6", "18")
	f.Add("1", "255", "0")
	bench := componenttest.New(f, convertUnits{})
	f.Fuzz(func(t *testing.T, value, from, to string) {
		there, failed := bench.Run(t, "CONVERT_UNITS", object(t, "value", value, "from", from, "to", to), `{}`)
		if failed != nil {
			return
		}
		result := member(t, there, "result")
		if len(result) > maxAmount {
			return
		}
		back, failed := bench.Run(t, "CONVERT_UNITS", object(t, "value", result, "from", to, "to", from), `{}`)
		if failed != nil {
			t.Fatalf("%s from %s to %s gave %s, which %v", value, from, to, result, failed)
		}
		again, failed := bench.Run(t, "CONVERT_UNITS", object(t, "value", member(t, back, "result"), "from", from, "to", to), `{}`)
		if failed != nil || string(again) != string(there) {
			t.Errorf("%s from %s to %s gave %s, and once more %s, %v", value, from, to, there, again, failed)
		}
	})
}
