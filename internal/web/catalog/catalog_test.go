package catalog_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/catalog"
)

// module is a component with these schemas.
type module struct{ name, input, config, output string }

func (m module) Describe() component.Descriptor {
	return component.Descriptor{
		Module: m.name, Title: "Title", Description: "Description.", Category: "UTILITY",
		Input: json.RawMessage(m.input), Config: json.RawMessage(m.config), Output: json.RawMessage(m.output),
		Price: credit.Credits(3), Timeout: 1500 * time.Millisecond, Effect: component.EffectRead,
		Repeat: component.RepeatIdempotent, Modes: []component.Mode{component.ModeComponent},
	}
}

func (module) Run(context.Context, component.Call) (component.Result, error) {
	return component.Result{}, nil
}

const none = `{"type":"object","properties":{}}`

func load(t *testing.T, modules ...component.Module) *catalog.Catalog {
	t.Helper()
	registry, err := component.NewRegistry(modules...)
	if err != nil {
		t.Fatal(err)
	}
	return catalog.New(registry)
}

// system returns the catalogue in the small dialect.
func system(t *testing.T, c *catalog.Catalog) []api.SystemComponent {
	t.Helper()
	all, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestGetDescribesTheWholeComponent(t *testing.T) {
	c := load(t, module{
		name: "A", config: none, output: none,
		input: `{"type": "object", "properties": {"token": {"type": "string", "x-secret": true}, "list": {"type": "array", "items": {"type": "string", "x-secret": true}}}}`,
	})
	got, err := c.Get("A")
	if _, other := c.Get("a"); err != nil || fault.CodeOf(other) != fault.NotFound || !strings.Contains(other.Error(), "did you mean A?") {
		t.Fatal(err, other)
	}
	if !slices.Equal(got.SecretFields, []string{"/input/list/*", "/input/token"}) {
		t.Errorf("secret fields %v", got.SecretFields)
	}
	if got.Price != credit.Credits(3) || got.TimeoutMs != 1500 || got.Effect != api.ComponentEffectRead || got.Repeat != api.ComponentRepeatIdempotent ||
		!slices.Equal(got.ExecutionModes, []api.ExecutionMode{api.ExecutionModeCOMPONENT}) || string(got.Config) != none {
		t.Errorf("%+v", got)
	}
}

func TestPagesContainAllComponents(t *testing.T) {
	c := load(t, module{"C", none, none, none}, module{"A", none, none, none}, module{"B", none, none, none})
	for _, limit := range []int{1, 2, 3, 100} {
		var names []string
		for cursor := ""; ; {
			page, err := c.Page(limit, cursor)
			if err != nil || len(page.Data) > limit || page.HasMore != (page.NextCursor != nil) {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, one := range page.Data {
				names = append(names, one.Module)
			}
			if !page.HasMore {
				break
			}
			cursor = *page.NextCursor
		}
		if !slices.Equal(names, []string{"A", "B", "C"}) {
			t.Errorf("limit %d: %v", limit, names)
		}
	}
	if _, err := c.Page(1, "!"); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("malformed cursor: %v", err)
	}
}

func TestDialectTypes(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"string"}`:              `{"type":"string"}`,
		`{"type":"integer","minimum":1}`: `{"type":"number"}`,
		`{"type":"number"}`:              `{"type":"number"}`,
		`{"type":"boolean"}`:             `{"type":"boolean"}`,
		`{"type":["string","null"]}`:     `{"nullable":true,"type":"string"}`,
		`{"type":["null","object"],"properties":{"a":{"type":["integer","null"]}}}`: `{"nullable":true,"properties":{"a":{"nullable":true,"type":"number"}},"type":"object"}`,
		`{"type":"array","items":{"type":["boolean","null"]}}`:                      `{"items":{"nullable":true,"type":"boolean"},"type":"array"}`,
		`{"type":["string","null"],"enum":["a",null]}`:                              `{"enum":["a",null],"nullable":true,"type":"string"}`,
		`{"type":["string","null"],"enum":["a","b"]}`:                               `{"enum":["a","b"],"type":"string"}`,
		`{"enum":[1,null]}`:                    `{"enum":[1,null],"nullable":true}`,
		`{"const":null}`:                       `{"enum":[null],"nullable":true}`,
		`{"type":["string","integer","null"]}`: `{}`,
		`{"type":"null"}`:                      `{}`,
		`{"type":"object","additionalProperties":{"type":["string","null"]}}`: `{"type":"object"}`,
		`{"type":"string","pattern":"^(0|[1-9][0-9]*)$"}`:                     `{"type":"bigint"}`,
		`{"type":"string","pattern":"^-?[0-9]+$"}`:                            `{"type":"bigint"}`,
		`{"type":["string","integer"],"pattern":"^[0-9]+$"}`:                  `{"type":"bigint"}`,
		`{"type":["string","number"],"pattern":"^[0-9]+$"}`:                   `{}`,
		`{"type":"string","format":"bigint"}`:                                 `{"type":"bigint"}`,
		`{"type":["string","integer","null"],"format":"bigint"}`:              `{"nullable":true,"type":"bigint"}`,
		`{"type":["string","number"],"format":"bigint"}`:                      `{}`,
		`{"type":"number","format":"bigint"}`:                                 `{"type":"number"}`,
		`{"type":"string","pattern":"^0x[0-9a-f]*$"}`:                         `{"type":"string"}`,
		`{"type":"string","pattern":"^[0-9]{2}$"}`:                            `{"type":"string"}`,
		`{"type":"string","enum":["GET","POST"]}`:                             `{"enum":["GET","POST"],"type":"string"}`,
		`{"const":"x"}`: `{"enum":["x"]}`,
		`{"type":"array","items":{"type":"integer"}}`:             `{"items":{"type":"number"},"type":"array"}`,
		`{"type":"array","items":true}`:                           `{"items":{},"type":"array"}`,
		`{"type":"object","additionalProperties":true}`:           `{"type":"object"}`,
		`{"anyOf":[{"type":"string"},{"type":"null"}]}`:           `{"nullable":true,"type":"string"}`,
		`{"oneOf":[{"type":"string"},{"type":"integer"}]}`:        `{}`,
		`{"oneOf":[{"type":"number"},{"type":"integer"}]}`:        `{"type":"number"}`,
		`{"type":["string","integer"]}`:                           `{}`,
		`{"description":"any value"}`:                             `{}`,
		`{"type":["integer","array"],"items":{"type":"integer"}}`: `{}`,
		`true`: `{}`,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`: `{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`,
	} {
		c := load(t, module{name: "A", input: none, config: none, output: `{"type":"object","properties":{"x":` + schema + `},"required":["x"]}`})
		response := system(t, c)[0].Outputs.Response[0]
		got, err := json.Marshal(response.Schema)
		if err != nil || string(got) != want || response.Name != "x" || !response.Required {
			t.Errorf("%s:\ngot  %s\nwant %s", schema, got, want)
		}
	}
}

