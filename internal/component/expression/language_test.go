package expression

import (
	"encoding/json"
	"testing"

	"github.com/expr-lang/expr"
)

const order1 = `{"order":{"id":"o-1","total":12.5,"paid":true,"note":null,
	"items":[{"sku":"a","count":2,"price":3},{"sku":"b","count":1,"price":6.5}],"tags":["x","y","x"]},
	"names":["Ada","Bob","Cy"],"numbers":[5,3,9,1],"empty":[],"zero":0,"half":0.5,"text":"Hello, World","blank":""}`

// common are expressions with the same result here and in expr.
var common = []string{
	`1 + 2 * 3`, `(1 + 2) * 3`, `7 % 4`, `-7 % 4`, `7 / 2`, `2 ** 10`, `2 ^ 3`, `2 ** -1`, `-5 + 3`, `- zero`, `+half`, `0x2A`, `0b101`, `0o17`, `1_000`, `.5 + .25`, `1e3`, `half * 4`,
	`1 == 1.0`, `1 != 2`, `1 < 2 and 2 < 3`, `1 < 2 < 3`, `1 > 2 || true`, `not true`, `!false`, `true && !(1 > 2)`, `"a" < "b"`, `"a" == 'a'`, `half <= 0.5`, `nil == nil`, `order.note == nil`, `[1, 2] == [1, 2]`, `{a: 1} == {"a": 1}`,
	`order.id`, `order["id"]`, `order.missing`, `order?.id`, `order.note?.deeper.still`, `order.note?.deeper ?? "none"`, `order.note ?? order.id`, `names[0]`, `names[-1]`, `order.items[1].sku`, `"id" in order`, `"zip" in order`, `3 in numbers`, `3 not in numbers`, `"Ada" in names`, `nil in names`,
	`names[1:]`, `names[:2]`, `names[1:2]`, `names[:]`, `names[-2:]`, `names[2:1]`, `text[7:]`, `text[:-1]`, `numbers[1:99]`,
	`zero == 0 ? "none" : "some"`, `half > 1 ? 1 : half > 0 ? 2 : 3`, `if order.paid { "paid" } else { "open" }`, `if half > 1 { 1 } else if half > 0 { 2 } else { 3 }`, `order.paid ?: false`,
	`let a = 2; let b = a * 3; a + b`, `let a = [1, 2]; a[0] + a[1]`, `1; 2; 3`, `names | map(len(#)) | sum()`, `text | lower() | split(", ")`, `::len(names)`, `/* a */ 1 // b`,
	`[1, "a", true, nil]`, `{a: 1, "b c": [2], (text): 3}`, `[1, 2,]`, `1..4`, `4..1`, `1..1`,
	`text + "!"`, `text contains "World"`, `text startsWith "Hello"`, `text endsWith "d"`, `text not contains "z"`, `nil contains "a"`, `text matches "^H.*d$"`, `text matches "(" + "x)?"`, `nil matches "a"`, "`raw\\n`", `"tab\tand é"`,
	`all(numbers, # > 0)`, `any(numbers, # > 8)`, `none(numbers, # > 9)`, `one(numbers, # == 9)`, `filter(numbers, # % 3 == 0)`, `filter(numbers, {# > 3})`, `map(numbers, # * 2)`, `map(order.items, .sku)`, `map(order.items, .count * .price)`, `map(numbers, #index)`,
	`count(numbers, # > 3)`, `count([true, false, true])`, `find(numbers, # > 3)`, `find(numbers, # > 99)`, `findIndex(numbers, # == 9)`, `findIndex(numbers, # == 7)`, `findLast(numbers, # > 3)`, `findLastIndex(numbers, # > 3)`, `sum(numbers)`, `sum(order.items, .count * .price)`, `sum(empty)`,
	`groupBy(order.items, .sku)`, `groupBy(names, len(#) > 2 ? "long" : "short")`, `sortBy(order.items, .price, "desc")`, `sortBy(order.items, .sku)`, `reduce(numbers, #acc + #)`, `reduce(numbers, #acc + #, 100)`, `reduce(names, #acc + #index, 0)`, `reduce(empty, #acc + #, 7)`,
	`map(order.items, {let item = #; filter(order.tags, # != item.sku)})`, `filter(order.items, any(numbers, # == 9) and .count > 1)`, `map(1..3, {let n = #; map(1..n, # * n)})`,
	`len(text)`, `len("héé")`, `len(names)`, `len(order)`, `type(text)`, `type(nil)`, `type(true)`, `type(names)`, `type(order)`, `type(half)`, `abs(-3)`, `abs(-half)`, `ceil(1.2)`, `floor(-1.2)`, `round(1.5)`, `int(3.9)`, `int("42")`, `float("1.5")`, `float(3)`, `string(true)`, `string("a")`, `string(12)`,
	`max(1, 5, 3)`, `min(numbers)`, `max(numbers, 100)`, `max([1, [7, 2]])`, `mean(numbers)`, `mean(1, 2)`, `median(numbers)`, `median([3, 1, 2])`, `mean(empty)`, `median(empty)`,
	`trim("  a ")`, `trim("__a__", "_")`, `trimPrefix("abc", "a")`, `trimSuffix("abc", "bc")`, `trimPrefix(" a")`, `upper(text)`, `lower(text)`, `split("a,b,c", ",")`, `split("a,b,c", ",", 2)`, `splitAfter("a,b", ",")`, `split("", ",")`, `split("abc", "")`, `join(names, "-")`, `join(names)`, `join(empty, ",")`,
	`replace(text, "l", "L")`, `replace(text, "l", "L", 1)`, `replace("abc", "", "-")`, `repeat("ab", 3)`, `repeat("ab", 0)`, `indexOf(text, "o")`, `lastIndexOf(text, "o")`, `indexOf(text, "z")`, `hasPrefix(text, "He")`, `hasSuffix(text, "x")`,
	`fromJSON("{\"a\": [1, 2.5, null]}")`, `fromJSON("[]")`, `toBase64("hi")`, `fromBase64("aGk=")`,
	`first(names)`, `last(names)`, `first(empty)`, `last(empty)`, `get(order, "id")`, `get(order, "zip")`, `get(names, 1)`, `get(names, 9)`, `get(nil, "a")`, `take(names, 2)`, `take(names, 9)`, `keys({a: 1})`, `values({a: 1})`, `toPairs({a: 1})`, `fromPairs([["a", 1], ["b", 2]])`,
	`reverse(numbers)`, `uniq(order.tags)`, `uniq([1, 1.0, [1], [1], {a: 1}, {a: 1}])`, `concat(names, numbers)`, `flatten([1, [2, [3, [4]]]])`, `sort(numbers)`, `sort(names, "desc")`, `sort([2.5, 1])`,
	`bitand(6, 3)`, `bitor(6, 3)`, `bitxor(6, 3)`, `bitnand(6, 3)`, `bitnot(6)`, `bitshl(1, 5)`, `bitshr(-8, 1)`, `bitushr(-8, 60)`,
}

// TestLanguageMatchesExpr compares results with expr.
func TestLanguageMatchesExpr(t *testing.T) {
	var theirs map[string]any
	if err := json.Unmarshal([]byte(order1), &theirs); err != nil {
		t.Fatal(err)
	}
	// expr decodes JSON integers as doubles, which it doesn't accept as indexes.
	theirs["numbers"], theirs["zero"] = []any{5, 3, 9, 1}, 0
	for _, text := range common {
		program, err := Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := program.Run(values(t, order1))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want, err := expr.Eval(text, theirs)
		if err != nil {
			t.Errorf("%s: expr refuses it: %v", text, err)
			continue
		}
		if a, b := encoded(t, got), encoded(t, plain(want)); a != b {
			t.Errorf("%s = %s, expr says %s", text, a, b)
		}
	}
}

// plain converts expr's maps to maps with string keys.
func plain(value any) any {
	out := map[string]any{}
	switch value := value.(type) {
	case map[any][]any:
		for key, items := range value {
			out[key.(string)] = items
		}
	case map[any]any:
		for key, item := range value {
			out[key.(string)] = item
		}
	default:
		return value
	}
	return out
}
