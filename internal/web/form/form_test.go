package form_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/form"
)

// outline returns the fields of a form on one line.
func outline(fields []form.Field) string {
	var all []string
	for _, one := range fields {
		text := one.Pointer + ":" + string(one.Kind)
		if one.Kind == form.Group {
			text += " (" + outline(one.Fields) + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestFieldsOfSchema(t *testing.T) {
	t.Parallel()
	properties := func(text string) string { return `{"type":"object","properties":{` + text + `}}` }
	for schema, want := range map[string]string{
		properties(`"a":{"type":"string"},"b":{"type":["integer","null"]},"c":{"type":"boolean"}`):                    "/input/a:text, /input/b:number, /input/c:choice",
		properties(`"a":{"enum":["x","y"]},"b":{"const":1}`):                                                          "/input/a:choice, /input/b:choice",
		properties(`"a":{"type":"array"},"b":{},"c":{"type":["string","object"]}`):                                    "/input/a:json, /input/b:json, /input/c:json",
		properties(`"a":{"type":["string","integer"]}`):                                                               "/input/a:text",
		properties(`"a":{"type":"string","x-secret":true},"b":{"type":"object","x-secret":true}`):                     "/input/a:password, /input/b:json",
		properties(`"a":{"type":"object","properties":{"b":{"type":"object","properties":{"c":{"type":"string"}}}}}`): "/input/a:group (/input/a/b:json)",
		properties(`"a":{"type":"object","additionalProperties":true,"properties":{"b":{"type":"string"}}}`):          "/input/a:json",
		properties(`"a/b~":{"type":"string"}`):                                                                        "/input/a~1b~0:text",
		`{"type":"object","additionalProperties":{"type":"string"},"properties":{"a":{"type":"string"}}}`:             "/input/a:text, /input:json",
		`{"type":"object","properties":{}}`:                                                                           "",
		`{"type":"object"}`:                                                                                           "/input:json",
		`true`:                                                                                                        "/input:json",
		`null`:                                                                                                        "/input:json",
		`{`:                                                                                                           "/input:json",
	} {
		if got := outline(form.Of("/input", json.RawMessage(schema), nil).Fields); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", schema, got, want)
		}
	}
}

// all is a schema with a field of each kind.
const all = `{"type":"object","required":["text","number"],"properties":{
	"text":{"type":"string"},"number":{"type":"number"},"flag":{"type":"boolean"},"size":{"enum":["s",2,null]},"list":{"type":"array"},
	"key":{"type":"string","x-secret":true},"any":{},"to":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}}}}}`

func TestReadReturnsWhatWasTyped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, object, faults string }{
		{"", `{"text":""}`, ""},
		{"/input/text=a%0D%0Ab&/input/number=1.50", `{"text":"a\nb","number":1.50}`, ""},
		{"/input/text=5&/input/number=12345678901234567890", `{"text":"5","number":12345678901234567890}`, ""},
		{"/input/flag=false&/input/size=2", `{"text":"","flag":false,"size":2}`, ""},
		{"/input/flag=maybe", `{"text":""}`, "/input/flag is not one of the choices"},
		{"/input/number=1,5", `{"text":""}`, `/input/number expected number as JSON; got "1,5"`},
		{"/input/list=[1, 2]&/input/any=hello", `{"text":"","list":[1, 2],"any":"hello"}`, ""},
		{"/input/list=[", `{"text":""}`, `/input/list expected array as JSON; got "["`},
		{`/input/any={"a":1,"a":2}`, `{"text":""}`, "/input/any "},
		{"/input/to/name=Ada&/input/to/age=36", `{"text":"","to":{"name":"Ada","age":36}}`, ""},
		{"/input/to/age=x", `{"text":""}`, `/input/to/age expected integer as JSON; got "x"`},
		{"/input/key=hunter2&/input/nothing=x", `{"text":"","key":"hunter2"}`, ""},
	} {
		typed, err := url.ParseQuery(c.typed)
		if err != nil {
			t.Fatal(err)
		}
		f := form.Of("/input", json.RawMessage(all), nil)
		object, readable := f.Read(typed)
		if string(object) != c.object || readable != (c.faults == "") {
			t.Errorf("%s: %s, readable %v, want %s", c.typed, object, readable, c.object)
		}
		if got := faults(f.Fields); !strings.HasPrefix(got, c.faults) || c.faults == "" && got != "" {
			t.Errorf("%s: %s, want %s", c.typed, got, c.faults)
		}
		if strings.Contains(fmt.Sprint(f), "hunter2") {
			t.Errorf("%s: the form contains the secret", c.typed)
		}
	}
}

