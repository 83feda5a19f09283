package utility

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

var operations = []string{"add", "subtract", "multiply", "divide", "modulo", "power", "min", "max", "compare"}

func TestBigintCalculateRounds(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, bigintCalculate{})
	const uint256 = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	for _, c := range [][4]string{
		// Truncated division, as in the Solidity documentation (Types, Division and Modulo):
		// int256(5) % int256(2) == 1, int256(5) % int256(-2) == 1, int256(-5) % int256(2) == -1,
		// int256(-5) % int256(-2) == -1 and int256(-5) / int256(2) == -2.
		{"modulo", "5", "2", "1"}, {"modulo", "5", "-2", "1"}, {"modulo", "-5", "2", "-1"}, {"modulo", "-5", "-2", "-1"}, {"divide", "-5", "2", "-2"},
		{"divide", "7", "-2", "-3"}, {"modulo", "7", "-2", "1"}, {"divide", "-7", "2", "-3"}, {"modulo", "-7", "2", "-1"}, {"divide", "-1", "2", "0"},
		{"add", uint256, "1", "115792089237316195423570985008687907853269984665640564039457584007913129639936"},
		{"subtract", "0", uint256, "-" + uint256},
		// The same documentation (Exponentiation): 0**0 is 1.
		{"power", "0", "0", "1"}, {"power", "2", "256", "115792089237316195423570985008687907853269984665640564039457584007913129639936"},
		{"power", "-3", "3", "-27"}, {"power", "-1", uint256, "-1"}, {"power", "-1", "1000000000000000000000", "1"}, {"power", "1", uint256, "1"}, {"power", "0", uint256, "0"},
		{"min", "-2", "-10", "-10"}, {"max", "-2", "-10", "-2"}, {"compare", "9", "10", "-1"}, {"compare", "10", "10", "0"}, {"compare", "-9", "-10", "1"},
		{"add", "-0", "000", "0"}, {"max", "-0", "0", "0"}, {"min", "007", "8", "7"},
	} {
		gives(t, bench, "BIGINT_CALCULATE", object(t, "operation", c[0], "left", c[1], "right", c[2]), object(t, "result", c[3]))
	}
}

func TestBigintCalculateErrorNamesField(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, bigintCalculate{})
	refuses(t, bench, "BIGINT_CALCULATE", `{"left":"1","right":"2"}`, "/input/operation", "is required")
	refuses(t, bench, "BIGINT_CALCULATE", `{"operation":"root","left":"1","right":"2"}`, "/input/operation", "must be one of", `"power"`, `"root"`)
	refuses(t, bench, "BIGINT_CALCULATE", `{"operation":"add","right":"2"}`, "/input/left", "is required")
	refuses(t, bench, "BIGINT_CALCULATE", `{"operation":"add","left":"1"}`, "/input/right", "is required")
	refuses(t, bench, "BIGINT_CALCULATE", `{"operation":"add","left":1,"right":"2"}`, "/input/left", "must be a string", "number")
	for _, text := range []string{"", "-", "+1", "1.5", "1e3", "0x1f", " 1", "1 ", "1_000", "--1", "\u0661", "NaN"} {
		refuses(t, bench, "BIGINT_CALCULATE", object(t, "operation", "add", "left", text, "right", "2"), "/input/left", "must match")
		refuses(t, bench, "BIGINT_CALCULATE", object(t, "operation", "add", "left", "2", "right", text), "/input/right", "must match")
	}
	for _, operation := range []string{"divide", "modulo"} {
		refuses(t, bench, "BIGINT_CALCULATE", object(t, "operation", operation, "left", "1", "right", "-0"), "right must not be 0", operation)
	}
	refuses(t, bench, "BIGINT_CALCULATE", `{"operation":"power","left":"2","right":"-1"}`, "right must not be negative", "power")
	refuses(t, bench, "BIGINT_CALCULATE", object(t, "operation", "add", "left", strings.Repeat("1", maxDigits+2), "right", "1"), "/input/left", "at most 100001 characters", "got 100002")
	refuses(t, bench, "BIGINT_CALCULATE", object(t, "operation", "add", "left", "1", "right", strings.Repeat("1", maxDigits+1)), "right must have at most 100000 digits", "got 100001")
}

