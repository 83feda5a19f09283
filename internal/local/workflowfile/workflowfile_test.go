package workflowfile_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/local/demo"
	"github.com/weft-automation/weft/internal/local/workflowfile"
)

const hello = `# Doubles a number.
name: hello
components:
  start:  {module: ON_API_CALLED}
  call:   {module: API_CALL, config: {apiUrl: "https://example.com/double", method: POST}, input: {body: {n: "{{start.n}}"}}}
  answer: {module: RESPOND, input: {doubled: "{{ call.body.doubled }}", token: "Bearer {{env.TOKEN}}"}}
`

func TestShortFormBecomesTheFormOfTheAPI(t *testing.T) {
	t.Parallel()
	const want = `{"name":"hello","components":[{"id":"start","module":"ON_API_CALLED"},` +
		`{"id":"call","module":"API_CALL","config":{"apiUrl":"https://example.com/double","method":"POST"},"input":{"body":{"n":"{{start.n}}"}}},` +
		`{"id":"answer","module":"RESPOND","input":{"doubled":"{{ call.body.doubled }}","token":"Bearer {{env.TOKEN}}"}}],` +
		`"sequenceEdges":[{"id":"e1","from":"start","to":"call"},{"id":"e2","from":"call","to":"answer"}]}`
	file, err := workflowfile.Read([]byte(hello))
	if err != nil || string(file.JSON) != want {
		t.Fatalf("got %s, %v, want %s", file.JSON, err, want)
	}
	for pointer, line := range map[string]int{
		"/name": 2, "/components/1/config/apiUrl": 5, "/components/2": 6, "/components/1/input/body/n": 5, "/sequenceEdges/1/from": 6, "/components/9": 3, "/none": 0, "": 0,
	} {
		if got := file.Line(pointer); got != line {
			t.Errorf("%s is on line %d, want %d", pointer, got, line)
		}
	}
}

func TestEdgesAndValuesOfTheShortForm(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"components: {a: {module: IF}, b: {module: X, after: a.then}, c: {module: X, after: [a.else, b]}, d: {module: X, after: []}}": `"sequenceEdges":[{"id":"e1","from":"a","to":"b","port":"then"},{"id":"e2","from":"a","to":"c","port":"else"},{"id":"e3","from":"b","to":"c"}]`,
		"components: {a: {module: X}, b: {module: X}, c: {module: X}}\nsequenceEdges: [{id: e1, from: a, to: c, port: error}]":        `"sequenceEdges":[{"id":"e1","from":"a","to":"c","port":"error"},{"id":"e2","from":"a","to":"b"}]`,
		"components: [{id: a, module: X}, {id: b, module: X, input: {t: '{{a.x}} {{'}}]\nsequenceEdges: [{from: a, to: b}]":           `"input":{"t":"{{a.x}} {{"}}],"sequenceEdges":[{"id":"e1","from":"a","to":"b"}]`,
		"a: [1.50, 1e400, 123456789012345678901234567890, '1', yes, 2026-01-01, null, ~, True, -0, !!str 5]":                          `{"a":[1.50,1e400,123456789012345678901234567890,"1","yes","2026-01-01",null,null,true,-0,"5"]}`,
		"components: {a: {module: X}, b: {module: X, input: {c: ['{{a.x}}', 'to {{ a.y }}'], f: {}}}}":                                `"input":{"c":["{{a.x}}","to {{ a.y }}"],"f":{}}`,
	} {
		file, err := workflowfile.Read([]byte(given))
		if err != nil || !strings.Contains(string(file.JSON), want) {
			t.Errorf("%s\ngot  %s, %v\nwant %s", given, file.JSON, err, want)
		}
	}
	file, err := workflowfile.ReadJSON([]byte("{\"components\":\n{\"a\":{\"module\":\"X\"},\n\"b\":{\"module\":\"X\",\"input\":{\"v\":\"{{a.x}}\"}}}}"))
	if err != nil || !strings.Contains(string(file.JSON), `"v":"{{a.x}}"`) || file.Line("/components/1") != 3 {
		t.Errorf("from JSON: %s, %v", file.JSON, err)
	}
}

