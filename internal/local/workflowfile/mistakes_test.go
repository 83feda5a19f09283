package workflowfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/local/workflowfile"
)

// mistakes are files as users of other tools write them. The line of the mistake is the one with a ~,
// which the test removes.
var mistakes = []struct{ tool, file, want string }{
	{"GitHub Actions", "name: a\n~jobs: {}", `line 2: jobs: this is not a field here: write components`},
	{"GitHub Actions", "name: a\n~on: push\ncomponents: {}", `line 2: on: this is not a field here: remove it, and write a first component with the module ON_API_CALLED, ON_SCHEDULE or ON_WEBHOOK`},
	{"GitHub Actions", "name: a\n~env: {A: b}\ncomponents: {}", `line 2: env: this is not a field here: remove it: variables belong to the workspace (weft env set NAME), and {{env.NAME}} refers to one`},
	{"GitHub Actions", "name: a\n~steps:\n  a: {module: X}", `line 2: steps: this is not a field here: write components`},
	{"GitHub Actions", "components:\n  a:\n~    uses: X", `line 3: components.a.uses: this is not a field here: write module`},
	{"GitHub Actions", "components:\n  a:\n    module: X\n~    needs: a", `line 4: components.a.needs: this is not a field here: write after, with the names of the components that come first`},
	{"GitHub Actions", "components:\n  a:\n    module: X\n~    with: {v: 1}", `line 4: components.a.with: this is not a field here: write input`},
	{"GitHub Actions", "components:\n  a:\n    module: X\n~    if: true", `line 4: components.a.if: this is not a field here: write a component with the module IF or SWITCH before it, and after: COMPONENT.then`},
	{"GitHub Actions", "components:\n  a:\n    module: X\n~    run: echo", `line 4: components.a.run: this is not a field here: write a component with the module TRANSFORM and the expression in config`},
	{"GitHub Actions", "components:\n  a:\n    module: X\n~    continue-on-error: true", `line 4: components.a.continue-on-error: this is not a field here: write onFailure: continue`},
	{"GitHub Actions", "components:\n  a:\n    module: X\n~    timeout-minutes: 5", `line 4: components.a.timeout-minutes: this is not a field here: write timeout with a unit, such as timeout: 90s`},
	{"GitHub Actions", "components:\n  a:\n    module: X\n~    strategy: {matrix: []}", `line 4: components.a.strategy: this is not a field here: write a component with the module FOR_EACH before it, and after: COMPONENT.each`},
	{"n8n", "name: a\n~nodes: {}", `line 2: nodes: this is not a field here: write components`},
	{"n8n", "name: a\n~connections: {}\ncomponents: {}", `line 2: connections: this is not a field here: write a reference such as "{{start.amount}}" in the component that needs the value`},
	{"n8n", "components:\n  a:\n~    type: X", `line 3: components.a.type: this is not a field here: write module`},
	{"n8n", "components:\n  a:\n    module: X\n~    parameters: {v: 1}", `line 4: components.a.parameters: this is not a field here: write input`},
	{"n8n", "components:\n  a:\n    module: X\n~    retryOnFail: true", `line 4: components.a.retryOnFail: this is not a field here: write retry, such as retry: {maxElapsed: 1h}, or attempts, from 1 to 3`},
	{"n8n", "components:\n  a:\n    module: X\n~    continueOnFail: true", `line 4: components.a.continueOnFail: this is not a field here: write onFailure: continue`},
	{"n8n", "components:\n  a:\n    module: X\n~    disabled: true", `line 4: components.a.disabled: this is not a field here: remove it, or remove the whole component`},
	{"Step Functions", "name: a\n~StartAt: b\ncomponents: {}", `line 2: StartAt: this is not a field here: remove it: the first component starts`},
	{"Step Functions", "name: a\n~States: {}", `line 2: States: this is not a field here: write components`},
	{"Step Functions", "name: a\n~Comment: b\ncomponents: {}", `line 2: Comment: this is not a field here: write description`},
	{"Step Functions", "components:\n  a:\n~    Resource: X", `line 3: components.a.Resource: this is not a field here: write module`},
	{"Step Functions", "components:\n  a:\n    module: X\n~    Next: b", `line 4: components.a.Next: this is not a field here: write after in the component that follows`},
	{"Step Functions", "components:\n  a:\n    module: X\n~    End: true", `line 4: components.a.End: this is not a field here: remove it: the last components of a workflow end it`},
	{"Step Functions", "components:\n  a:\n    module: X\n~    Catch: []", `line 4: components.a.Catch: this is not a field here: write a component that has after: COMPONENT.error`},
	{"Step Functions", "components:\n  a:\n    module: X\n~    Retry: 3", `line 4: components.a.Retry: this is not a field here: write retry`},
	{"Step Functions", "components:\n  a:\n    module: X\n~    ResultPath: $.a", `line 4: components.a.ResultPath: this is not a field here: remove it: other components refer to outputs, such as {{load.body.id}}`},
	{"Step Functions", "components:\n  a:\n    module: X\n~    TimeoutSeconds: 3", `line 4: components.a.TimeoutSeconds: this is not a field here: write timeout with a unit, such as timeout: 90s`},
	{"Serverless Workflow", "name: a\n~do: []", `line 2: do: this is not a field here: write components`},
	{"Serverless Workflow", "name: a\n~functions: []", `line 2: functions: this is not a field here: write components`},
	{"Serverless Workflow", "components:\n  a:\n~    call: http", `line 3: components.a.call: this is not a field here: write module`},
	{"Serverless Workflow", "components:\n  a:\n    module: X\n~    then: b", `line 4: components.a.then: this is not a field here: write after in the component that follows`},
	{"Argo", "components:\n  a:\n    module: X\n~    dependsOn: a", `line 4: components.a.dependsOn: this is not a field here: write after, with the names of the components that come first`},
	{"Ansible", "components:\n  a:\n    module: X\n~    register: b", `line 4: components.a.register: this is not a field here: remove it: other components refer to outputs, such as {{load.body.id}}`},
	{"Ansible", "components:\n  a:\n    module: X\n~    when: b", `line 4: components.a.when: this is not a field here: write a component with the module IF or SWITCH before it, and after: COMPONENT.then`},
	{"Ansible", "components:\n  a:\n    module: X\n~    until: b", `line 4: components.a.until: this is not a field here: write a component with the module REPEAT before it, after: COMPONENT.each, and a CONTINUE`},
	{"Ansible", "components:\n  a:\n    module: X\n~    loop: b", `line 4: components.a.loop: this is not a field here: write a component with the module FOR_EACH before it, and after: COMPONENT.each`},
	{"case", "components:\n  a:\n    module: X\n~    onfailure: continue", `line 4: components.a.onfailure: this is not a field here: write onFailure`},
	{"case", "components:\n  a:\n    module: X\n~    retries: 3", `line 4: components.a.retries: this is not a field here: write retry, such as retry: {maxElapsed: 1h}, or attempts, from 1 to 3`},
	{"case", "components:\n  a:\n    module: API_CALL\n~    apiURL: https://a.example", `line 4: components.a.apiURL: this is not a field here: write it in config, as apiUrl`},
	{"YAML", "components:\n~\ta: {module: X}", `line 2: replace the tab at the start of the line by spaces`},
	{"YAML", "name: a\n~x: @b", `line 2: put quotes around a value that starts with @: x: "@…"`},
	{"YAML", "name: a\n~x: `b`", `line 2: put quotes around a value that starts with a backtick`},
	{"YAML", "name: a\n~description: note: b\ncomponents: {}", `line 2: put quotes around a value that has a colon followed by a space: description: "…: …"`},
	{"YAML", "name: a\n~x: 'it's'", `line 2: write an apostrophe inside of single quotes twice, or use double quotes: x: "…"`},
	{"YAML", "name: a\n~x: \"b\ny: 1", `line 2: close the quotes of the value`},
	{"YAML", "name: a\n~x: \"\\d\"", `line 2: a backslash in double quotes starts an escape sequence: use single quotes: x: '…'`},
	{"YAML", "name: a\n~x: [1, 2\ny: 3", `line 2: close the bracket of the list with ]`},
	{"YAML", "name: a\n~x: {b: 1\ny: 3", `line 2: close the brace of the object with }`},
	{"YAML", "name: a\n~x: 010", `line 2: x: write the number 010 in decimal form, or the string in quotes`},
	{"YAML", "name: a\n~x: 0x1F", `line 2: x: write the number 0x1F in decimal form, or the string in quotes`},
	{"YAML", "name: a\n~x: *b", `line 2: put quotes around a value that starts with *: x: "*…"`},
	{"YAML", "components:\n  a: &b {module: X}\n~  c: *b", `line 3: components.c: anchors and aliases (&, *) are not supported: write the value again`},
	{"YAML", "x: &b {v: 1}\ny:\n~  <<: *b", `line 3: y.<<: merge keys (<<) are not supported: write the fields again`},
	{"YAML", "name: a\n~---\nname: b", `line 2: the file has more than one YAML document: write each workflow into a file`},
	{"YAML", "x: &b\n~  v: *b", `line 2: x.v: anchors and aliases (&, *) are not supported: write the value again`},
	{"duration", "components:\n  a:\n    module: DELAY\n~    config: {durationMs: 90s}", `line 4: components.a.config.durationMs: durationMs takes milliseconds without a unit: write duration: 90s`},
	{"duration", "components:\n  a:\n    module: X\n~    timeoutMs: 5m", `line 4: components.a.timeoutMs: timeoutMs takes milliseconds without a unit: write timeout: 5m`},
	{"YAML", "name: a\n~x: !ref b", `line 2: x: the tag !ref is not supported: remove it, or put quotes around the value`},
	{"YAML", "name: a\n~x: - b", `line 2: start the list on the next line, or write it in brackets: x: [a, b]`},
	{"YAML", "name: a\n~x: > b", `line 2: put quotes around a value that starts with | or >, or start the text on the next line: x: "…"`},
	{"YAML", "name: a\n~name: b", `line 2: name: the key "name" occurs twice: remove or rename one of them`},
	{"YAML", "a:\n    b: c\n~  d: e", `line 3: YAML cannot read this line. Check its indentation, quotes and brackets: fields of one object start in the same column`},
	{"Jinja", "name: a\n~v: {{start.n}}", `line 2: v: put quotes around a reference in double braces, such as "{{start.amount}}"`},
	{"Jinja", "name: a\n~v: {{ start.n }} items", `line 2: put quotes around a reference in double braces: v: "{{…}}"`},
	{"Jinja", "name: a\nx:\n~  - {{ start.n }}", `line 3: x[0]: put quotes around a reference in double braces, such as "{{start.amount}}"`},
	{"Jinja", "name: a\n~x: {v: {{ start.n }} items, w: 1}", `line 2: put quotes around a reference in double braces: v: "{{…}}"`},
	{"Jinja", "name: a\n~v: {{ start[\"a\"] }}", `line 2: put quotes around a reference in double braces: v: "{{…}}"`},
	{"Jinja", "name: a\n~v: {% if a %}", `line 2: YAML cannot read this line. Check its indentation, quotes and brackets: fields of one object start in the same column`},
}

