package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func values(t testing.TB, text string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var out map[string]any
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func encoded(t testing.TB, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("%#v: %v", value, err)
	}
	return string(out)
}

func evaluate(t testing.TB, text, given string) (any, error) {
	t.Helper()
	program, err := Compile(text)
	if err != nil {
		return nil, err
	}
	return program.Run(values(t, given))
}

// Cases that differ from expr or that expr leaves undefined.
func TestExpressionValues(t *testing.T) {
	const given = `{"n":9007199254740993,"big":123456789012345678901234567890,"f":0.1,"one":1.0,"e":1e2,"s":"héllo","o":{"b":1,"a":{"c":[1,2.50]}},"list":[3,1,2],"absentee":null}`
	for text, want := range map[string]string{
		// Integers are exact and stay integers.
		`n`: `9007199254740993`, `n + 1`: `9007199254740994`, `n * 3`: `27021597764222979`, `n / 3`: `3002399751580331`, `n % 10`: `3`, `n == 9007199254740992`: `false`, `n > 9007199254740992`: `true`, `n > 9007199254740992.5`: `true`,
		`4 / 2`: `2`, `7 / 2`: `3.5`, `2 ** 62`: `4611686018427387904`, `(-2) ** 63`: `-9223372036854775808`, `9223372036854775807 - 1`: `9223372036854775806`, `round(2.5)`: `3`, `-0.0`: `0`, `0 * -1.5`: `0`, `1.5 * 2`: `3`, `type(1.0)`: `"int"`, `list[4 / 2]`: `2`, `-n`: `-9007199254740993`, `sum([n, n])`: `18014398509481986`, `mean([n, n])`: `9007199254740993`, `1 / 3`: `0.3333333333333333`, `1e21`: `1e+21`, `(-1) ** 9223372036854775807`: `-1`,
		// Numbers that aren't used in arithmetic keep their notation.
		`big`: `123456789012345678901234567890`, `{x: [big]}`: `{"x":[123456789012345678901234567890]}`, `big == big`: `true`, `o.a.c`: `[1,2.50]`, `one`: `1.0`, `e`: `1e2`, `one == 1`: `true`, `list[one]`: `1`, `uniq([one, 1, e, 100])`: `[1.0,1e2]`,
		// Characters, not bytes.
		`len(s)`: `5`, `s[1]`: `"é"`, `s[1:3]`: `"él"`, `s[-1]`: `"o"`, `indexOf(s, "l")`: `2`, `s[indexOf(s, "l"):]`: `"llo"`, `get(s, 1)`: `"é"`, `upper(s)`: `"HÉLLO"`,
		// Objects are visited in the order of their names.
		`keys(o)`: `["a","b"]`, `values({b: 1, a: 2})`: `[2,1]`, `toPairs({b: 1, a: 2})`: `[["a",2],["b",1]]`, `toJSON(o)`: `"{\"a\":{\"c\":[1,2.50]},\"b\":1}"`, `toJSON("<&>")`: `"\"\u003c\u0026\u003e\""`, `string([1, nil])`: `"[1,null]"`, `string(nil)`: `"nil"`,
		`sortBy([{k: 1, v: "a"}, {k: 0, v: "b"}, {k: 1, v: "c"}], .k, "desc") | map(.v)`: `["a","c","b"]`, `groupBy(list, # > 1)`: `{"false":[1],"true":[3,2]}`, `groupBy(list, # / 2)`: `{"0.5":[1],"1":[2],"1.5":[3]}`,
		`fromJSON("12345678901234567890123")`: `12345678901234567890123`, `[1] == [1.0]`: `true`, `{a: [1.0]} == {a: [1]}`: `true`, `nil == false`: `false`, `"1" == 1`: `false`,
		// A name that is allowed to be missing is nil.
		`nowhere ?? 7`: `7`, `nowhere?.x`: `null`, `nowhere?.x.y ?? "d"`: `"d"`, `nowhere == nil`: `true`, `nil != nowhere`: `false`, `nowhere != nil ? nowhere.x : 1`: ``, `absentee ?? 1`: `1`, `absentee`: `null`,
		`max(list)`: `3`, `max([])`: `null`, `fromBase64(toBase64(s))`: `"héllo"`,
	} {
		if want == "" {
			continue // errors are tested below
		}
		got, err := evaluate(t, text, given)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if encoded(t, got) != want {
			t.Errorf("%s = %s, want %s", text, encoded(t, got), want)
		}
	}
}

