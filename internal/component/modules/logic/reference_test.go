package logic

import (
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/kit/envref"
)

// Values without quotes and backslashes give the results that they gave when references were
// replaced in the text of an expression.
func TestReferencesInExpressionsKeepTheirResults(t *testing.T) {
	input := `{"name":"Ada","amount":1200,"rate_EUR":3,"prices":{"EUR":4},"list":[{"k":1},{"k":2}]}`
	for _, c := range []struct{ expression, value, result string }{
		{`name == "{{env.X}}"`, `Ada`, `true`},
		{`name == '{{env.X}}'`, `Eve`, `false`},
		{"name == `{{env.X}}`", `Ada`, `true`},
		{`"Dear {{env.X}}, {{env.X}}!"`, `Ada`, `"Dear Ada, Ada!"`},
		{`"{{env.X}}"`, `42`, `"42"`},
		{`"{{env.X}}" + name`, ``, `"Ada"`},
		{`amount > {{env.X}}`, `1000`, `true`},
		{`amount * {{env.X}}`, `1.5`, `1800`},
		{`amount + {{env.X}}`, `-5`, `1195`},
		{`[{{env.X}}]`, `1e3`, `[1000]`},
		{`[{{env.X}}, {{env.X}}]`, `9007199254740993`, `[9007199254740993,9007199254740993]`},
		{`{{env.X}}{{env.Y}}`, `1`, `12`},
		{`{{env.X}} and amount > 1`, `true`, `true`},
		{`not {{env.X}}`, `false`, `true`},
		{`name == {{env.X}}`, `nil`, `false`},
		{`rate_{{env.X}} * 2`, `EUR`, `6`},
		{`prices.{{env.X}}`, `EUR`, `4`},
		{`prices["{{env.X}}"]`, `EUR`, `4`},
		{`{ {{env.X}}: 1, "b{{env.X}}": 2 }`, `a`, `{"a":1,"ba":2}`},
		{`name matches "^{{env.X}}$"`, `A.a`, `true`},
		{`map(list, .k * {{env.X}})`, `3`, `[3,6]`},
		{`filter(list, .{{env.X}} > 1)`, `k`, `[{"k":2}]`},
		{`name /* {{env.X}} */`, `x`, `"Ada"`},
		{`{{env.X}}`, `amount > 1000 and name == "Ada"`, `true`},
		{` {{env.X}} `, `"a" + 'b'`, `"ab"`},
		{`len("{{ env.x }}")`, ``, `11`},
	} {
		got, err := Evaluate("TRANSFORM", raw(input), encoded(t, expressionConfig{c.expression}), inWorkflow(envref.Values{"X": c.value, "Y": "2"}))
		if want := `{"result":` + c.result + `}`; err != nil || string(got.Output) != want {
			t.Errorf("%s with %s: %s, %v; want %s", c.expression, c.value, got.Output, err, want)
		}
		replaced := strings.NewReplacer("{{env.X}}", c.value, "{{env.Y}}", "2").Replace(c.expression)
		before, err := Evaluate("TRANSFORM", raw(input), encoded(t, expressionConfig{replaced}), Scope{})
		if err != nil || string(before.Output) != string(got.Output) {
			t.Errorf("%s with %s: %s; before, it was %s, %v", c.expression, c.value, got.Output, before.Output, err)
		}
	}
}

