package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/workflowfile"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/workflow"
)

// library returns a Service with all modules.
func (b *bench) library(t *testing.T) *workflow.Service {
	t.Helper()
	registry, err := component.NewRegistry(modules.All(egress.New(egress.Policy{}))...)
	if err != nil {
		t.Fatal(err)
	}
	return b.serviceOf(t, registry)
}

// drawn returns a draft. Edges have the form "from port to", connections "from.path to.input".
func drawn(components string, edges, connections []string) workflow.Draft {
	d := draft("drawn", "["+components+"]")
	var sequence, data []string
	for i, edge := range edges {
		words := strings.Fields(edge)
		sequence = append(sequence, fmt.Sprintf(`{"id":"e%d","from":%q,"port":%q,"to":%q}`, i, words[0], words[1], words[2]))
	}
	for i, connection := range connections {
		words := strings.Fields(connection)
		from, output, _ := strings.Cut(words[0], ".")
		to, input, _ := strings.Cut(words[1], ".")
		data = append(data, fmt.Sprintf(`{"id":"d%d","from":{"componentId":%q,"output":%q},"to":{"componentId":%q,"input":%q}}`, i, from, output, to, input))
	}
	d.SequenceEdges = json.RawMessage("[" + strings.Join(sequence, ",") + "]")
	d.DataConnections = json.RawMessage("[" + strings.Join(data, ",") + "]")
	return d
}