func TestErrorHasPositionAndNoValue(t *testing.T) {
	const given = `{"amount":12,"secret":"hunter2hunter2","list":[1,"hunter2hunter2"],"o":{"k":"hunter2hunter2"},"big":123456789012345678901234567890}`
	for _, c := range []struct {
		text    string
		code    Code
		place   string
		message string
	}{
		{``, Syntax, "1:1", "empty"},
		{"  \n", Syntax, "1:1", "empty"},
		{"\xff", Syntax, "1:1", "UTF-8"},
		{`1 +`, Syntax, "1:4", "ends too early: expected a value"},
		{`(1 + 2`, Syntax, "1:7", "expected an operator or )"},
		{`1 2`, Syntax, "1:3", "unexpected number: expected an operator or the end"},
		{`1 "hunter2"`, Syntax, "1:3", "unexpected string"},
		{`[1, 2`, Syntax, "1:6", "or ]"},
		{"amount >\n  )", Syntax, "2:3", "unexpected ): expected a value"},
		{`"hunter2`, Syntax, "1:9", "not closed"},
		{`amount @ 2`, Syntax, "1:8", "no meaning"},
		{`99999999999999999999`, Syntax, "", "at most 64 bits"},
		{`0xFFFFFFFFFFFFFFFFF`, Syntax, "", "at most 64 bits"},
		{`a ?? b + 1`, Syntax, "1:8", "parentheses"},
		{`{1 + 2: 3}`, Syntax, "1:4", "unexpected +"},
		{`map(list, {id: #})`, Syntax, "1:14", "{{name: value}}"},
		{`b"x"`, Syntax, "1:1", "bytes"},
		{`amount.round()`, Syntax, "1:8", "no methods"},
		{`len()`, Syntax, "1:1", "needs 1 argument, got 0"},
		{`replace("a")`, Syntax, "1:1", "3 to 4 arguments, got 1"},
		{`concat()`, Syntax, "1:1", "at least 1 argument"},
		{`"a" matches "("`, Syntax, "1:13", "regular expression"},
		{`let len = 1; len`, Syntax, "1:5", "reserved"},
		{`let a = 1; let a = 2; a`, Syntax, "1:16", "reserved"},
		{`$env`, UnknownName, "1:1", "$env"},
		{`$env["amount"]`, UnknownName, "1:1", "$env"},
		{`now()`, UnknownName, "1:1", "no clock"},
		{`timezone("Europe/Berlin")`, UnknownName, "1:1", "zones are named by text"},
		{`lenn("a")`, UnknownName, "1:1", "unknown function lenn; the functions are abs, all"},
		{`map([1], #acc)`, UnknownName, "1:10", "reduce"},
		{`map([1], #other)`, UnknownName, "1:10", "#index"},
		{`amuont > 1`, UnknownName, "1:1", "unknown value amuont; the values are amount, big, list, o, secret"},
		{`nowhere != nil ? 1 : nowhere`, UnknownName, "1:22", "nowhere"},
		{`amount + secret`, WrongType, "1:8", "+ needs two numbers or two strings, got a number and a string"},
		{`secret - 1`, WrongType, "1:8", "got a string and a number"},
		{`amount ? 1 : 2`, WrongType, "1:1", "expected a boolean, got a number"},
		{`not secret`, WrongType, "1:5", "expected a boolean"},
		{`amount and true`, WrongType, "1:1", "boolean"},
		{`secret < 1`, WrongType, "1:8", "order"},
		{`sort(list)`, WrongType, "1:1", "order"},
		{`"9" < "10"`, WrongType, "1:5", "BIGINT_CALCULATE"},
		{`"-1.5" >= "+10"`, WrongType, "1:8", "BIGINT_CALCULATE"},
		{`"007" > "07.0"`, WrongType, "1:7", "BIGINT_CALCULATE"},
		{`sort(["10", "9"])`, WrongType, "1:1", "BIGINT_CALCULATE"},
		{`sortBy([{n: "10"}, {n: "9"}], .n)`, WrongType, "1:1", "BIGINT_CALCULATE"},
		{`amount.x`, WrongType, "1:8", "cannot read x of a number"},
		{`o.k.x`, WrongType, "", "a string"},
		{`o.missing.x`, WrongType, "1:11", "of nil"},
		{`o.missing[0]`, WrongType, "1:10", "of nil"},
		{`list["x"]`, WrongType, "1:5", "an index must be a number, got a string"},
		{`list[0.5]`, WrongType, "1:5", "whole number"},
		{`o[1]`, WrongType, "1:3", "a field name must be a string"},
		{`{(1): 2}`, WrongType, "1:3", "must be a string"},
		{`int(secret)`, WrongType, "1:1", "integer"},
		{`float("Inf")`, WrongType, "1:1", "decimal"},
		{`float("0x1p4")`, WrongType, "1:1", "decimal"},
		{`map(o, #)`, WrongType, "1:5", "must be an array, got an object"},
		{`filter(list, # + 1)`, WrongType, "1:16", "expected a boolean, got a number"},
		{`join(list)`, WrongType, "1:1", "must be a string, got a number"},
		{`sum(list)`, WrongType, "1:1", "must be a number"},
		{`7.5 % 2`, WrongType, "1:5", "integers"},
		{`1.5..3`, WrongType, "1:1", "whole number"},
		{`1 in 2`, WrongType, "1:3", "array or an object"},
		{`1 in o`, WrongType, "1:1", "must be a string"},
		{`fromJSON(secret)`, WrongType, "1:1", "a single JSON value"},
		{`fromJSON("1 2")`, WrongType, "1:1", "a single JSON value"},
		{`fromBase64("/w==")`, WrongType, "1:1", "UTF-8"},
		{`sort([1], "up")`, WrongType, "1:1", `"asc" or "desc"`},
		{`secret matches o.k + "("`, WrongType, "", "regular expression"},
		{`list[2]`, OutOfRange, "1:5", "the length is 2"},
		{`list[-3]`, OutOfRange, "1:5", "the length is 2"},
		{`1 / 0`, OutOfRange, "1:3", "division by zero"},
		{`1 % 0`, OutOfRange, "1:3", "division by zero"},
		{`1 / 0.0`, OutOfRange, "1:3", "division by zero"},
		{`9223372036854775807 + 1`, OutOfRange, "1:21", "64 bits"},
		{`-9223372036854775807 - 2`, OutOfRange, "1:22", "64 bits"},
		{`4611686018427387904 * 2`, OutOfRange, "1:21", "64 bits"},
		{`(-9223372036854775807 - 1) / -1`, OutOfRange, "", "64 bits"},
		{`(-9223372036854775807 - 1) * -1`, OutOfRange, "", "64 bits"},
		{`abs(-9223372036854775807 - 1)`, OutOfRange, "", "64 bits"},
		{`2 ** 63`, OutOfRange, "1:3", "64 bits"},
		{`10.5 ** 400`, OutOfRange, "", "doubles"},
		{`big + 1`, OutOfRange, "1:5", "use BIGINT_CALCULATE, with strings"},
		{`int(1e300)`, OutOfRange, "1:1", "64 bits"},
		{`reduce([], #acc)`, OutOfRange, "1:1", "initial"},
		{`repeat("a", -1)`, OutOfRange, "1:1", "negative"},
		{`bitshl(1, -1)`, OutOfRange, "1:1", "negative"},
		{`take([1], -1)`, OutOfRange, "1:1", "negative"},
		{`1..100000`, TooExpensive, "1:2", "more than 99000 items"},
		{`{(repeat("k", 1025)): 1}`, NotJSON, "1:1", "a field name has more"},
		{`"\x00"`, NotJSON, "1:1", "U+0000"},
		{strings.Repeat("[", 70) + strings.Repeat("]", 70), NotJSON, "1:1", "nested deeper"},
	} {
		_, err := evaluate(t, c.text, given)
		fault, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("%s: got %v", c.text, err)
			continue
		}
		place := fmt.Sprintf("%d:%d", fault.Line, fault.Column)
		if fault.Code != c.code || (c.place != "" && place != c.place) || !strings.Contains(fault.Message, c.message) {
			t.Errorf("%s: got %s at %s: %s; want %s at %s: %s", c.text, fault.Code, place, fault.Message, c.code, c.place, c.message)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a value is in %v", c.text, err)
		}
	}
}

