package expression_test

import (
	"slices"
	"testing"

	"github.com/weft-automation/weft/internal/component/expression"
)

func TestNamesReturnsNeededValues(t *testing.T) {
	for text, want := range map[string][2][]string{
		`1 + 2`:                               {},
		`a + b.c[d]`:                          {{"a", "b"}, {"d"}},
		`a && b`:                              {{"a"}, {"b"}},
		`a or b`:                              {{"a"}, {"b"}},
		`a ?? b`:                              {nil, {"a", "b"}},
		`a?.b`:                                {nil, {"a"}},
		`a != nil && a > b`:                   {nil, {"a", "b"}},
		`a ? b : c`:                           {{"a"}, {"b", "c"}},
		`map(a, # * b)`:                       {{"a"}, {"b"}},
		`reduce(a, #acc + #, b)`:              {{"a", "b"}, nil},
		`let x = a; x + b`:                    {{"a", "b"}, nil},
		`{k: a, "l": [b]}`:                    {{"a", "b"}, nil},
		`len(a) > 0 and all(a, # in b)`:       {{"a"}, {"b"}},
		`not a ? 1 : a`:                       {{"a"}, nil},
		`[a, b][1:c]`:                         {{"a", "b", "c"}, nil},
		`filter(a, let y = #; y > z) | len()`: {{"a"}, {"z"}},
	} {
		program, err := expression.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if needed, others := program.Names(); !slices.Equal(needed, want[0]) || !slices.Equal(others, want[1]) {
			t.Errorf("%s needs %v and may take %v, want %v", text, needed, others, want)
		}
	}
}

// An evaluation fails without a needed name, but not necessarily without the others.
func TestEvaluationWithoutNeededNameFails(t *testing.T) {
	for _, text := range []string{`a + 1`, `a && true`, `let x = a; 1`, `[a]`, `{k: a}`, `map(a, 1)`, `not a`, `1 > 2 || a`, `a ?? 1`, `a?.b`, `1 > 2 ? a : 1`, `map([], a)`, `a != nil && a > 1`} {
		program, err := expression.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		needed, others := program.Names()
		if slices.Contains(others, "a") == slices.Contains(needed, "a") {
			t.Errorf("%s: %v, %v", text, needed, others)
		}
		if _, err := program.Run(nil); slices.Contains(needed, "a") && err == nil {
			t.Errorf("%s was evaluated without a", text)
		}
	}
}
