package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// sendModule returns the module SEND, whose output is the call that it got, and the number of its calls.
func sendModule() (component.Module, *atomic.Int64) {
	var calls atomic.Int64
	send := workflowtest.Made("SEND", 0, workflowtest.Anything, func(_ context.Context, call component.Call) (component.Result, error) {
		calls.Add(1)
		output, err := json.Marshal(map[string]json.RawMessage{"input": call.Input, "config": call.Config})
		return component.Result{Output: output}, err
	})
	send.Input = json.RawMessage(`{"type":"object","additionalProperties":true,"properties":{"count":{"type":"integer"},"kind":{"enum":["a","b"]},
		"rpc":{"type":"string","format":"uri"},"token":{"type":"string","x-secret":true}}}`)
	send.Config = json.RawMessage(`{"type":"object","properties":{"url":{"type":"string","format":"uri"},"note":{},"allowedOrigins":{"type":"array","x-literal":true,"items":{"type":"string"}}}}`)
	return send, &calls
}

// withSender returns a node whose workflows can use SEND, and the number of calls.
func withSender(t *testing.T) (*node, *atomic.Int64) {
	t.Helper()
	b := newBench(t)
	send, calls := sendModule()
	var err error
	if b.modules, err = component.NewRegistry(append(logic.Modules(), workflowtest.Work(), workflowtest.Pure(), send)...); err != nil {
		t.Fatal(err)
	}
	n := b.start(t, options{slots: 8, sweep: time.Second})
	for name, v := range map[string]string{"HOST": "https://api.example", "HALF": "https:/", "EMPTY": "", "LOOKS": "{{start.text}}"} {
		n.setVariable(t, name, v, false)
	}
	n.setVariable(t, "KEY", "hunter2-hunter2", true)
	return n, calls
}

func (n *node) setVariable(t *testing.T, name, value string, secret bool) {
	t.Helper()
	if _, err := n.environment.Set(n.ctx, environment.SetParams{WorkspaceID: n.workspace, Name: name, Value: value, Secret: &secret}); err != nil {
		t.Fatal(err)
	}
}

// given is the input of the runs of the tables below.
const given = `{"text":"Ada","n":7,"yes":true,"nothing":null,"blank":"","list":[1,2],"names":["a b","c/d"],"none":[],"o":{"a":{"b":1},"x-y":"dash","a.b":"dot"},
	"up":"../admin","dot":".","dots":"..","slash":"a/b","question":"?x=1","hash":"#x","at":"@evil.example","double":"//evil.example","encoded":"%2e%2e","line":"a\r\nb",
	"braces":"{{env.KEY}}","whole":"https://shop.example/next?page=2","evil":"https://evil.example/","user":"https://user@shop.example/","sub":"https://eu.shop.example/x",
	"secret":"the secret of the caller","big":"17"}`

// eachReference runs SEND with each string of a table in place of $, and compares what it sent there, or
// the code and the message of its error.
func (n *node) eachReference(t *testing.T, part string, rows map[string]string) {
	t.Helper()
	ids, i := map[string]string{}, 0
	var components, edges []string
	for text := range rows {
		id := fmt.Sprintf("send%d", i)
		ids[text] = id
		component := fmt.Sprintf(`{"id":%q,"module":"SEND","onFailure":"continue",%s}`, id, strings.Replace(part, "$", strings.ReplaceAll(text, `"`, `\"`), 1))
		components, edges = append(components, component), append(edges, fmt.Sprintf(`{"id":"e%d","from":"start","to":%q}`, i, id))
		i++
	}
	start := `{"id":"start","module":"ON_API_CALLED","config":{"inputSchema":{"type":"object","properties":{"secret":{"type":"string","x-secret":true}}}}}`
	id := n.draw(t, "["+start+","+strings.Join(components, ",")+"]", "["+strings.Join(edges, ",")+"]", "")
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(given)}))
	if got.Status != status.RunCompleted {
		t.Fatalf("the run is %s: %s", got.Status, got.Error)
	}
	for text, want := range rows {
		if got := sent(t, stages[ids[text]+"@[]"], part); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// sent returns the value that a stage sent in place of $, or its error.
func sent(t *testing.T, stage api.RunStage, part string) string {
	t.Helper()
	if stage.Status != status.StageCompleted {
		var why struct{ Code, Message string }
		if err := json.Unmarshal(stage.Error, &why); err != nil {
			t.Fatalf("%s: %v", stage.Error, err)
		}
		return why.Code + " " + why.Message
	}
	var call struct {
		Input  struct{ V, Count, Kind, Rpc json.RawMessage }
		Config struct{ URL, Note json.RawMessage }
	}
	if err := json.Unmarshal(stage.Output, &call); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]json.RawMessage{`"v"`: call.Input.V, `"count"`: call.Input.Count, `"kind"`: call.Input.Kind, `"rpc"`: call.Input.Rpc, `"url"`: call.Config.URL, `"note"`: call.Config.Note} {
		if strings.Contains(part, name) {
			return string(value)
		}
	}
	return ""
}