func TestRequiredInputHasFirstOfSeveralTypes(t *testing.T) {
	c := load(t, module{name: "A", config: none, output: none, input: `{"type":"object","required":["any","list","text","thing"],"properties":{
		"any":{},"list":{"type":["array","string"]},"other":{"type":["array","string"]},"text":{"type":["string","integer","null"]},
		"thing":{"type":["object","string"],"properties":{"a":{"type":"integer"}}}}}`})
	got, err := json.Marshal(system(t, c)[0].Inputs.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	var schemas []struct{ Schema json.RawMessage }
	if err := json.Unmarshal(got, &schemas); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`{"type":"object"}`, `{"items":{},"type":"array"}`, `{}`, `{"nullable":true,"type":"string"}`, `{"properties":{"a":{"type":"number"}},"type":"object"}`} {
		if string(schemas[i].Schema) != want {
			t.Errorf("parameter %d: %s, want %s", i, schemas[i].Schema, want)
		}
	}
}

func TestDialectKeepsFieldOrder(t *testing.T) {
	c := load(t, module{
		name: "A", input: `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`,
		config: `{"type":"object","properties":{"method":{"type":"string"}},"required":["method"]}`,
		output: `{"type":"object","required":["balance"],"properties":{"block":{"type":["integer","null"]},"balance":{"type":"string","pattern":"^[0-9]+$"}}}`,
	})
	got, err := json.Marshal(system(t, c))
	const want = `[{"configs":{"properties":{"method":{"type":"string"}},"required":["method"],"type":"object"},"executionModes":["COMPONENT"],` +
		`"inputs":{"parameters":[{"jsonSchema":{"type":"string"},"name":"a","required":false,"schema":{}},{"jsonSchema":{"type":"string"},"name":"b","required":false,"schema":{}}]},` +
		`"module":"A","name":"Title","outputs":{"response":[{"name":"balance","required":true,"schema":{"type":"bigint"}},{"name":"block","required":false,"schema":{"nullable":true,"type":"number"}}]},"type":"UTILITY"}]`
	if err != nil || string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