func TestReferenceInExpressionIsNeverCode(t *testing.T) {
	for _, c := range []struct{ expression, value, result string }{
		{`name == "{{env.X}}"`, `" or true or "`, `false`},
		{`name == '{{env.X}}'`, `' or true or '`, `false`},
		{"name == `{{env.X}}`", "` or true or `", `false`},
		{`"{{env.X}}"`, `O"Brien\`, `"O\"Brien\\"`},
		{`"{{env.X}}"`, "line\nline\t\\n", `"line\nline\t\\n"`},
		{`"{{env.X}}"`, `{{env.Y}}`, `"{{env.Y}}"`},
		{`"{{env.X}}"`, "\u4e00\u4e00env\u4e00Y\u4e00\u4e00", "\"\u4e00\u4e00env\u4e00Y\u4e00\u4e00\""},
		{`name == {{env.X}}`, `name`, `false`},
		{`name == {{env.X}}`, `1 or true`, `false`},
		{`[{{env.X}}]`, `1, 2`, `["1, 2"]`},
		{`[{{env.X}}]`, `5 // five`, `["5 // five"]`},
		{`[{{env.X}}]`, `2024-01-01`, `["2024-01-01"]`},
		{`[{{env.X}}]`, `null`, `[null]`},
		{`[{{env.X}}]`, `123456789012345678901234567890`, `[123456789012345678901234567890]`},
		{`[{{env.X}}]`, `0x7c3aed0f1a2b3c4d5e6f708192a3b4c5d6e7f809`, `["0x7c3aed0f1a2b3c4d5e6f708192a3b4c5d6e7f809"]`},
		{`prices.{{env.X}} ?? 0`, `EUR ?? 7`, `0`},
		{`name matches "{{env.X}}"`, `" or "a" matches "a`, `false`},
		{`"{{env.X}}" /* {{env.X}} */`, `*/ + name`, `"*/ + name"`},
	} {
		got, err := Evaluate("TRANSFORM", raw(`{"name":"Eve","prices":{"EUR":4}}`), encoded(t, expressionConfig{c.expression}), inWorkflow(envref.Values{"X": c.value, "Y": "y"}))
		if want := `{"result":` + c.result + `}`; err != nil || string(got.Output) != want {
			t.Errorf("%s with %s: %s, %v; want %s", c.expression, c.value, got.Output, err, want)
		}
	}
	for module, config := range map[string]any{"IF": expressionConfig{`name == "{{env.X}}"`}, "SWITCH": switchConfig{[]switchCase{{"then", `name == "{{env.X}}"`}}}} {
		if got, err := Evaluate(module, raw(`{"name":"Eve"}`), encoded(t, config), inWorkflow(envref.Values{"X": `" or true or "`})); err != nil || got.Port == "then" {
			t.Errorf("%s: a value changed the condition: %+v, %v", module, got, err)
		}
	}
}

// Messages show references as they were written, and never the values.
func TestErrorsOfReferencesNameNoValue(t *testing.T) {
	for text, want := range map[string]string{
		`{{env.X}}(1)`:               "unknown function {{env.X}}",
		`let {{env.X}} = 1; 2`:       "{{env.X}} is a value",
		`amount {{env.X}} 1`:         "unexpected {{env.X}}",
		`rate_{{env.X}}`:             "unknown value rate_{{env.X}}",
		`amount.{{env.X}}`:           "cannot read {{env.X}} of a number",
		`"{{env.X}}" > 1`:            "line 1, column 13",
		`"a" matches "({{env.X}}"`:   "regular expression",
		`"{{env.MISSING}}" + "text"`: "there is no environment variable MISSING",
	} {
		_, err := Evaluate("TRANSFORM", raw(`{"name":"Ada","amount":1}`), encoded(t, expressionConfig{text}), inWorkflow(envref.Values{"X": "hunter2"}))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func TestSaveWarnsOfExpressionsWithReferences(t *testing.T) {
	for text, want := range map[string]string{
		`{{env.X}}`:              "",
		`name == "{{env.X}}"`:    "",
		`rate_{{env.X}} > 1`:     "",
		`name {{env.X}} 1`:       "EXPRESSION_INVALID",
		`lenn("{{env.X}}")`:      "EXPRESSION_INVALID",
		`nobody == "{{env.X}}"`:  "NAME_NOT_BROUGHT",
		`nobody ?? "{{env.X}}"`:  "NAME_NOT_BROUGHT",
		`name == "{{env.X}}`:     "EXPRESSION_INVALID",
		`name matches "{{env.X}`: "fault",
	} {
		config := encoded(t, expressionConfig{text})
		faults, warnings := reviewExpression(raw(`{"name":1}`), config, nil, nil)
		got := ""
		if len(warnings) == 1 {
			got = warnings[0].Code
		}
		if len(faults)+len(checkExpression(config, nil)) > 0 {
			got = "fault"
		}
		if got != want || len(warnings) > 1 {
			t.Errorf("%s: %s, want %s: %+v %+v", text, got, want, faults, warnings)
		}
	}
}

// inWorkflow is the scope of a component in a workflow with these variables.
func inWorkflow(variables envref.Values) Scope {
	return Scope{Context: expression.Context{Variables: variables}, Known: func(string) bool { return false }}
}