func TestReferencesAreReplacedByValues(t *testing.T) {
	t.Parallel()
	n, _ := withSender(t)
	n.eachReference(t, `"input":{"v":"$"}`, map[string]string{
		`{{start.text}}`:           `"Ada"`,
		`{{ start.n }}`:            `7`,
		`{{ start.yes }}`:          `true`,
		`{{ start.nothing }}`:      `null`,
		`{{ start.o }}`:            `{"a":{"b":1},"a.b":"dot","x-y":"dash"}`,
		`{{ start.o.a.b }}`:        `1`,
		`{{ start.list[1] }}`:      `2`,
		`{{ start.list.0 }}`:       `1`,
		`{{ start.o.x-y }}`:        `"dash"`,
		`{{ start.o["a.b"] }}`:     `"dot"`,
		`{{ outputs["start"].n }}`: `7`,
		`Dear {{ start.text }}, {{start.n}} {{start.yes}}`: `"Dear Ada, 7 true"`,
		`{{start.list}}: {{start.o.a}}`:                    `"[1,2]: {\"b\":1}"`,
		`{{ start.n - 2 }}`:                                `5`,
		`{{ upper(start.text) }}!`:                         `"ADA!"`,
		`{{ map(start.list, # * 2) }}`:                     `[2,4]`,
		`{{{a: start.n, b: [start.text]}}}`:                `{"a":7,"b":["Ada"]}`,
		`{{ "{{" }} {{ "}}" }}`:                            `"{{ }}"`,
		`{{ start.braces }}`:                               `"{{env.KEY}}"`,
		`[{{ start.braces }}]`:                             `"[{{env.KEY}}]"`,
		`{{ env.LOOKS }}`:                                  `"{{start.text}}"`,
		`{{env.LOOKS}}`:                                    `"{{start.text}}"`,
		`{{ env.HOST + "/x" }}`:                            `"https://api.example/x"`,
		`{{ env.EMPTY }}`:                                  `""`,
		`{{ start.blank }}`:                                `""`,
		` {{ start.n }}`:                                   `" 7"`,
		`plain }} text`:                                    `"plain }} text"`,
		`{{ repeat(start.text, 400000) }}`:                 `REFERENCE_TOO_LARGE /input/v: line 1, column 1: the result has more than 1048576 bytes`,
		`{{ repeat(start.text, 200000) }}{{ repeat(start.text, 200000) }}`: `REFERENCE_TOO_LARGE /input/v: the references of the component produce more than 1 MiB`,
		`{{ map(1..1000, map(1..1000, #)) }}`:                              `REFERENCE_TOO_LARGE /input/v: line 1, column 19: the expression needs more than 500000 steps`,
		// missing values
		`{{ start.lost }}`:                           `MISSING_VALUE /input/v: start.lost has no value`,
		`{{ start.o.a.c.d }}`:                        `MISSING_VALUE /input/v: start.o.a.c.d has no value`,
		`x {{ start.nothing }}`:                      `MISSING_VALUE /input/v: start.nothing is null, which has no text`,
		`x {{ start.lost }}`:                         `MISSING_VALUE /input/v: start.lost has no value`,
		`{{ env.LOST }}`:                             `MISSING_VALUE /input/v: env.LOST has no value`,
		`{{env.LOST}}`:                               `MISSING_VALUE /input/v: the environment variable LOST was missing when the run started`,
		`{{ env.LOST ?? "none" }}`:                   `"none"`,
		`{{ start.lost ?? "none" }}`:                 `"none"`,
		`{{ start.nothing ?? "none" }}`:              `"none"`,
		`{{ start.lost.deeper ?? start.gone ?? 1 }}`: `1`,
		`{{ start.lost == nil }}`:                    `true`,
		`{{ start.lost?.deeper ?? 2 }}`:              `2`,
		`{{ start.yes ? start.n : start.lost }}`:     `7`,
		`{{ start.yes or start.lost }}`:              `true`,
		`{{ start.lost? }}`:                          ``,
		`{{ start.nothing? }}`:                       ``,
		`{{ start.lost ?? start.gone? }}`:            ``,
		`{{ start.n? }}`:                             `7`,
		`{{ start.nothing + 1 }}`:                    `INVALID_INPUT /input/v: line 1, column 15: + needs two numbers or two strings, got nil and a number`,
		// facts about the run
		`{{ run.trigger }}`: `"API"`,
		`{{ run.workflow.name }} {{ hasPrefix(run.workflow.key, "test") }}`: `"test true"`,
		`{{ run.workflow.version }}`:                                        `1`,
		`{{ run.url ?? "unset" }}`:                                          `"unset"`,
		`{{ run.rerunOf ?? "first" }}`:                                      `"first"`,
		`{{ run.metadata.x ?? "no" }}`:                                      `"no"`,
		`{{ len(run.id) }}`:                                                 `36`,
		`{{ run.startedAt <= now() }}`:                                      `true`,
		`{{ hasSuffix(now(), "Z") }}`:                                       `true`,
		`{{ start.triggeredAt == run.startedAt }}`:                          `true`,
	})
}