func TestBigintCalculateIsBounded(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, bigintCalculate{})
	nines := strings.Repeat("9", maxDigits)
	run := func(operation, left, right string) (string, *component.Error) {
		output, failed := bounded(t, bench, "BIGINT_CALCULATE", object(t, "operation", operation, "left", left, "right", right))
		var got struct{ Result string }
		if failed == nil {
			if err := json.Unmarshal(output, &got); err != nil {
				t.Fatal(err)
			}
		}
		return got.Result, failed
	}
	for _, c := range []struct {
		operation, left, right string
		digits                 int // 0: rejected
	}{
		{"add", nines, "-" + nines, 1},
		{"add", nines, "1", 0},
		{"subtract", "-" + nines, "1", 0},
		{"multiply", nines, nines, 0},
		{"multiply", nines[:maxDigits/2], nines[:maxDigits/2], maxDigits},
		{"divide", nines, nines[:maxDigits/2], maxDigits/2 + 1},
		{"modulo", nines, "7" + nines[:maxDigits/2], maxDigits / 2},
		{"power", "10", "99999", maxDigits},
		{"power", "10", "100000", 0},
		{"power", "2", "332192", maxDigits},
		{"power", "2", "332193", 0},
		{"power", "9", "99999999", 0},
		{"power", "-2", nines, 0},
		{"power", nines, "2", 0},
		{"power", nines, nines, 0},
		{"power", nines, "1", maxDigits},
		{"power", nines, "0", 1},
	} {
		result, failed := run(c.operation, c.left, c.right)
		switch {
		case c.digits == 0:
			if failed == nil || failed.Code != component.CodeInvalidInput || !strings.Contains(failed.Message, "more than 100000 digits") {
				t.Errorf("%.20s %s %.20s: %d digits, %v", c.left, c.operation, c.right, len(result), failed)
			}
		case failed != nil || len(result) != c.digits:
			t.Errorf("%.20s %s %.20s: %d digits, want %d, %v", c.left, c.operation, c.right, len(result), c.digits, failed)
		}
	}
}

// randomInteger returns a number of random length, or one near a power of two.
func randomInteger(random *rand.Rand, digits int) string {
	number := new(big.Int)
	switch random.IntN(8) {
	case 0:
		number.SetInt64(int64(random.IntN(5) - 2))
	case 1:
		number.Lsh(big.NewInt(1), uint(random.IntN(600))).Add(number, big.NewInt(int64(random.IntN(3)-1)))
	default:
		text := make([]byte, 1+random.IntN(digits))
		for i := range text {
			text[i] = byte('0' + random.IntN(10))
		}
		number.SetString(string(text), 10)
	}
	if random.IntN(2) == 0 {
		number.Neg(number)
	}
	return number.String()
}

// One hundred thousand random cases against BigInt of JavaScript.
func TestBigintCalculateMatchesJavaScript(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(4, 2026))
	cases := make([][]string, 100_000)
	for i := range cases {
		operation := operations[random.IntN(len(operations))]
		left, right := randomInteger(random, 120), randomInteger(random, 120)
		if random.IntN(4) == 0 { // of similar size
			right = randomInteger(random, 20)
			left = randomInteger(random, 20)
		}
		if operation == "power" {
			right = strconv.Itoa(random.IntN(40) - 1)
		}
		cases[i] = []string{"bigint", operation, left, right}
	}
	wrong := 0
	for i, want := range independent(t, cases) {
		operation, left, right := cases[i][1], cases[i][2], cases[i][3]
		got := "error"
		result, err := bigintCalculate{}.Run(t.Context(), component.Call{Input: json.RawMessage(object(t, "operation", operation, "left", left, "right", right))})
		if err == nil {
			got = strings.TrimSuffix(strings.TrimPrefix(string(result.Output), `{"result":"`), `"}`)
		}
		if got != want {
			if wrong++; wrong <= 10 {
				t.Errorf("%s %s %s: got %s, want %s (%v)", left, operation, right, got, want, err)
			}
		}
	}
}

func FuzzBigintCalculate(f *testing.F) {
	for _, operation := range operations {
		f.Add(operation, "-170141183460469231731687303715884105728", "340282366920938463463374607431768211455")
	}
	f.Add("power", "12", "77")
	f.Add("divide", "007", "-0")
	bench := componenttest.New(f, bigintCalculate{})
	f.Fuzz(func(t *testing.T, operation, left, right string) {
		output, failed := bench.Run(t, "BIGINT_CALCULATE", object(t, "operation", operation, "left", left, "right", right), `{}`)
		if failed != nil {
			if failed.Code != component.CodeInvalidInput {
				t.Error(failed)
			}
			return
		}
		if operation != "divide" {
			return
		}
		rest, failed := bench.Run(t, "BIGINT_CALCULATE", object(t, "operation", "modulo", "left", left, "right", right), `{}`)
		if failed != nil {
			t.Fatal(failed)
		}
		number := func(text string) *big.Int { n, _ := new(big.Int).SetString(text, 10); return n }
		product := new(big.Int).Mul(number(member(t, output, "result")), number(right))
		if product.Add(product, number(member(t, rest, "result"))).Cmp(number(left)) != 0 {
			t.Errorf("%s = %s * %s + %s does not hold", left, right, output, rest)
		}
	})
}