func TestErrorsNameTheLineAndTheCorrection(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                                     "the file is empty",
		"[]":                                   "line 1: a workflow must be an object",
		"a: 1\n---\nb:":                        "more than one YAML document",
		"a: {":                                 "line 1: ",
		"a: 1\na: 2":                           `line 2: a: the key "a" occurs twice`,
		"a: &x 1\nb: *x":                       "line 2: b: anchors and aliases",
		"a:\n- 0x10":                           "line 2: a[0]: write the number 0x10 in decimal form",
		"a: !!binary x":                        "line 1: a: the tag !!binary is not supported",
		"components:\n  a: X":                  "line 2: components.a: must be an object with a module",
		"components:\n  a: {id: b, module: X}": "line 2: components.a: remove id",
		"components:\n  a: {module: X}\n  b: {module: X, after: c.then}":         `line 3: components.b.after: "c.then" is not a component or COMPONENT.PORT. The components are a, b`,
		"components:\n  a: {module: X}\n  b: {module: X}\nsequenceEdges: {a: b}": "line 4: sequenceEdges: must be a list",
		"components: []\ndataConnections:\n  a: b":                               "line 3: dataConnections: must be a list",
	} {
		if _, err := workflowfile.Read([]byte(given)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %s", given, err, want)
		}
	}
}