// Without the budget, each of these would need seconds or all memory.
func TestNoExpressionExceedsItsBudget(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	given := `{"long":"` + long + `","fraction":"0.` + strings.Repeat("7", 1<<20) + `","list":[` + strings.TrimSuffix(strings.Repeat("1,", 50_000), ",") + `],"pattern":"(a?){500}"}`
	nest := func(open, end string, times int, core string) string {
		return strings.Repeat(open, times) + core + strings.Repeat(end, times)
	}
	decoded := values(t, given)
	for _, text := range []string{
		`1..1e9`, `1..1000000000`, `(-9223372036854775807)..9223372036854775807`,
		`let a = 1..1000; all(a, {all(a, {all(a, {all(a, true)})})})`,
		`map(1..1000, {map(1..1000, {map(1..1000, 1)})})`,
		`reduce(1..60, #acc + #acc, "a")`, `reduce(1..60, concat(#acc, #acc), [1])`, `reduce(1..60, [#acc, #acc], 1)`, `reduce(1..60, {{a: #acc, b: #acc}}, 1)`,
		`let a = reduce(1..40, [#acc, #acc], 1); let b = reduce(1..40, [#acc, #acc], 1); a == b`,
		`toJSON(reduce(1..40, [#acc, #acc], 1))`, `string(reduce(1..40, [#acc, #acc], 1))`, `flatten(reduce(1..40, [#acc, #acc], 1))`, `max(reduce(1..40, [#acc, #acc], 1))`,
		`toJSON(reduce(1..100000, [#acc], 1))`, `reduce(1..100000, [#acc], 1) == reduce(1..100000, [#acc], 1)`,
		`repeat(long, 1000000)`, `repeat("a", 9223372036854775807)`, `replace(long, "", long)`, `replace(long, "a", long)`, `join(list | map("x"), long)`, `join(list | map(long), "")`,
		`split(long, "")`, `map(list, long contains "ab")`, `map(list, long matches "a.*b")`, `map(list, long == long + "")`, `map(list, lower(long))`,
		`long matches "(a?){500}a{500}"`, `long matches pattern`, `"a" matches repeat("(a{1000})", 200)`, `map(list, "a" matches string(#index))`,
		`uniq(map(list, [#index]))`, `let r = 1..20000; map(r, # in r)`, `map(list, {sort(list)})`, `map(list, sum(list))`, `map(list, keys({a: 1, b: list}))`,
		`fromJSON("[" + repeat("1,", 500000) + "1]")`, `map(list, fromJSON("[1]"))` + strings.Repeat(`| map(fromJSON("[1,2,3]"))`, 20),
		`[long, long]`, nest("(1 < ", " < 2)", 300, "1"), nest("(", " ?: 1)", 300, "false"), nest("not (", ")", 900, "true") + " and 1..1e9",
		strings.Repeat("1 + ", 1022) + "1", strings.Repeat(" ", MaxText) + "1",
		`map(list, float(fraction))`, `let n = fromJSON(fraction); map(1..40000, n > 1)`,
		`groupBy(1..90000, long)`, `uniq(map(1..60000, long))`, `let o = {(long): 1}; count(1..90000, o[long] == 1)`, `let o = {(long): 1}; count(1..90000, long in o)`,
		`let o = {(long): 1}; count(1..90000, get(o, long) == 1)`, `map(list, {{(long): 1}})`, `fromPairs(map(1..60000, [long, 1]))`,
		`let o = {(long): 1}; count(1..60000, keys(o) == [])`, variables(300) + `count(1..90000, v0 == 1)`,
		`2 ** 9223372036854775807 > 0 or 1..1e9`, `groupBy(1..300000, #)`, `sortBy(1..300000, -#)`, `fromPairs(map(1..200000, [string(#), 1]))`,
	} {
		program, err := Compile(text)
		if err == nil {
			_, err = program.Run(decoded)
		}
		fault, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("%.80s: %v", text, err)
			continue
		}
		if fault.Code != TooExpensive && fault.Code != OutOfRange && fault.Code != NotJSON && fault.Code != WrongType && !strings.Contains(fault.Message, "too many repetitions") {
			t.Errorf("%.80s: %v", text, fault)
		}
	}
}