// found returns the result of a save: errors and warnings, as "CODE pointer".
func found(t *testing.T, made api.Workflow, err error) (faults, warnings []string) {
	t.Helper()
	if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Unprocessable {
		for _, d := range failure.Details {
			faults = append(faults, d.Code+" "+d.Pointer)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	if made.Warnings != nil {
		for _, w := range *made.Warnings {
			warnings = append(warnings, w.Code+" "+w.Pointer)
		}
	}
	return faults, warnings
}

// A save rejects what can never work. It returns warnings about what is only suspicious.
func TestSaveRejectsProblemsAndReturnsWarnings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := b.library(t)
	const (
		start  = `{"id":"start","module":"ON_API_CALLED"}`
		typed  = `{"id":"start","module":"ON_API_CALLED","config":{"inputSchema":{"type":"object","properties":{"amount":{"type":"string"},"order":{"type":"object","properties":{"id":{}},"additionalProperties":false}}}}}`
		closed = `{"id":"start","module":"ON_API_CALLED","config":{"inputSchema":{"type":"object","properties":{"amount":{}},"additionalProperties":false}}}`
		end    = `,{"id":"end","module":"RESPOND"}`
		call   = `{"id":"call","module":"API_CALL","input":{"headers":{}},"config":{"apiUrl":"https://a.test/","method":"GET","outputMapping":{"price":"data.price"}}}`
	)
	responds := func(value string) string { return `{"id":"a","module":"RESPOND","input":{"t":` + value + `}}` }
	logic := func(module, config string) string {
		return `{"id":"a","module":"` + module + `","config":` + config + `}`
	}
	for name, c := range map[string]struct {
		components         string
		edges, connections []string
		faults, warnings   []string
	}{
		"nothing": {components: start + end, edges: []string{"start next end"}},

		"attempts of what a run does":          {components: `{"id":"a","module":"DELAY","attempts":2,"config":{"durationMs":1}}`, faults: []string{"INVALID_SETTING /components/0/attempts"}},
		"one attempt of what a run does":       {components: `{"id":"a","module":"DELAY","attempts":1,"config":{"durationMs":1}}`},
		"a timeout of what takes no time":      {components: `{"id":"a","module":"JSON_CONSTANT","timeoutMs":5,"config":{"value":1}}`, faults: []string{"INVALID_SETTING /components/0/timeoutMs"}},
		"a timeout of a wait until a time":     {components: `{"id":"a","module":"WAIT_UNTIL","timeoutMs":5,"config":{"timestamp":"2026-12-24T18:00:00Z"}}`, faults: []string{"INVALID_SETTING /components/0/timeoutMs"}},
		"a timeout of a delay":                 {components: `{"id":"a","module":"DELAY","timeoutMs":5,"config":{"durationMs":1}}`},
		"a timeout and attempts of a call":     {components: strings.Replace(call, `"module"`, `"attempts":3,"timeoutMs":5,"module"`, 1)},
		"a timeout of a loop":                  {components: `{"id":"a","module":"FOR_EACH","timeoutMs":5,"input":{"items":[]}}` + end, edges: []string{"a each end"}, warnings: []string{"RESPOND_IN_LOOP /components/1"}},
		"a timeout of a run of a workflow":     {components: `{"id":"a","module":"RUN_WORKFLOW","timeoutMs":5,"config":{"workflowId":"019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"}}`, warnings: []string{"WORKFLOW_NOT_FOUND /components/0/config/workflowId"}},
		"a run of a workflow by its key":       {components: `{"id":"a","module":"RUN_WORKFLOW","config":{"workflow":"nobody"}}`, warnings: []string{"WORKFLOW_NOT_FOUND /components/0/config/workflow"}},
		"a timeout of a wait":                  {components: `{"id":"a","module":"WAIT_FOR_SIGNAL","timeoutMs":5,"config":{"name":"n","timeoutMs":9}}` + end, edges: []string{"a timeout end"}},
		"a wait without an edge for its end":   {components: logic("WAIT_FOR_SIGNAL", `{"name":"n","timeoutMs":9}`) + end, edges: []string{"a next end"}, warnings: []string{"TIMEOUT_UNHANDLED /components/0"}},
		"a loop without a body":                {components: `{"id":"a","module":"FOR_EACH","input":{"items":[1]}}` + end, edges: []string{"a done end"}, warnings: []string{"LOOP_WITHOUT_BODY /components/0"}},
		"a condition without edges":            {components: logic("IF", `{"expression":"1 > 0"}`), warnings: []string{"BRANCH_WITHOUT_EDGES /components/0"}},
		"a condition whose output is taken":    {components: logic("IF", `{"expression":"1 > 0"}`) + end, connections: []string{"a.result end.x"}},
		"a condition with one edge":            {components: logic("IF", `{"expression":"1 > 0"}`) + end, edges: []string{"a then end"}},
		"a switch with a case without an edge": {components: logic("SWITCH", `{"cases":[{"name":"x","expression":"1 > 0"},{"name":"y","expression":"1 > 0"}]}`) + end, edges: []string{"a x end"}, warnings: []string{"CASE_WITHOUT_EDGE /components/0"}},

		"a name that no input brings":         {components: logic("TRANSFORM", `{"expression":"amount * 2"}`), faults: []string{"INVALID_INPUT /components/0/config/expression"}},
		"a name that is written":              {components: `{"id":"a","module":"TRANSFORM","input":{"amount":1},"config":{"expression":"amount * 2"}}`},
		"a name that a connection brings":     {components: start + `,` + logic("TRANSFORM", `{"expression":"amount.total * 2"}`), edges: []string{"start next a"}, connections: []string{"start.amount a.amount.total"}},
		"a name with a default":               {components: logic("TRANSFORM", `{"expression":"amount ?? 2"}`), warnings: []string{"NAME_NOT_BROUGHT /components/0/config/expression"}},
		"a name in a part that may not count": {components: logic("TRANSFORM", `{"expression":"1 > 2 ? amount : 3"}`), warnings: []string{"NAME_NOT_BROUGHT /components/0/config/expression"}},
		"a name in a case":                    {components: logic("SWITCH", `{"cases":[{"name":"x","expression":"1 > 2"},{"name":"y","expression":"y > 0"}]}`) + end, edges: []string{"a x end", "a y end"}, faults: []string{"INVALID_INPUT /components/0/config/cases/1/expression"}},
		"a name next to a variable":           {components: logic("TRANSFORM", `{"expression":"{{env.NAME}} + amount"}`), warnings: []string{"NAME_NOT_BROUGHT /components/0/config/expression", "VARIABLE_NOT_FOUND /components/0/config/expression"}},
		"a name that a variable completes":    {components: logic("TRANSFORM", `{"expression":"rate_{{env.NAME}}"}`), warnings: []string{"VARIABLE_NOT_FOUND /components/0/config/expression"}},
		"a variable instead of an operator":   {components: logic("TRANSFORM", `{"expression":"1 {{env.NAME}} 2"}`), warnings: []string{"EXPRESSION_INVALID /components/0/config/expression", "VARIABLE_NOT_FOUND /components/0/config/expression"}},
		"a variable with the expression":      {components: logic("TRANSFORM", `{"expression":"{{env.NAME}}"}`), warnings: []string{"VARIABLE_NOT_FOUND /components/0/config/expression"}},

		"a null of another language":            {components: logic("TRANSFORM", `{"expression":"null == 1"}`), faults: []string{"INVALID_INPUT /components/0/config/expression"}},
		"an input with the name of a word":      {components: `{"id":"a","module":"TRANSFORM","input":{"nil":1,"true":2,"x":3},"config":{"expression":"x"}}`, warnings: []string{"INPUT_UNREADABLE /components/0/input/nil", "INPUT_UNREADABLE /components/0/input/true"}},
		"the length of an input":                {components: `{"id":"a","module":"TRANSFORM","input":{"l":[1]},"config":{"expression":"l.length"}}`, warnings: []string{"LENGTH_IS_FIELD /components/0/config/expression"}},
		"the length of an output":               {components: start + `,{"id":"end","module":"RESPOND","input":{"n":"{{ start.items.length }}","m":"{{ first(start.items).length }}"}}`, edges: []string{"start next end"}, warnings: []string{"LENGTH_IS_FIELD /components/1/input/m", "LENGTH_IS_FIELD /components/1/input/n"}},
		"the length of a string field":          {components: typed + `,{"id":"end","module":"RESPOND","input":{"n":"{{ start.triggeredAt.length }}"}}`, edges: []string{"start next end"}, faults: []string{"UNKNOWN_OUTPUT /components/1/input/n"}},
		"a statement of a template":             {components: `{"id":"a","module":"RESPOND","input":{"t":"{% if x %}a{% endif %}"}}`, warnings: []string{"REFERENCE_IS_TEXT /components/0/input/t"}},
		"a $ before a reference":                {components: responds(`"${{ run.id }}"`), warnings: []string{"REFERENCE_IS_TEXT /components/0/input/t"}},
		"a = before a reference":                {components: responds(`"={{ run.id }}"`), warnings: []string{"REFERENCE_IS_TEXT /components/0/input/t"}},
		"a reference of JavaScript":             {components: responds(`"id ${run.id}"`), warnings: []string{"REFERENCE_IS_TEXT /components/0/input/t"}},
		"a reference of Tekton":                 {components: responds(`"$(a.x)"`), warnings: []string{"REFERENCE_IS_TEXT /components/0/input/t"}},
		"a reference of ERB":                    {components: responds(`"<%= run.id %>"`), warnings: []string{"REFERENCE_IS_TEXT /components/0/input/t"}},
		"a reference of Python":                 {components: responds(`"id {run.id}"`), warnings: []string{"REFERENCE_IS_TEXT /components/0/input/t"}},
		"a variable of a shell":                 {components: responds(`"$run.id"`), warnings: []string{"REFERENCE_IS_TEXT /components/0/input/t"}},
		"what only looks like one":              {components: responds(`"$12 ${HOME} {x.y} $(ls) $.run.id a$run.id {run} {\"a\":{\"b\":1}} {{ run.id }}"`)},
		"a component without an output":         {components: call + `,{"id":"r","module":"RUN_WORKFLOW","config":{"workflowId":"019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"}},{"id":"end","module":"RESPOND","input":{"n":"{{ r }}"}}`, edges: []string{"call next r", "r next end"}, faults: []string{"INVALID_REFERENCE /components/2/input/n"}},
		"a reference that is not closed":        {components: `{"id":"a","module":"RESPOND","input":{"t":"{{ start.x }"}}`, faults: []string{"INVALID_REFERENCE /components/0/input/t"}},
		"a response in a loop":                  {components: `{"id":"a","module":"FOR_EACH","input":{"items":[1]}},{"id":"end","module":"RESPOND"}`, edges: []string{"a each end"}, warnings: []string{"RESPOND_IN_LOOP /components/1"}},
		"a response after a loop":               {components: `{"id":"a","module":"FOR_EACH","input":{"items":[1]}},{"id":"b","module":"ARRAY_BUILDER"},{"id":"end","module":"RESPOND"}`, edges: []string{"a each b", "a done end"}},
		"an index in brackets, in a connection": {components: start + end, edges: []string{"start next end"}, connections: []string{"start.items[0].id end.x[0]"}, faults: []string{"UNKNOWN_OUTPUT /dataConnections/0/from/output", "UNKNOWN_INPUT /dataConnections/0/to/input"}},

		"an input that an output hides": {components: strings.Replace(start, "}", `,"config":{"inputSchema":{"type":"object","properties":{"input":{},"triggeredAt":{},"amount":{}}}}}`, 1) + end, edges: []string{"start next end"}, warnings: []string{"INPUT_SHADOWED /components/0/config/inputSchema/properties/input", "INPUT_SHADOWED /components/0/config/inputSchema/properties/triggeredAt"}},

		"an unknown name":                    {components: `{"id":"a","module":"RESPOND","input":{"text":["Dear {{ customer.name }}"]}}`, faults: []string{"INVALID_REFERENCE /components/0/input/text/0"}},
		"an unknown name next to a variable": {components: `{"id":"a","module":"RESPOND","input":{"text":"{{env.GREETING}} {{name}}"}}`, faults: []string{"INVALID_REFERENCE /components/0/input/text"}},
		"spaces around a reference":          {components: `{"id":"a","module":"RESPOND","input":{"text":"{{ env.GREETING }}\n"}}`, warnings: []string{"REFERENCE_IS_TEXT /components/0/input/text", "VARIABLE_NOT_FOUND /components/0/input/text"}},
		"spaces in a reference":              {components: `{"id":"a","module":"RESPOND","input":{"text":"{{ env.GREETING }}"}}`, warnings: []string{"VARIABLE_NOT_FOUND /components/0/input/text"}},
		"a variable":                         {components: `{"id":"a","module":"RESPOND","input":{"text":"{{env.GREETING}}"}}`, warnings: []string{"VARIABLE_NOT_FOUND /components/0/input/text"}},

		"a path into a constant":             {components: logic("JSON_CONSTANT", `{"value":{"a":[{"b":1}]}}`) + end, connections: []string{"a.value.a.0.b end.x"}},
		"a path that a constant has not":     {components: logic("JSON_CONSTANT", `{"value":{"a":[{"b":1}]}}`) + end, connections: []string{"a.value.a.0.c end.x"}, faults: []string{"UNKNOWN_OUTPUT /dataConnections/0/from/output"}},
		"a mapped output of a call":          {components: call + end, edges: []string{"call next end"}, connections: []string{"call.price.usd end.x"}},
		"an output that no call has":         {components: call + end, edges: []string{"call next end"}, connections: []string{"call.prize end.x"}, faults: []string{"UNKNOWN_OUTPUT /dataConnections/0/from/output"}},
		"an output of a response":            {components: `{"id":"a","module":"RESPOND","input":{"x":{"y":1}}}` + end, edges: []string{"a next end"}, connections: []string{"a.x.y end.x"}},
		"an output that a response has not":  {components: `{"id":"a","module":"RESPOND","input":{"x":{"y":1}}}` + end, edges: []string{"a next end"}, connections: []string{"a.z end.x"}, faults: []string{"UNKNOWN_OUTPUT /dataConnections/0/from/output"}},
		"a member of any input":              {components: start + end, edges: []string{"start next end"}, connections: []string{"start.amount end.x", "start.input.order.id end.y"}},
		"members that the schema names":      {components: typed + end, edges: []string{"start next end"}, connections: []string{"start.amount end.x", "start.input.order.id end.y", "start.triggeredAt end.z"}},
		"a member that the schema rules out": {components: closed + end, edges: []string{"start next end"}, connections: []string{"start.input.amout end.x"}, faults: []string{"UNKNOWN_OUTPUT /dataConnections/0/from/output"}},
		"a member of what the schema closes": {components: typed + end, edges: []string{"start next end"}, connections: []string{"start.order.name end.x"}, faults: []string{"UNKNOWN_OUTPUT /dataConnections/0/from/output"}},
		"a member that the schema names not": {components: typed + end, edges: []string{"start next end"}, connections: []string{"start.amout end.x"}, warnings: []string{"OUTPUT_NOT_DECLARED /dataConnections/0/from/output"}},
		"a path below a string field":        {components: typed + end, edges: []string{"start next end"}, connections: []string{"start.amount.value end.x"}, faults: []string{"UNKNOWN_OUTPUT /dataConnections/0/from/output"}},
	} {
		made, _, err := service.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: drawn(c.components, c.edges, c.connections)})
		faults, warnings := found(t, made, err)
		if !slices.Equal(faults, c.faults) || !slices.Equal(warnings, c.warnings) {
			t.Errorf("%s: faults %v, want %v; warnings %v, want %v; %v", name, faults, c.faults, warnings, c.warnings, err)
		}
	}
}