func TestValuesMustFitWhereTheyStand(t *testing.T) {
	t.Parallel()
	n, _ := withSender(t)
	n.eachReference(t, `"input":{"count":"$"}`, map[string]string{
		`{{ start.n }}`: `7`, `{{ start.big }}`: `17`, `{{ start.lost? }}`: ``,
		`{{ start.text }}`: `INVALID_INPUT it is a string at "count", but an integer is expected (the string is not a decimal integer)`,
	})
	n.eachReference(t, `"input":{"kind":"$"}`, map[string]string{
		`{{ lower("A") }}`: `"a"`, `{{ start.text }}`: `INVALID_INPUT /input/kind: must be one of "a", "b", got "Ada"`,
	})
	n.eachReference(t, `"config":{"note":["$",{"deep":"x{{start.n}}"}]}`, map[string]string{
		`{{ start.n }}`: `[7,{"deep":"x7"}]`, `{{ start.lost? }}`: `[{"deep":"x7"}]`,
	})
}

func TestNoValueChangesTheOriginOfAnAddress(t *testing.T) {
	t.Parallel()
	n, _ := withSender(t)
	const segment, list, one = "INVALID_ADDRESS /config/url: a segment of the path would be empty, . or ..", "INVALID_ADDRESS /config/url: start.none is a list, which must have items and stand between two slashes of the path", "INVALID_ADDRESS /config/url: start.list is a list with an item that is not a string"
	const prefix = "INVALID_ADDRESS /config/url: "
	n.eachReference(t, `"config":{"url":"$"}`, map[string]string{
		`https://api.example/users/{{start.n}}`:                    `"https://api.example/users/7"`,
		`{{env.HOST}}/users/{{start.text}}/x`:                      `"https://api.example/users/Ada/x"`,
		`https://api.example/{{start.up}}`:                         `"https://api.example/..%2Fadmin"`,
		`https://api.example/{{start.dot}}`:                        segment,
		`https://api.example/{{start.dots}}/x`:                     segment,
		`https://api.example/.{{start.dot}}`:                       segment,
		`https://api.example/%2e{{start.dot}}`:                     segment,
		`https://api.example/{{start.blank}}`:                      segment,
		`https://api.example/{{start.blank}}/x`:                    segment,
		`https://api.example/{{start.slash}}`:                      `"https://api.example/a%2Fb"`,
		`https://api.example/{{start.question}}`:                   `"https://api.example/%3Fx=1"`,
		`https://api.example/{{start.hash}}`:                       `"https://api.example/%23x"`,
		`https://api.example/{{start.at}}`:                         `"https://api.example/@evil.example"`,
		`https://api.example/{{start.double}}`:                     `"https://api.example/%2F%2Fevil.example"`,
		`https://api.example/{{start.encoded}}`:                    `"https://api.example/%252e%252e"`,
		`https://api.example/{{start.line}}`:                       `"https://api.example/a%0D%0Ab"`,
		`https://api.example/{{start.braces}}`:                     `"https://api.example/%7B%7Benv.KEY%7D%7D"`,
		`https://api.example/{{start.names}}/end`:                  `"https://api.example/a%20b/c%2Fd/end"`,
		`https://api.example/{{start.none}}/end`:                   list,
		`https://api.example/{{start.list}}/end`:                   one,
		`https://api.example/x{{start.names}}`:                     strings.Replace(list, "none", "names", 1),
		`https://api.example/{{start.names}}x`:                     prefix + "a list must stand between two slashes of the path",
		`https://api.example/{{start.o}}`:                          prefix + "start.o is not a string, a number or a boolean, so it cannot stand here in an address",
		`https://api.example/{{start.nothing}}`:                    `MISSING_VALUE /config/url: start.nothing is null, which has no text`,
		`https://api.example/{{start.lost}}`:                       `MISSING_VALUE /config/url: start.lost has no value`,
		`https://api.example/?q={{start.question}}&r={{start.at}}`: `"https://api.example/?q=%3Fx%3D1\u0026r=%40evil.example"`,
		`https://api.example?q={{start.hash}}`:                     `"https://api.example?q=%23x"`,
		`https://api.example/?{{start.blank}}=1`:                   prefix + "a field of the query would have an empty name",
		`https://api.example/?q={{start.list}}`:                    prefix + "start.list is not a string, a number or a boolean, so it cannot stand here in an address",
		`{{env.HALF}}/{{start.text}}`:                              prefix + "values of the run may stand in the path and the query of an address only: before the first one, expected scheme://host/ or scheme://host?",
		`{{env.HOST}}{{start.at}}`:                                 prefix + "values of the run may stand in the path and the query of an address only: before the first one, expected scheme://host/ or scheme://host?",
		`{{env.HOST}}/{{ env.HOST + start.text }}`:                 `"https://api.example/https:%2F%2Fapi.exampleAda"`,
	})
	n.eachReference(t, `"config":{"allowedOrigins":["https://shop.example","https://*.shop.example","{{env.HOST}}"],"url":"$"}`, map[string]string{
		`{{ start.whole }}`:                         `"https://shop.example/next?page=2"`,
		`{{ start.sub }}`:                           `"https://eu.shop.example/x"`,
		`{{ start.evil }}`:                          `ORIGIN_NOT_ALLOWED /config/url: the origin of the address is not one of allowedOrigins`,
		`{{ start.user }}`:                          `INVALID_ADDRESS /config/url: the address contains a user name or a password: send them in the header Authorization`,
		`{{ start.text }}`:                          `INVALID_ADDRESS /config/url: the address is not a URL with http or https and a host`,
		`{{ start.n }}`:                             `INVALID_ADDRESS /config/url: the address is not a string`,
		`{{ start.lost }}`:                          `MISSING_VALUE /config/url: start.lost has no value`,
		`{{ env.HOST + "/x" }}`:                     `"https://api.example/x"`,
		`{{ start.whole + "#top" }}`:                `"https://shop.example/next?page=2"`,
		`{{ lower("HTTPS://SHOP.example:443/A") }}`: `"https://shop.example:443/a"`,
	})
	n.eachReference(t, `"input":{"rpc":"$"}`, map[string]string{`{{ start.evil }}`: `"https://evil.example/"`, `{{env.HOST}}/{{start.n}}`: `"https://api.example/7"`})
}

