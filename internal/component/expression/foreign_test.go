package expression

import "testing"

func TestFormsOfOtherLanguagesAreAnsweredWithOurs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`a === 1`:               "line 1, column 3: write == instead of ===",
		`a !== 1`:               "line 1, column 3: write != instead of !==",
		`a <> 1`:                "line 1, column 3: write != instead of <>",
		`map(l, x => x.n)`:      "line 1, column 10: there are no arrow functions: write a predicate, as in map(list, .name) or filter(list, # > 1)",
		`map(lambda x: x.n, l)`: "line 1, column 5: there is no lambda: write a predicate, as in map(list, .name) or filter(list, # > 1)",
		`a and then b`:          "line 1, column 3: write only and, or or: the right side is evaluated only if it is needed",
		`a is not None`:         "line 1, column 3: write == nil or != nil instead of is",
		`1 if a else 2`:         "line 1, column 3: write condition ? value : other instead of value if condition else other",
		`[x for x in l]`:        "line 1, column 4: there is no for: write map(list, .name) or filter(list, # > 1)",
		`return a`:              "line 1, column 1: an expression has no statements: write condition ? value : other, or let name = value; result",
		`f"a"`:                  `line 1, column 1: there are no f-strings: write "text " + name`,
		`a.toUpperCase()`:       "line 1, column 3: values have no methods: expected a function or an operator, such as upper(text)",
		`datetime.now()`:        "line 1, column 10: values have no methods: expected a function or an operator, such as now()",
		`str(a)`:                "line 1, column 1: unknown function str: write string(value)",
		`parseInt(a)`:           "line 1, column 1: unknown function parseInt: write int(text)",
		`"===" + (a b)`:         "line 1, column 12: unexpected b: expected an operator or )",
	} {
		if _, err := Compile(text); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}