// Every save returns warnings, even if it is repeated with its Idempotency-Key. A read returns no
// warnings.
func TestEverySaveReturnsItsWarnings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := b.library(t)
	d := drawn(`{"id":"a","module":"FOR_EACH","input":{"items":[1]}}`, nil, nil)
	want := []string{"LOOP_WITHOUT_BODY /components/0"}
	key := idempotency.Key{WorkspaceID: b.workspace, Operation: "createWorkflow", Path: "/v1/sdk/workflows", Key: "1"}
	var id uuid.UUID
	for range 2 {
		made, _, err := service.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d, Idempotency: &key})
		if _, warnings := found(t, made, err); !slices.Equal(warnings, want) {
			t.Errorf("create: %v", warnings)
		}
		id = made.ID
	}
	replaced, err := service.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: id, Draft: d})
	if _, warnings := found(t, replaced, err); !slices.Equal(warnings, want) {
		t.Errorf("replace: %v", warnings)
	}
	updated, err := service.UpdateComponent(b.ctx, workflow.UpdateParams{WorkspaceID: b.workspace, WorkflowID: id, ComponentID: "a", Config: json.RawMessage(`{"concurrency":2}`)})
	if _, warnings := found(t, api.Workflow{Warnings: updated.Warnings}, err); !slices.Equal(warnings, want) {
		t.Errorf("update: %v", warnings)
	}
	if read, err := service.Get(b.ctx, b.workspace, id, nil); err != nil || read.Warnings != nil {
		t.Errorf("get: %v, %v", read.Warnings, err)
	}
}