// What derives from a secret is in no view, no error and no unsealed row.
func TestWhatDerivesFromASecretStaysSecret(t *testing.T) {
	t.Parallel()
	n, _ := withSender(t)
	id := n.draw(t, `[{"id":"start","module":"ON_API_CALLED","config":{"inputSchema":{"type":"object","properties":{"secret":{"type":"string","x-secret":true}}}}},
		{"id":"made","module":"TRANSFORM","config":{"expression":"upper(start.secret) + env.KEY"}},
		{"id":"part","module":"TRANSFORM","input":{"v":"x {{ split(start.secret, \" \")[1] }}{{ made.result }}"},"config":{"expression":"v"}},
		{"id":"bad","module":"SEND","onFailure":"continue","input":{"kind":"{{ start.secret }}"}},
		{"id":"worse","module":"SEND","onFailure":"continue","input":{"kind":"{{ upper(env.KEY) }}"}},
		{"id":"fail","module":"FAIL","onFailure":"continue","config":{"message":"no: {{ upper(start.secret) }} {{ env.KEY }}"}}]`,
		`[{"id":"1","from":"start","to":"made"},{"id":"2","from":"made","to":"part"},{"id":"3","from":"start","to":"bad"},{"id":"4","from":"start","to":"worse"},{"id":"5","from":"start","to":"fail"}]`, "")
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(given)})
	got, stages := n.end(t, key)
	if got.Status != status.RunCompleted || !strings.Contains(string(stages["made@[]"].Output), "THE SECRET OF THE CALLERhunter2-hunter2") {
		t.Fatalf("%s: %s", got.Status, stages["made@[]"].Output)
	}
	for _, id := range []string{"bad@[]", "worse@[]", "fail@[]"} {
		shown := string(stages[id].Error)
		for _, secret := range []string{"the secret of the caller", "THE SECRET OF THE CALLER", "hunter2", "HUNTER2"} {
			if stages[id].Status != status.StageFailed || strings.Contains(shown, secret) {
				t.Errorf("%s: %s", id, shown)
			}
		}
	}
	var rows string
	if err := n.pool.QueryRow(t.Context(), `SELECT string_agg(to_json(s)::text, '') FROM run_stages s WHERE component_id <> 'start'`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret of", "SECRET OF", "hunter2", "HUNTER2"} {
		if strings.Contains(rows, secret) {
			t.Errorf("%s stands in a row", secret)
		}
	}
}