func TestMistakesAreAnsweredWithWhatToWrite(t *testing.T) {
	t.Parallel()
	if len(mistakes) < 60 {
		t.Errorf("%d mistakes", len(mistakes))
	}
	for _, m := range mistakes {
		_, err := workflowfile.Read([]byte(strings.Replace(m.file, "~", "", 1)))
		if err == nil || err.Error() != m.want {
			t.Errorf("%s: %s\ngot  %v\nwant %s", m.tool, m.file, err, m.want)
		}
		if line := fmt.Sprintf("line %d: ", 1+strings.Count(m.file[:strings.Index(m.file, "~")], "\n")); !strings.HasPrefix(m.want, line) {
			t.Errorf("%s: %q does not name the line of %s", m.tool, m.want, m.file)
		}
	}
}

// An anchor that no alias uses changes nothing. What an alias stands for is checked as if it were written
// again, within limits.
func TestAliasesAreReadAsWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	if file, err := workflowfile.Read([]byte("components: {a: &b {module: X}}")); err != nil || !strings.Contains(string(file.JSON), `{"id":"a","module":"X"}`) {
		t.Errorf("an anchor: %s, %v", file.JSON, err)
	}
	file, err := workflowfile.Read([]byte("components: {a: &b {module: X, config: {v: 1}}, c: *b, d: {<<: *b, module: Y}}"))
	if want := `{"id":"c","module":"X","config":{"v":1}},{"id":"d","config":{"v":1},"module":"Y"}`; err == nil || !strings.Contains(string(file.JSON), want) {
		t.Errorf("got %s, %v, want %s", file.JSON, err, want)
	}
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 20 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	if file, err = workflowfile.Read([]byte(text)); err == nil || len(file.JSON) > 1<<20 {
		t.Errorf("%d bytes, %v", len(file.JSON), err)
	}
}

func TestAllMistakesOfAFileAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := workflowfile.Read([]byte("name: @a\nsteps:\n  load: {uses: X, retries: 3}\n  ship: {module: X, needs: laod, with: {v: {{load.n}}}}\n  note:\n    module: DELAY\n    config: {duration: soon}\n"))
	want := []string{
		`line 1: put quotes around a value that starts with @: name: "@…"`,
		"line 2: steps: this is not a field here: write components",
		"line 3: components.load.uses: this is not a field here: write module",
		"line 3: components.load.retries: this is not a field here: write retry, such as retry: {maxElapsed: 1h}, or attempts, from 1 to 3",
		"line 4: components.ship.needs: this is not a field here: write after, with the names of the components that come first",
		`line 4: components.ship.after: "laod" is not a component or COMPONENT.PORT. Did you mean load? The components are load, ship, note`,
		"line 4: components.ship.with: this is not a field here: write input",
		`line 4: steps.ship.with.v: put quotes around a reference in double braces, such as "{{start.amount}}"`,
		`line 7: components.note.config.duration: expected a duration with the units d, h, m, s and ms, such as 90s, 36h or 1h30m; durationMs takes milliseconds`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n  ") {
		t.Errorf("got  %v\nwant %s", err, strings.Join(want, "\n  "))
	}
}

func TestFaultsNameWhatTheFileHas(t *testing.T) {
	t.Parallel()
	file, err := workflowfile.Read([]byte("components:\n  a: {module: ON_API_CALLED}\n  b:\n    module: DELAY\n    config: {duration: 2s}\n    input: {x: [1]}\n  c: {module: X, after: [a, b]}\ndataConnections: [{from: {}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]string{
		"": "", "/name": "name", "/components/1/config/durationMs": "components.b.config.duration", "/components/1/input/x/0": "components.b.input.x[0]",
		"/sequenceEdges/0": "components.b.after", "/sequenceEdges/2/to": "components.c.after", "/dataConnections/0/from/output": "dataConnections[0].from.output", "/components/9/x": "components[9].x",
	} {
		if got := file.Name(pointer); got != want {
			t.Errorf("%s is %q, want %q", pointer, got, want)
		}
	}
	if file, err = workflowfile.Read([]byte("components: [{id: a}]")); err != nil || file.Name("/components/0") != "/components/0" {
		t.Errorf("the API's form: %q, %v", file.Name("/components/0"), err)
	}
}