// A stored version still runs, even if it would be rejected now.
func TestStoredVersionThatWouldBeRejectedNowStillRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := b.library(t)
	d := drawn(`{"id":"a","module":"TRANSFORM","input":{"n":1},"config":{"expression":"n"}}`, nil, nil)
	made, _, err := service.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`INSERT INTO workflow_versions (workspace_id, workflow_id, version, name, description, definition, created_at)
			SELECT workspace_id, workflow_id, 2, name, description,
			       replace(replace(definition::text, '"expression":"n"', '"expression":"m"'), '"module":', '"attempts":2,"module":')::json, created_at
			FROM workflow_versions WHERE workflow_id = $1`,
		`UPDATE workflows SET version = 2 WHERE id = $1`,
	} {
		if _, err := b.pool.Exec(t.Context(), statement, made.ID); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := b.library(t).Load(b.ctx, b.scoped, b.workspace, made.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := loaded.Plan.Component("a"); c.Attempts != 2 {
		t.Errorf("%+v", c)
	}
	if _, err := service.UpdateComponent(b.ctx, workflow.UpdateParams{WorkspaceID: b.workspace, WorkflowID: made.ID, ComponentID: "a", Name: new("again")}); err == nil {
		t.Error("it was saved again")
	}
}

// workflowBlocks matches the workflows in Markdown.
var workflowBlocks = regexp.MustCompile("(?s)```(?:json|yaml) title=\"[^\"\n]+\\.(json|yaml)\"\n(.*?)\n```")

// The workflows in the README and the guides have no warnings.
func TestWorkflowsOfTheDocsHaveNoWarnings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := b.library(t)
	shown := map[string]string{}
	for _, path := range []string{"../../README.md", "../web/portal/guides/own-code.md", "../web/portal/guides/triggers.md", "../web/portal/guides/failures.md", "../web/portal/guides/loops.md", "../web/portal/guides/workflows.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := workflowBlocks.FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no workflow", path)
		}
		for i, block := range blocks {
			text := block[2]
			if block[1] == "yaml" {
				file, err := workflowfile.Read([]byte(text))
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				text = string(file.JSON)
			}
			shown[fmt.Sprintf("%s, workflow %d", path, i+1)] = text
		}
	}
	for _, path := range []string{"../local/demo/approval.json", "../local/demo/fan-out.json"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		shown[path] = string(text)
	}
	for path, text := range shown {
		var w api.CreateWorkflowRequest
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		made, _, err := service.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: workflow.Draft{
			Name: w.Name, Components: w.Components, SequenceEdges: w.SequenceEdges, DataConnections: w.DataConnections,
		}})
		faults, warnings := found(t, made, err)
		warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.HasSuffix(strings.Fields(w)[0], "_NOT_FOUND") })
		if len(faults)+len(warnings) > 0 {
			t.Errorf("%s: %v %v", path, faults, warnings)
		}
	}
}