// A reference out of a loop is the list of the values of all items, and one to an error has the reason why a
// component failed.
func TestReferencesAcrossLoopsAndFailures(t *testing.T) {
	t.Parallel()
	n, _ := withSender(t)
	id := n.draw(t, `[{"id":"start","module":"ON_API_CALLED"},
		{"id":"each","module":"FOR_EACH","config":{"onItemFailure":"continue"},"input":{"items":"{{ filter(start.list, # != 3) }}"}},
		{"id":"price","module":"SEND","onFailure":"continue","input":{"n":"{{ each.item * 10 }}","at":"{{each.index}}","kind":"{{ each.item == 2 ? \"wrong\" : \"a\" }}"}},
		{"id":"note","module":"TRANSFORM","config":{"expression":"price.error.code ?? \"fine\""}},
		{"id":"choose","module":"IF","config":{"expression":"len(price.input.n) == 3 and start.list[0] == 1"}},
		{"id":"answer","module":"RESPOND","input":{"all":"{{ price.input.n }}","sum":"{{ sum(filter(price.input.n, # != nil)) }}","first":"{{ (price.input.n)[0] }}",
			"codes":"{{ price.error.code }}","notes":"{{ note.result }}","text":"{{ each.count }} items"}}]`,
		`[{"id":"1","from":"start","to":"each"},{"id":"2","from":"each","to":"price","port":"each"},{"id":"3","from":"price","to":"note"},
		{"id":"4","from":"each","to":"choose","port":"done"},{"id":"5","from":"choose","to":"answer","port":"then"}]`, "")
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{"list":[1,2,4]}`)}))
	want := `{"all":[10,null,40],"sum":50,"first":10,"codes":[null,"INVALID_INPUT",null],"notes":["fine","INVALID_INPUT","fine"],"text":"3 items"}`
	if got.Status != status.RunCompleted || string(got.Output) != want {
		t.Errorf("%s %s\ngot  %s\nwant %s\n%+v", got.Status, got.Error, got.Output, want, stages["price@[1]"])
	}
}

// A rerun that sends the same data again sends the same effect key, although the run has another ID.
func TestRerunWithRunIDSendsTheSameKey(t *testing.T) {
	t.Parallel()
	var keys []string
	b := newBench(t, workflowtest.Made("KEYED", 0, workflowtest.Anything, func(_ context.Context, call component.Call) (component.Result, error) {
		keys = append(keys, call.EffectKey.String())
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}))
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.draw(t, `[{"id":"start","module":"ON_API_CALLED"},{"id":"send","module":"KEYED","input":{"run":"{{ run.id }} at {{ now() }}","n":"{{start.n}}","due":"{{ plus(now(), 1, 'day') }} {{ date(run.startedAt) }}"}}]`, `[{"id":"1","from":"start","to":"send"}]`, "")
	first, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{"n":1}`)}))
	send := stages["send@[]"]
	n.rerun(t, first, &send)
	n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{"n":1}`)}))
	if len(keys) != 3 || keys[0] != keys[1] || keys[0] == keys[2] {
		t.Errorf("the keys are %v", keys)
	}
}

// now() is one time for a component: in all of its strings, in each of its attempts, and for whatever reads
// its output later.
func TestNowIsOneTimeForAComponent(t *testing.T) {
	t.Parallel()
	var inputs []string
	b := newBench(t, workflowtest.Made("BUSY", 0, workflowtest.Anything, func(_ context.Context, call component.Call) (component.Result, error) {
		if inputs = append(inputs, string(call.Input)); len(inputs) < 3 {
			return component.Result{}, &component.Error{Code: component.CodeUpstream, Message: "busy", Retryable: true}
		}
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}), workflowtest.WithoutEffect(workflowtest.Made("ECHO", 0, workflowtest.Anything, func(_ context.Context, call component.Call) (component.Result, error) {
		return component.Result{Output: call.Input}, nil
	})))
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.draw(t, `[{"id":"start","module":"ON_API_CALLED"},{"id":"echo","module":"ECHO","input":{"at":"{{ now() }}"}},
		{"id":"send","module":"BUSY","attempts":3,"input":{"a":"{{ now() }}","b":"{{ now() + duration('1h') - duration('60m') }}","echoed":"{{ echo.at }}","later":"{{ now() >= echo.at }}"}},
		{"id":"answer","module":"RESPOND","input":{"echoed":"{{ echo.at }}","recent":"{{ now() - date(echo.at) < duration('1d') and echo.at >= run.startedAt }}"}}]`,
		`[{"id":"1","from":"start","to":"echo"},{"id":"2","from":"echo","to":"send"},{"id":"3","from":"send","to":"answer"}]`, "")
	got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id, Input: json.RawMessage(`{}`)}))
	var sent struct {
		A, B, Echoed string
		Later        bool
	}
	if len(inputs) != 3 || inputs[0] != inputs[1] || inputs[1] != inputs[2] {
		t.Fatalf("the attempts got %v", inputs)
	}
	if err := json.Unmarshal([]byte(inputs[0]), &sent); err != nil || sent.A != sent.B || !sent.Later {
		t.Errorf("%s, %v", inputs[0], err)
	}
	if want := fmt.Sprintf(`{"echoed":%q,"recent":true}`, sent.Echoed); string(got.Output) != want {
		t.Errorf("got %s, want %s", got.Output, want)
	}
}

func TestSaveRejectsReferencesThatCannotWork(t *testing.T) {
	t.Parallel()
	n, _ := withSender(t)
	for part, want := range map[string]string{
		`"input":{"v":"{{ strat.n }}"}`:                       `INVALID_REFERENCE /components/1/input/v component "send": no component has the ID "strat"; did you mean start? The components are start, send, later`,
		`"input":{"v":["{{ send.n }}"]}`:                      `SELF_EDGE /components/1/input/v/0 component "send" refers to itself`,
		`"input":{"v":"{{ later.value }}"}`:                   `CYCLE /components/1/input/v "send" needs the value of "later.value", which is produced only later: "send" -> "later" -> "send"`,
		`"input":{"v":"{{ run }}"}`:                           `INVALID_REFERENCE /components/1/input/v component "send": run has no field ""; its fields are id, metadata, rerunOf, startedAt, trigger, url, workflow.id, workflow.key, workflow.name, workflow.version`,
		`"input":{"v":"{{ env }}"}`:                           `INVALID_REFERENCE /components/1/input/v component "send": env must be followed by the name of a variable, such as env.NAME, of A to Z, 0 to 9 and _`,
		`"input":{"v":"{{ start. }}"}`:                        `INVALID_REFERENCE /components/1/input/v component "send": line 1, column 6: the expression ends too early`,
		`"input":{"v":"{{ start.n -1 }}"}`:                    `INVALID_REFERENCE /components/1/input/v component "send": line 1, column 1: a minus sign after start.n has a space on one side only: write spaces on both sides to subtract`,
		`"input":{"v":"{{ start.n"}`:                          `INVALID_REFERENCE /components/1/input/v component "send": a reference is not closed: expected }}. To write two braces as text, write {{ "{{" }}`,
		`"input":{"v":"x {{ start.n? }}"}`:                    `INVALID_REFERENCE /components/1/input/v component "send": a question mark leaves a field out, so the reference must be the whole string: use ?? next to text`,
		`"input":{"v":"{{ outputs[\"x\"].y }}"}`:              `INVALID_REFERENCE /components/1/input/v component "send": no component has the ID "x"; The components are start, send, later`,
		`"config":{"allowedOrigins":["{{ start.n }}"]}`:       `INVALID_REFERENCE /components/1/config/allowedOrigins/0 component "send": this field is fixed when the workflow is saved, so only {{env.NAME}} is possible in it`,
		`"config":{"url":"{{ start.n }}"}`:                    `INVALID_ADDRESS /components/1/config/url component "send": a whole address from a reference needs allowedOrigins next to it, such as ["https://api.example"], or write its origin as text, such as https://api.example/users/{{ start.id }}`,
		`"config":{"url":"https://{{ start.n }}/"}`:           `INVALID_ADDRESS /components/1/config/url component "send": values of the run may stand in the path and the query of an address only: before the first one, expected scheme://host/ or scheme://host?`,
		`"config":{"url":"https://a.example/#{{ start.n }}"}`: `INVALID_ADDRESS /components/1/config/url component "send": a fragment is never sent, so it cannot contain a reference`,
	} {
		_, _, err := n.workflows.Create(n.ctx, workflow.CreateParams{WorkspaceID: n.workspace, Draft: workflow.Draft{Name: "x",
			Components:    json.RawMessage(`[{"id":"start","module":"ON_API_CALLED"},{"id":"send","module":"SEND",` + part + `},{"id":"later","module":"WORK"}]`),
			SequenceEdges: json.RawMessage(`[{"id":"1","from":"start","to":"send"},{"id":"2","from":"send","to":"later"}]`)}})
		if got := faultOf(err); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", part, got, want)
		}
	}
}

// faultOf returns the only fault of a definition.
func faultOf(err error) string {
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || len(refusal.Details) != 1 {
		return fmt.Sprintf("%v", err)
	}
	return refusal.Details[0].Code + " " + refusal.Details[0].Pointer + " " + refusal.Details[0].Message
}