// A file that Read would not restore must not be written.
func TestWriteReturnsAnErrorForWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"name":"x","components":{"a":{"module":"X"},"b":{"module":"X"}}}`,
		`{"name":"x","components":[],"sequenceEdges":{"a":"b"}}`,
		`{"name":"x","components":[]} {}`,
	} {
		if text, err := workflowfile.Write([]byte(raw)); err == nil {
			t.Errorf("%s was written as\n%s", raw, text)
		}
	}
}

func TestJSONFilesAreStrict(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"{\"name\":\"x\"}\n {}":                  "line 2: there is text after the JSON value",
		"{\"name\":\"x\",\n\"name\":\"y\"}":      "line 2: name: the object has this field twice",
		"{\"name\":\"x\",\n\"components\":{},}":  "line 2: a field must start with its name in quotation marks",
		"{\"components\":{\n\"a\":{\"b\":[1,]}}": "line 2: components.a.b.1: ",
		"[]":                                     "line 1: the value must be a JSON object",
	} {
		if file, err := workflowfile.ReadJSON([]byte(given)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s was read as %s, %v", given, file.JSON, err)
		}
	}
}

// sameGraph fails the test unless a workflow is unchanged by Write and Read, twice. It returns the
// file.
func sameGraph(t *testing.T, raw []byte) string {
	t.Helper()
	text, err := workflowfile.Write(raw)
	if err != nil {
		t.Fatal(err)
	}
	file, err := workflowfile.Read(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got, want := graphOf(t, file.JSON), graphOf(t, raw); got != want {
		t.Fatalf("%s\ngot  %s\nwant %s", text, got, want)
	}
	again, err := workflowfile.Write(file.JSON)
	if err != nil || string(again) != string(text) {
		t.Fatalf("%v: the second file is\n%s\nthe first\n%s", err, again, text)
	}
	next, err := workflowfile.Read(again)
	if err != nil || string(next.JSON) != string(file.JSON) {
		t.Fatalf("%v: read again as\n%s\nfirst\n%s", err, next.JSON, file.JSON)
	}
	return string(text)
}

// graphOf returns a workflow with defaults, and with its edges and connections in order and without
// their IDs, as the API would return it.
func graphOf(t *testing.T, raw []byte) string {
	t.Helper()
	value, err := strictjson.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	workflow := value.(map[string]any)
	absent := func(object map[string]any, name, value string) {
		if object[name] == nil {
			object[name], _ = strictjson.Decode([]byte(value))
		}
	}
	for name, value := range map[string]string{"format": `"weft.workflow.v1"`, "description": `""`, "triggers": "[]", "sequenceEdges": "[]", "dataConnections": "[]", "inputSchema": "null"} {
		absent(workflow, name, value)
	}
	for _, one := range workflow["components"].([]any) {
		for name, value := range map[string]string{"name": `""`, "input": "{}", "config": "{}", "position": "null"} {
			absent(one.(map[string]any), name, value)
		}
	}
	for _, name := range []string{"sequenceEdges", "dataConnections"} {
		list := workflow[name].([]any)
		for _, one := range list {
			delete(one.(map[string]any), "id")
			if name == "sequenceEdges" {
				absent(one.(map[string]any), "port", `"next"`)
			}
		}
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	data, err := json.Marshal(workflow)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestExamplesAreWrittenInTheShortForm(t *testing.T) {
	t.Parallel()
	files := demo.Workflows("127.0.0.1:1")
	maps.Copy(files, demo.ChainWorkflows())
	for name, raw := range files {
		text := sameGraph(t, []byte(raw))
		for _, word := range []string{"sequenceEdges", "dataConnections", "position", "weft.workflow.v1"} {
			if strings.Contains(text, word) && (name != "chainWatch" || word != "dataConnections") { // which replace literal values
				t.Errorf("%s contains %s:\n%s", name, word, text)
			}
		}
	}
}

func TestOwnIDsOfEdgesAreKept(t *testing.T) {
	t.Parallel()
	const raw = `{"name":"x","components":[{"id":"a","module":"X"},{"id":"b","module":"X"},{"id":"c","module":"X"}],` +
		`"sequenceEdges":[{"id":"first","from":"a","to":"b"}],"dataConnections":[{"id":"value","from":{"componentId":"a","output":"x"},"to":{"componentId":"b","input":"y"}}]}`
	text := sameGraph(t, []byte(raw))
	file, err := workflowfile.Read([]byte(text))
	if err != nil || string(file.JSON) != raw {
		t.Errorf("%v: %s", err, file.JSON)
	}
}

func TestRandomWorkflowsAreUnchangedByTheFile(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		raw, err := json.Marshal(r.workflow())
		if err != nil {
			t.Fatal(err)
		}
		sameGraph(t, raw)
	}
}

type random struct{ *rand.Rand }

func (r random) word(words ...string) string { return words[r.IntN(len(words))] }

func (r random) value(depth int) any {
	switch kind := r.IntN(8); {
	case kind == 0 && depth > 0:
		object := map[string]any{}
		for range r.IntN(4) {
			object[r.word("a", "b", "c.d", "0", "<<", "true", "a b", "", "x: y", "{{a.b}}")] = r.value(depth - 1)
		}
		return object
	case kind == 1 && depth > 0:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, r.value(depth-1))
		}
		return list
	case kind == 2:
		return json.Number(r.word("0", "-1", "1.50", "1e400", "123456789012345678901234567890", "1E-7"))
	case kind == 3:
		return []any{nil, true, false}[r.IntN(3)]
	}
	return r.word("", "x", "1", "1e5", "null", "~", "yes", "2026-01-01", "a\nb\n", "a\n\n b", " a\n", "\ta\nb", "a: b", "# c", "\u0085\u2028\u0001", "é\nè", "- a", "{{env.A}}", "{{env.A}} b", "0x1", "*a", "&a", "!a", "'", "\"", "a\n\n", "\n", "=", "<<", ".inf",
		"{{a.b}}", "a {{b.c}}", "a long text that is longer than one line of the file should ever be, I think")
}

func (r random) workflow() map[string]any {
	ids := []string{"a", "b", "env", "c-1", "1", "null"}[:1+r.IntN(6)]
	components, edges, connections := []any{}, []any{}, []any{}
	own := r.IntN(4) == 0
	id := func(prefix string, n int) string {
		if own {
			return fmt.Sprintf("own-%d", n)
		}
		return fmt.Sprintf("%s%d", prefix, n*2+1)
	}
	for i, name := range ids {
		one := map[string]any{"id": name, "module": "X"}
		for _, part := range []string{"input", "config"} {
			object := map[string]any{}
			for range r.IntN(3) {
				if value := r.value(2); part == "config" || r.IntN(5) == 0 || !strings.Contains(fmt.Sprint(value), "{{") {
					object[r.word("x", "y", "z")] = value
				}
			}
			one[part] = object
		}
		if r.IntN(4) == 0 {
			one["name"], one["position"] = "N", map[string]any{"x": 1, "y": -2}
		}
		components = append(components, one)
		if i > 0 && r.IntN(3) > 0 {
			edges = append(edges, map[string]any{"id": id("e", len(edges)), "from": ids[i-1], "to": name, "port": "next"})
		}
		if r.IntN(3) == 0 {
			edges = append(edges, map[string]any{"id": id("e", len(edges)), "from": ids[r.IntN(len(ids))], "to": name, "port": r.word("then", "a b", "x.y", "next", "1")})
		}
		targets := []string{"x", "w.v", "w.0", "w.u.v", "y.a.b", "z."} // the API allows one connection for each
		for _, at := range r.Perm(len(targets))[:r.IntN(4)] {
			connections = append(connections, map[string]any{"id": id("d", len(connections)),
				"from": map[string]any{"componentId": ids[r.IntN(len(ids))], "output": r.word("x", "x.y", "x y", "0", "a}b", " x", "x ")},
				"to":   map[string]any{"componentId": name, "input": targets[at]}})
		}
	}
	r.Shuffle(len(edges), func(i, j int) { edges[i], edges[j] = edges[j], edges[i] })
	return map[string]any{"format": "weft.workflow.v1", "name": r.word("Name", "1", "a: b"), "description": r.word("", "Two\nlines", "x"), "inputSchema": nil,
		"components": components, "sequenceEdges": edges, "dataConnections": connections, "triggers": []any{}}
}
