package envref_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/envref"
)

func TestNamesAreFoundInStringsOnly(t *testing.T) {
	t.Parallel()
	got := envref.Names(
		json.RawMessage(`{"a":"{{env.B}} and {{env.A_1}}{{env.B}}","{{env.KEY}}":[{"x":"\u007b{env.ESCAPED}}"}],"n":1,"other":"{{ env.X }} ${env.Y} {{env.lower}} {{env.}}"}`),
		nil, json.RawMessage(`"{{env.Z}}"`), json.RawMessage(`broken`))
	if want := []string{"A_1", "B", "ESCAPED", "X", "Z"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !envref.In("Bearer {{env.T}}") || envref.In("{{env.t}}") || envref.In("{{env."+strings.Repeat("A", 65)+"}}") {
		t.Error("references are not recognised")
	}
}

func TestAloneMeansNothingButReferences(t *testing.T) {
	t.Parallel()
	for text, alone := range map[string]bool{
		"{{env.T}}": true, "{{env.A}}{{env.B}}": true, "{{ login.body.token }}": true, "Bearer {{login.body.token ?? env.T}}": true, "sid={{login.body.sid}}": true, "Bearer {{ 'hunter2' }}": false, "{{ env.T + \"x\" }}": false, "Bearer {{env.T}}": true, "Negotiate-Me {{env.T}}": true,
		"": false, "text": false, "Bearer text": false, "{{env.T}}x": false, "hunter{{env.T}}": false, "s3cret {{env.T}}": false,
		"two words {{env.T}}": false, "Sixteen-letters- {{env.T}}": true, "Seventeen-letters {{env.T}}": false, " {{env.T}}": false, "{{env.T}} {{env.T}}": false, "Bearer  {{env.T}}": false, "Bearer {{env.T}} {{env.T}}": false,
	} {
		if envref.Alone(text) != alone {
			t.Errorf("%q: alone is %t", text, !alone)
		}
	}
}

func TestValuesAreInsertedUnchanged(t *testing.T) {
	t.Parallel()
	values := envref.Values{"A": `quo"te \ {{env.B}}`, "B": "b", "E": ""}
	for given, want := range map[string]string{
		`{"x":"{{env.A}}"}`:                               `{"x":"quo\"te \\ {{env.B}}"}`, // an inserted value is not scanned again
		`{"x":["1{{env.B}}2{{env.E}}3",7]}`:               `{"x":["1b23",7]}`,
		`{"big":12345678901234567890.5, "x":"{{env.B}}"}`: `{"big":12345678901234567890.5,"x":"b"}`,
		`{"z":{"y":"{{env.B}}","b":1},"a":2}`:             `{"z":{"y":"b","b":1},"a":2}`,
		`{"same" : "as it is"}`:                           `{"same" : "as it is"}`,
		``:                                                ``,
	} {
		got, err := values.ResolveAs("/input", json.RawMessage(given), json.RawMessage(given))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	}
	missing := json.RawMessage(`{"a":[{"b":"{{env.NONE}}"}]}`)
	_, err := values.ResolveAs("/config", missing, missing)
	if unknown, ok := errors.AsType[*envref.Unknown](err); !ok || *unknown != (envref.Unknown{Name: "NONE", Pointer: "/config/a/0/b"}) {
		t.Errorf("unknown: %v", err)
	}
}

func TestOnlyStringsOfTheAuthorAreResolved(t *testing.T) {
	t.Parallel()
	written := json.RawMessage(`{"items":["{{env.A}}",{"x":"{{env.A}}"},"-"]}`)
	laid := json.RawMessage(`{"items":["{{env.A}}",{"x":"laid {{env.A}}"},"{{env.A}}","{{env.A}}"],"more":"{{env.A}}"}`)
	got, err := envref.Values{"A": "a"}.ResolveAs("/input", laid, written)
	if want := `{"items":["a",{"x":"laid {{env.A}}"},"{{env.A}}","{{env.A}}"],"more":"{{env.A}}"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestTheSizeOfValuesIsLimited(t *testing.T) {
	t.Parallel()
	text, _ := json.Marshal(strings.Repeat("{{env.A}}", 10_000))
	if _, err := (envref.Values{"A": strings.Repeat("x", 8<<10)}).ResolveAs("", text, text); !errors.Is(err, envref.ErrTooLarge) {
		t.Errorf("80 MiB: %v", err)
	}
}

func TestProbableReferencesAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"{{env.A}} {{env.a}}"`:       "{{env.a}}",
		`{"x":["a {{ env.A }}"]}`:     "{{ env.A }}",
		`"${{ENV.A_B}}"`:              "{{ENV.A_B}}",
		`"{{environment.A}} {{ A }}"`: "",
		`"{{env.A}}"`:                 "",
		`{`:                           "",
	} {
		if got := strings.Join(envref.Nearly(json.RawMessage(text)), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