// faults returns the faults of fields.
func faults(fields []form.Field) (text string) {
	for _, one := range fields {
		if one.Fault != "" {
			text += one.Pointer + " " + one.Fault
		}
		text += faults(one.Fields)
	}
	return text
}

func TestReadMergesFurtherFields(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","additionalProperties":true,"properties":{"a":{"type":"string"}}}`
	for typed, want := range map[string]string{
		`/input/a=x&/input={"c": 1, "b": [2]}`: `{"a":"x","c":1,"b":[2]} true`,
		`/input=[1]`:                           `{} false`,
		`/input=null`:                          `{} false`,
		`/input/a=x&/input={"a":"y"}`:          `{"a":"x","a":"y"} false`,
	} {
		values, _ := url.ParseQuery(typed)
		f := form.Of("/input", json.RawMessage(schema), nil)
		object, readable := f.Read(values)
		if got := fmt.Sprint(string(object), " ", readable); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
		if !readable && faults(f.Fields) == "" {
			t.Errorf("%s: no fault", typed)
		}
	}
}

// What Fill puts into the fields, Read returns.
func TestReadReturnsWhatWasFilled(t *testing.T) {
	t.Parallel()
	for _, object := range []string{
		`{"text":"a \"quoted\"\nline","number":1e3,"flag":true,"size":"s","list":[{"a":null}],"any":"5","to":{"name":"Ada"}}`,
		`{"text":"5","number":-1,"size":null,"any":{"x":[]}}`,
	} {
		f := form.Of("/input", json.RawMessage(all), nil)
		f.Fill(json.RawMessage(object))
		read, readable := f.Read(values(f.Fields))
		var got, want any
		if json.Unmarshal(read, &got) != nil || json.Unmarshal([]byte(object), &want) != nil || fmt.Sprint(got) != fmt.Sprint(want) || !readable {
			t.Errorf("%s, want %s", read, object)
		}
	}
}

// values returns what a browser sends for the fields.
func values(fields []form.Field) url.Values {
	all := url.Values{}
	for _, one := range fields {
		for name, inner := range values(one.Fields) {
			all[name] = inner
		}
		if one.Kind != form.Group {
			all.Set(one.Pointer, one.Value)
		}
	}
	return all
}

func TestSecretsAreNeitherFilledNorShown(t *testing.T) {
	t.Parallel()
	const object = `{"text":"hunter2","list":["hunter2"],"to":{"name":"hunter2","age":1},"key":"hunter2","more":"hunter2"}`
	open := strings.TrimSuffix(all, "}") + `,"additionalProperties":true}`
	f := form.Of("/input", json.RawMessage(open), []string{"/text", "/list/*", "/to/name", "/more"})
	f.Fill(json.RawMessage(object))
	if text := fmt.Sprint(f); strings.Contains(text, "hunter2") {
		t.Errorf("the form contains a secret: %s", text)
	}
	if got, want := string(f.Hide(json.RawMessage(object), "…")), `{"text":"…","list":"…","to":{"name":"…","age":1},"key":"…","more":"…"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if whole := form.Of("/input", nil, []string{""}); !whole.Fields[0].Secret {
		t.Error("the field for a whole secret object isn't secret")
	}
}

func TestErrorsAreNextToTheirFields(t *testing.T) {
	t.Parallel()
	f := form.Of("/input", json.RawMessage(all), nil)
	others := f.Explain([]fault.Detail{
		{Pointer: "/input/text", Message: "is too short"}, {Pointer: "/input/text", Message: "is ugly"}, {Pointer: "/input/list/0/a", Message: "is required"},
		{Pointer: "/input/to/age", Message: "is too old"}, {Pointer: "/input/to", Message: "is lost"}, {Pointer: "/input/texts", Message: "is unknown"}, {Pointer: "/config", Message: "is wrong"},
	})
	if got, want := faults(f.Fields), "/input/text is too short; is ugly/input/list /0/a is required/input/to is lost/input/to/age is too old"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if fmt.Sprint(others) != "[{ is unknown /input/texts} { is wrong /config}]" {
		t.Errorf("other errors: %v", others)
	}
}