// The trigger's own outputs hide fields with the same names of an input schema of the workflow, too.
func TestSaveWarnsOfShadowedInputs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := b.library(t)
	for module, want := range map[string]string{"ON_API_CALLED": "INPUT_SHADOWED /inputSchema/properties/triggeredAt", "ON_WEBHOOK": ""} {
		d := drawn(`{"id":"start","module":"`+module+`"},{"id":"end","module":"RESPOND"}`, []string{"start next end"}, nil)
		d.InputSchema = json.RawMessage(`{"type":"object","properties":{"triggeredAt":{"type":"string"}}}`)
		made, _, err := service.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d})
		if faults, warnings := found(t, made, err); len(faults) > 0 || strings.Join(warnings, " ") != want {
			t.Errorf("%s: %v %v, want %s", module, faults, warnings, want)
		}
	}
}

// A reference to a component on another branch needs a default or a question mark.
func TestSaveWarnsOfSourcesThatMayNotRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := b.library(t)
	const (
		nodes  = `{"id":"start","module":"ON_API_CALLED"},{"id":"if","module":"IF","config":{"expression":"1 > 0"}},{"id":"a","module":"RANDOM_UUID"},{"id":"b","module":"RANDOM_UUID"},`
		end    = `{"id":"end","module":"RESPOND","input":{"v":"$"}}`
		warned = "SOURCE_MAY_NOT_RUN /components/4/input/v"
	)
	branch := []string{"start next if", "if then a", "if else b", "a next end", "b next end"}
	parallel := []string{"start next if", "start next a", "start next b", "if then end", "b next end"}
	for name, c := range map[string]struct {
		text  string
		edges []string
		want  string
	}{
		"one of two branches":           {"{{ a.uuid }}", branch, warned},
		"with a default":                {`{{ a.uuid ?? b.uuid }}`, branch, ""},
		"with a question mark":          {"{{ a.uuid? }}", branch, ""},
		"in a condition":                {`{{ start.x ? a.uuid : b.uuid }}`, branch, ""},
		"the start":                     {"{{ start.x }}", branch, ""},
		"the decision":                  {"{{ if.result }}", branch, ""},
		"a branch that always runs":     {"{{ a.uuid }}", parallel, ""},
		"on the same branch":            {"{{ a.uuid }}", []string{"start next if", "if then a", "if then b", "b next end"}, ""},
		"the other branch":              {"{{ a.uuid }}", []string{"start next if", "if then a", "if else b", "b next end"}, warned},
		"after its own error":           {"{{ a.uuid }}", []string{"start next if", "if then a", "if else b", "a error end"}, warned},
		"the reason of the error":       {"{{ a.error.code }}", []string{"start next if", "if then a", "if else b", "a error end"}, ""},
		"after success and after error": {"{{ a.uuid }}", []string{"start next a", "start next if", "start next b", "a next end", "a error end"}, warned},
	} {
		made, _, err := service.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: drawn(nodes+strings.Replace(end, "$", strings.ReplaceAll(c.text, `"`, `\"`), 1), c.edges, nil)})
		faults, warnings := found(t, made, err)
		warnings = slices.DeleteFunc(warnings, func(w string) bool { return !strings.HasPrefix(w, "SOURCE") })
		if len(faults) > 0 || strings.Join(warnings, " ") != c.want {
			t.Errorf("%s: %v %v, want %s", name, faults, warnings, c.want)
		}
	}
}

