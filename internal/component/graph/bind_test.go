package graph_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

func TestSelect(t *testing.T) {
	t.Parallel()
	const output = `{"a":{"b":[{"c":1.50},null],"":2},"x.y":"name","x":{"y":"path","2":[[7]]},"odd":"text"}`
	for path, want := range map[string]string{
		"a.b.0.c": `1.50`, "a.b.1": `null`, "a.b": `[{"c":1.50},null]`, "x.y": `"name"`, "x.2.0.0": `7`, "odd": `"text"`,
		"a.b.2": ``, "a.b.-1": ``, "a.b.00": ``, "a.b.c": ``, "odd.deep": ``, "none": ``, "a.b.1.c": ``, "": ``, ".": ``, "a.": `2`,
	} {
		if got, ok := graph.Select(json.RawMessage(output), path); string(got) != want || ok != (want != "") {
			t.Errorf("%q: %s %v, want %s", path, got, ok, want)
		}
	}
	for _, output := range []string{``, `null`, `7`, `{`, `[`} {
		if got, ok := graph.Select(json.RawMessage(output), "a"); ok {
			t.Errorf("%q: %s", output, got)
		}
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	to := func(input, value string) graph.Bound {
		b := graph.Bound{Source: graph.Source{From: "giver", Path: "out.put", Into: "taker", To: input}}
		if value != "" {
			b.Value = json.RawMessage(value)
		}
		return b
	}
	typed := func(b graph.Bound, schema string) graph.Bound {
		b.Schema, _ = jsonschema.Parse(json.RawMessage(schema))
		return b
	}
	required := func(b graph.Bound) graph.Bound {
		b.Required = true
		return b
	}
	for name, c := range map[string]struct {
		literal string
		values  []graph.Bound
		want    string
	}{
		"nothing":        {``, nil, `{}`},
		"null":           {`null`, []graph.Bound{to("a", `1`)}, `{"a":1}`},
		"as written":     {`{"b": 1.0}`, nil, `{"b": 1.0}`},
		"next to":        {`{"b":1.0}`, []graph.Bound{to("a", `"x"`)}, `{"b":1.0,"a":"x"}`},
		"over":           {`{"a":1}`, []graph.Bound{to("a", `2`)}, `{"a":2}`},
		"null is one":    {`{"a":1}`, []graph.Bound{required(to("a", `null`))}, `{"a":null}`},
		"paths":          {`{"a":{"b":1}}`, []graph.Bound{to("a.c.d", `2`), to("a.c.e", `3`)}, `{"a":{"b":1,"c":{"d":2,"e":3}}}`},
		"indexes":        {`{"list":[1,2]}`, []graph.Bound{to("list.1", `"x"`), to("list.3.a", `"y"`)}, `{"list":[1,"x",null,{"a":"y"}]}`},
		"a new array":    {``, []graph.Bound{to("list.1", `"b"`), to("list.0", `"a"`)}, `{"list":["a","b"]}`},
		"index as name":  {`{"map":{}}`, []graph.Bound{to("0", `1`), to("map.0", `2`)}, `{"map":{"0":2},"0":1}`},
		"big numbers":    {`{"n":12345678901234567890.10}`, []graph.Bound{to("m", `1e5`)}, `{"n":12345678901234567890.10,"m":1e5}`},
		"not escaped":    {``, []graph.Bound{to("a", `"<&>"`)}, `{"a":"<&>"}`},
		"converted":      {``, []graph.Bound{typed(to("a", `5`), `{"type":"string"}`)}, `{"a":"5"}`},
		"absent":         {`{"b":1}`, []graph.Bound{to("a", ``)}, `{"b":1}`},
		"written for it": {`{"a":1}`, []graph.Bound{required(to("a", ``))}, `{"a":1}`},
		"missing":        {``, []graph.Bound{to("b", `1`), required(to("a", ``))}, `!the value of "giver.out.put" does not fit into "taker.a": it is missing, and the input is required`},
		"missing part":   {``, []graph.Bound{required(to("a.b", ``)), required(to("a.c", `1`))}, `{"a":{"c":1}}`},
		"unfit":          {``, []graph.Bound{typed(to("a", `"secret"`), `{"type":"integer"}`)}, `!the value of "giver.out.put" does not fit into "taker.a": it is a string, but an integer is expected (the string is not a decimal integer)`},
		"in the way":     {`{"a":"secret"}`, []graph.Bound{to("a.b", `1`)}, `!the value of "giver.out.put" does not fit into "taker.a.b": the value is a string, which has no field "b"`},
		"far away":       {``, []graph.Bound{to("list.0", `1`), to("list.10000", `1`)}, `!the value of "giver.out.put" does not fit into "taker.list.10000": the value is an array, which has no field "10000"`},
		"far too many":   {``, []graph.Bound{to("a.9998.0", `1`), to("b.0", `2`)}, `!the value of "giver.out.put" does not fit into "taker.b.0": the connections into the component extend arrays by more than 10000 items`},
		"no object":      {`[]`, []graph.Bound{to("a", `1`)}, `!the literal input is not an object`},
		"no JSON":        {`{`, []graph.Bound{to("a", `1`)}, `!decode the literal input: unexpected EOF`},
	} {
		got, err := graph.Bind(json.RawMessage(c.literal), c.values)
		shown := string(got)
		if err != nil {
			shown = "!" + err.Error()
		}
		if shown != c.want {
			t.Errorf("%s: %s, want %s", name, shown, c.want)
		}
	}
	_, err := graph.Bind(nil, []graph.Bound{typed(to("a", `"x"`), `{"type":"null"}`)})
	if refused, ok := errors.AsType[*graph.BindError](err); !ok || refused.From != "giver.out.put" || refused.To != "taker.a" {
		t.Errorf("%#v", err)
	}
}

func TestDefinitionsAreDecodedAndEncoded(t *testing.T) {
	t.Parallel()
	const text = `{"inputSchema":{"type":"object"},"components":[{"id":"a","module":"WORK","name":"A","input":{},"config":{},"position":[1.5,-2],"attempts":2,"timeoutMs":1000,"onFailure":"continue"},` +
		`{"id":"b","module":"WORK","name":"","input":{},"config":{},"position":null}],"sequenceEdges":[{"id":"e","from":"a","to":"b","port":"next"}],` +
		`"dataConnections":[{"id":"d","from":{"componentId":"a","output":"x.y"},"to":{"componentId":"b","input":"z"}}],"triggers":[]}`
	written, err := json.Marshal(definition(t, strings.Replace(text, `,"port":"next"`, ``, 1)))
	if err != nil || string(written) != text {
		t.Errorf("%v\n%s\n%s", err, written, text)
	}
	var edge graph.Edge
	if err := json.Unmarshal([]byte(`{"port":7}`), &edge); err == nil {
		t.Error("a port that is a number was read")
	}
	if edges := definition(t, `{"sequenceEdges":[{"port":"then"},{"port":null},{}]}`).SequenceEdges; edges[0].Port != "then" || edges[1].Port != "next" || edges[2].Port != "next" {
		t.Errorf("%+v", edges)
	}
}