// variables returns declarations of count variables.
func variables(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "let v%d=1;", i)
	}
	return text.String()
}

func TestOversizedRangeFailsImmediately(t *testing.T) {
	program, err := Compile(`1..1e9`)
	if err != nil {
		t.Fatal(err)
	}
	made := testing.AllocsPerRun(10, func() {
		if _, err := program.Run(nil); err == nil {
			t.Fatal("it was made")
		}
	})
	if made > 1000 {
		t.Errorf("it made %.0f allocations", made)
	}
}

func TestLargeLegitimateWorkFitsIntoTheBudget(t *testing.T) {
	items := make([]string, 10_000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id":"item-%05d","amount":%d,"tags":["a","b"]}`, i, i)
	}
	given := `{"items":[` + strings.Join(items, ",") + `]}`
	for text, want := range map[string]string{
		`sum(filter(items, .amount % 2 == 0 and "a" in .tags), .amount)`:                      `24995000`,
		`len(map(items, {{id: .id, double: .amount * 2, late: .id matches "^item-0[5-9]"}}))`: `10000`,
		`(items | sortBy(.amount, "desc") | first()).id`:                                      `"item-09999"`,
		`len(join(map(items, .id), ","))`:                                                     `109999`,
		`len(groupBy(items, .amount % 100))`:                                                  `100`,
	} {
		if got, err := evaluate(t, text, given); err != nil || encoded(t, got) != want {
			t.Errorf("%s = %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestRunsAreDeterministicAndModifyNothing(t *testing.T) {
	const given = `{"o":{"z":1,"y":2,"x":{"b":[3,1,2],"a":1}},"list":[3,1,2]}`
	texts := []string{`keys(o)`, `toPairs(o)`, `values(o)`, `toJSON(o)`, `reverse(list)`, `sort(list)`, `sort(list, "desc")`, `concat(list, list)`, `o == {z: 1}`, `groupBy(list, string(#))`, `sortBy(list, -#)`, `take(list, 2)`, `list[1:]`, `o.nothing.x`, `1..1e9`}
	shared := values(t, given)
	var group sync.WaitGroup
	for _, text := range texts {
		program, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		want := outcome(t, program, shared)
		for range 4 {
			group.Go(func() {
				for range 25 {
					if got := outcome(t, program, shared); got != want {
						t.Errorf("%s gave %s, then %s", text, want, got)
					}
				}
			})
		}
	}
	group.Wait()
	if encoded(t, shared) != encoded(t, values(t, given)) {
		t.Errorf("the values are now %s", encoded(t, shared))
	}
}

func outcome(t testing.TB, program *Program, given map[string]any) string {
	result, err := program.Run(given)
	if err != nil {
		return err.Error()
	}
	return encoded(t, result)
}

func TestUnsupportedValuesDoNotPanic(t *testing.T) {
	given := map[string]any{"i": 3, "f": 2.5, "odd": []string{"a"}, "fn": func() {}}
	for text, want := range map[string]Code{`i + f`: "", `i == 3`: "", `odd`: NotJSON, `fn`: NotJSON, `odd == odd`: "", `uniq([fn])`: WrongType, `odd[0]`: WrongType, `type(fn)`: WrongType, `toJSON(odd)`: NotJSON} {
		program, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = program.Run(given)
		if fault, _ := errors.AsType[*Error](err); (want == "") != (err == nil) || fault != nil && fault.Code != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzRun compiles and runs arbitrary expressions: nothing panics, every error is an *Error with a
// position in the expression, and a second run has the same result.
func FuzzRun(f *testing.F) {
	for _, text := range common {
		f.Add(text)
	}
	for _, text := range []string{`1..1e9`, `reduce(1..60, #acc + #acc, "a")`, `a ?? b`, `(1 < (1 < 2 < 3) < 4)`, `names[1.5]`, `"\xff"`, `map(names, # matches text)`, `order?.["id"]`, `let x = $env; x`, `{(1): 2}`, "a\nb"} {
		f.Add(text)
	}
	given := values(f, order1)
	before := encoded(f, given)
	f.Fuzz(func(t *testing.T, text string) {
		program, err := Compile(text)
		var result any
		if err == nil {
			result, err = program.Run(given)
		}
		if err != nil {
			fault, ok := errors.AsType[*Error](err)
			if !ok || fault.Line < 1 || fault.Column < 1 || fault.Message == "" || len(fault.Message) > 2048 {
				t.Errorf("%#v", err)
			}
			return
		}
		out, err := json.Marshal(result)
		if err != nil || len(out) > 6*MaxResult {
			t.Errorf("%d bytes, %v", len(out), err)
		}
		if again := outcome(t, program, given); again != string(out) {
			t.Errorf("%.200s, then %.200s", out, again)
		}
		if encoded(t, given) != before {
			t.Errorf("the values are changed")
		}
	})
}

// Decimal strings can't be ordered, in any notation.
func TestDecimalStringsCannotBeOrdered(t *testing.T) {
	t.Parallel()
	for text, decimal := range map[string]bool{
		"9": true, "-9": true, "+9": true, ".5": true, "5.": true, "1e3": true, "1E+3": true, "-.5e-2": true, " 9": true, "9 ": true, "\t9\n": true, "007": true,
		"": false, " ": false, ".": false, "-": false, "e3": false, "1e": false, "1e+": false, "1e1.5": false, "1.2.3": false, "--9": false, "+-9": false, "9 9": false,
		"v1": false, "9a": false, "٣": false, "1_000": false, "0x10": false, "Inf": false, "NaN": false, "2026-11-23": false,
	} {
		for _, expression := range []string{"a < b", "b >= a", "sort([a, b])"} {
			_, err := evaluate(t, expression, encoded(t, map[string]string{"a": text, "b": "10"}))
			if failure, ok := errors.AsType[*Error](err); decimal && (!ok || !strings.Contains(failure.Error(), "BIGINT_CALCULATE")) || !decimal && err != nil {
				t.Errorf("%q: %s: %v", text, expression, err)
			}
		}
	}
}