// Validate finds what a save finds, and saves nothing.
func TestValidateSavesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := b.library(t)
	count := func() (n int) {
		if err := b.pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM workflows) + (SELECT count(*) FROM workflow_versions)").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	checked, err := service.Validate(b.ctx, b.workspace, drawn(`{"id":"a","module":"NOPE"},{"id":"b","module":"HASH"}`, nil, nil))
	var faults []string
	for _, d := range checked.Faults {
		faults = append(faults, d.Code+" "+d.Pointer)
	}
	if want := []string{"UNKNOWN_MODULE /components/0/module", "MISSING_INPUT /components/1/input/data"}; err != nil || checked.Plan != nil || !slices.Equal(faults, want) {
		t.Errorf("%v, %v, want %v", faults, err, want)
	}
	checked, err = service.Validate(b.ctx, b.workspace, drawn(`{"id":"a","module":"HASH","input":{"data":"{{env.LOST}}"}}`, nil, nil))
	if err != nil || checked.Plan == nil || len(checked.Faults) > 0 || len(checked.Warnings) != 1 || checked.Warnings[0].Code != "VARIABLE_NOT_FOUND" {
		t.Errorf("%+v, %v", checked, err)
	}
	if after := count(); after != before {
		t.Errorf("%d rows, before %d", after, before)
	}
}
