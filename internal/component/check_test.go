package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
)

type formatted struct{ scripted }

func (formatted) Formats() map[string]func(string) error {
	return map[string]func(string) error{"even": func(text string) error {
		if len(text)%2 != 0 {
			return errors.New("an even number of characters is needed")
		}
		return nil
	}}
}

func checked(t *testing.T) *Registry {
	t.Helper()
	module := formatted{scripted{Descriptor: descriptor(func(d *Descriptor) {
		d.Input = json.RawMessage(`{"type":"object","required":["token","size"],"properties":{
			"token":{"type":"string","minLength":4,"pattern":"^tok_","x-secret":true},
			"size":{"type":"integer","minimum":1,"maximum":10},
			"mode":{"type":"string","enum":["fast","slow"]},
			"pair":{"type":"string","format":"even"},
			"link":{"type":"string","format":"uri"},
			"a/b~c":{"type":"array","items":{"type":"string"}},
			"vault":{"type":"object","additionalProperties":{"type":"string","enum":["one"],"x-secret":true}}}}`)
		d.Config = json.RawMessage(`{"type":"object","properties":{"depth":{"type":["integer","null"]}}}`)
	}), run: func(context.Context, Call) (Result, error) { return output(`{}`), nil }}}
	r, err := NewRegistry(module)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheckReportsAllFaultsWithPointers(t *testing.T) {
	err := checked(t).Check("PROBE", json.RawMessage(`{
		"token":"secret-value-1","size":11,"mode":"medium","pair":"abc","link":"no link","a/b~c":["x",5],"vault":{"k":"secret-value-2"}}`),
		json.RawMessage(`{"depth":"deep"}`))
	f, ok := err.(*fault.Error)
	if !ok || f.Code != fault.InvalidInput || !f.Unprocessable {
		t.Fatalf("got %#v", err)
	}
	want := map[string]string{
		"/input/a~1b~0c/1": "must be a string, got a number",
		"/input/link":      `must be a valid uri, such as https://api.example.org/v1; got "no link"`,
		"/input/mode":      `must be one of "fast", "slow", got "medium"`,
		"/input/pair":      `must be a valid even: an even number of characters is needed; got "abc"`,
		"/input/size":      "must be at most 10, got 11",
		"/input/token":     "must match ^tok_, got a string that is not shown because it is secret",
		"/input/vault/k":   `must be one of "one", got a string that is not shown because it is secret`,
		"/config/depth":    "must be an integer or null, got a string",
	}
	for _, detail := range f.Details {
		if want[detail.Pointer] != detail.Message || detail.Code != "INVALID_INPUT" {
			t.Errorf("%s: %q, want %q", detail.Pointer, detail.Message, want[detail.Pointer])
		}
		delete(want, detail.Pointer)
	}
	if len(want) != 0 {
		t.Errorf("not reported: %v", want)
	}
	if text := err.Error(); strings.Contains(text, "secret-value") {
		t.Errorf("a secret is in %s", text)
	}
}

// The value of a secret field is redacted everywhere, because a caller may also have put it into a
// different field.
func TestMT08CheckRedactsSecretInAnotherField(t *testing.T) {
	const secret = "tok_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	err := checked(t).Check("PROBE", json.RawMessage(`{"token":"`+secret+`","size":1,"mode":"`+secret+`","vault":{"`+secret+`":"two"}}`), json.RawMessage(`{}`))
	f, ok := err.(*fault.Error)
	if !ok || len(f.Details) != 2 || f.Details[0].Message != `must be one of "fast", "slow", got a string that is not shown because it is secret` || f.Details[1].Pointer != "/input/vault/[redacted]" {
		t.Errorf("got %+v", f)
	}
	if strings.Contains(err.Error(), "0123456789") {
		t.Errorf("the secret is in %s", err)
	}
}

func TestCheckNamesMissingFields(t *testing.T) {
	err := checked(t).Check("PROBE", json.RawMessage(`{}`), json.RawMessage(`{}`))
	f := err.(*fault.Error)
	if len(f.Details) != 2 || f.Details[0].Pointer != "/input/size" || f.Details[0].Message != "is required: expected an integer" {
		t.Errorf("got %+v", f.Details)
	}
}

// The fault of a missing value describes the expected value at any depth.
func TestWhatIsMissingIsDescribedAtAnyDepth(t *testing.T) {
	t.Parallel()
	const amount = `{"type":"object","required":["amount"],"properties":{"amount":{"type":"string"}}}`
	for _, c := range []struct{ schema, data, want string }{
		{`{"properties":{"a":{"items":` + amount + `}}}`, `{"a":[{"amount":"1"},{}]}`, "/a/1/amount is required: expected a string"},
		{`{"properties":{"a":{"prefixItems":[` + amount + `,{}],"items":{"required":["n"],"properties":{"n":{"type":["integer","null"]}}}}}}`, `{"a":[{},{},{}]}`,
			"/a/0/amount is required: expected a string; /a/2/n is required: expected an integer or null"},
		{`{"properties":{"a":{"items":{"$ref":"#/$defs/r"}}},"$defs":{"r":` + amount + `}}`, `{"a":[{}]}`, "/a/0/amount is required: expected a string"},
		{`{"additionalProperties":` + amount + `}`, `{"x":{}}`, "/x/amount is required: expected a string"},
		{`{"allOf":[{"required":["k"]},{"properties":{"k":{"enum":["a",1]}}}]}`, `{}`, `/k is required: expected one of "a", 1`},
		{`{"if":{"required":["k"]},"then":{"required":["l"],"properties":{"l":{"type":"array"}}}}`, `{"k":1}`, "/l is required: expected an array"},
		{`{"required":["0"],"properties":{"0":{"type":"boolean"}}}`, `{}`, "/0 is required: expected a boolean"},
		{`{"required":["any"],"properties":{"any":{}}}`, `{}`, "/any is required"},
		{`{"required":["other"]}`, `{}`, "/other is required"},
	} {
		schema, refused := NewSchema("", json.RawMessage(c.schema))
		if refused != nil {
			t.Fatal(refused)
		}
		var got []string
		for _, d := range schema.Check("", json.RawMessage(c.data)) {
			got = append(got, d.Pointer+" "+d.Message)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", c.schema, got, c.want)
		}
	}
}

// A single call treats a reference as a plain string. The fault says so.
func TestUnsubstitutedVariableIsExplained(t *testing.T) {
	for input, told := range map[string]bool{
		`{"token":"tok_1","size":"{{env.SIZE}}"}`: true, `{"token":"tok_1","size":1,"pair":"{{env.PAIR_}}"}`: true, `{"token":"tok_1","size":1,"mode":"a {{env.MODE}}"}`: true,
		`{"token":"{{env.TOKEN}}","size":1}`: true, `{"token":"tok_1","size":1,"mode":"{{ start.mode }}"}`: true, `{"token":"tok_1","size":1,"mode":"{MODE}"}`: false,
	} {
		f, ok := checked(t).Check("PROBE", json.RawMessage(input), json.RawMessage(`{}`)).(*fault.Error)
		if !ok || len(f.Details) != 1 || strings.HasSuffix(f.Details[0].Message, notHere) != told {
			t.Errorf("%s: %+v", input, f)
		}
	}
}

func TestMostSimilarNameIsSuggested(t *testing.T) {
	r := &Registry{list: []Descriptor{{Module: "DECODE"}, {Module: "ENCODE"}, {Module: "HASH"}, {Module: "RANDOM_UUID"}}}
	for asked, want := range map[string]string{"random-uuid": "RANDOM_UUID", "encod": "ENCODE", "DECODED": "DECODE", "hsah": "HASH", "nothing": "", "": "", "x": "", "ah": "", strings.Repeat("A", 65): ""} {
		if got := r.nearest(asked); got != want {
			t.Errorf("%q is taken for %q, want %q", asked, got, want)
		}
	}
}

func TestAB06UnknownModulesAreRefusedWithoutReflection(t *testing.T) {
	r := checked(t)
	for _, module := range []string{
		"", "NOPE", strings.Repeat("A", 10_000), "../../etc/passwd", "PR\u039fBE", "PROBE\x00", "probe", "\xff\xfe", strings.Repeat("\u202e", 500),
	} {
		err := r.Check(module, json.RawMessage(`{}`), json.RawMessage(`{}`))
		f, ok := err.(*fault.Error)
		if !ok || f.Code != fault.InvalidInput || f.Unprocessable || len(f.Details) != 1 || f.Details[0].Pointer != "/module" {
			t.Errorf("%.20q: got %#v", module, err)
			continue
		}
		if len(f.Message) > 200 || strings.ContainsFunc(f.Message, func(c rune) bool { return c > 126 || c < 32 }) {
			t.Errorf("%.20q: message %q", module, f.Message)
		}
	}
	if err := r.Check("PROVE", nil, nil); !strings.Contains(err.Error(), "did you mean PROBE?") {
		t.Errorf("no hint in %v", err)
	}
}

func TestUnsupportedModeIsExplained(t *testing.T) {
	r := checked(t)
	if err := r.CheckMode("PROBE", ModeComponent); err != nil {
		t.Error(err)
	}
	f, ok := r.CheckMode("PROBE", ModeWorkflow).(*fault.Error)
	if !ok || f.Code != fault.InvalidInput || f.Unprocessable || f.Details[0].Pointer != "/module" || f.Message != "PROBE works only on its own, not inside a workflow: POST /v1/sdk/components executes it" {
		t.Errorf("%+v", f)
	}
	if err := r.CheckMode("NOPE", ModeComponent); err != nil {
		t.Errorf("Check says that better: %v", err)
	}
}

func TestAB06InputsOfTheWrongTypeAreRefused(t *testing.T) {
	for _, data := range []string{`null`, `[]`, `"text"`, `7`, `true`} {
		f, ok := checked(t).Check("PROBE", json.RawMessage(data), json.RawMessage(`{}`)).(*fault.Error)
		if !ok || f.Details[0].Pointer != "/input" || !strings.HasPrefix(f.Details[0].Message, "must be an object, got ") {
			t.Errorf("%s: %+v", data, f)
		}
	}
	for _, data := range []string{``, `{`, `{} {}`} {
		f, ok := checked(t).Check("PROBE", json.RawMessage(data), json.RawMessage(`{}`)).(*fault.Error)
		if !ok || f.Code != fault.InvalidInput || f.Details[0].Pointer != "/input" {
			t.Errorf("%q: %+v", data, f)
		}
	}
}

func TestRegistryRefusesFaultyModules(t *testing.T) {
	for name, edit := range map[string]func(*Descriptor){
		"name":            func(d *Descriptor) { d.Module = "lower" },
		"no title":        func(d *Descriptor) { d.Title = "" },
		"no timeout":      func(d *Descriptor) { d.Timeout = 0 },
		"no mode":         func(d *Descriptor) { d.Modes = nil },
		"effect":          func(d *Descriptor) { d.Effect = "some" },
		"repeat":          func(d *Descriptor) { d.Repeat = "often" },
		"schema":          func(d *Descriptor) { d.Output = json.RawMessage(`{"type":"object","properties":7}`) },
		"not an object":   func(d *Descriptor) { d.Input = json.RawMessage(`{"type":"array"}`) },
		"remote schema":   func(d *Descriptor) { d.Input = json.RawMessage(`{"type":"object","$ref":"http://127.0.0.1/x"}`) },
		"idle secret":     func(d *Descriptor) { d.Input = json.RawMessage(`{"type":"object","$defs":{"a":{"x-secret":true}}}`) },
		"schema not JSON": func(d *Descriptor) { d.Config = json.RawMessage(`{`) },
	} {
		r, err := NewRegistry(scripted{Descriptor: descriptor(edit)})
		if err == nil {
			err = r.Compile()
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewRegistry(scripted{Descriptor: descriptor(nil)}, scripted{Descriptor: descriptor(nil)}); err == nil {
		t.Error("a module was registered twice")
	}
}

func TestCheckStopsAfterAHundredFaults(t *testing.T) {
	schema, faults := NewSchema("", json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"items":{"type":"array","items":{"type":"integer"}}}}`))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for name, data := range map[string]string{
		"items":         `{"items":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 5000), ",") + `]}`,
		"unknown names": "{" + strings.TrimSuffix(manyMembers(5000), ",") + "}",
	} {
		if n := len(schema.Check("/input", json.RawMessage(data))); n != fault.MaxDetails+1 {
			t.Errorf("%s: %d faults were collected", name, n)
		}
	}
}

func manyMembers(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `"m%d":1,`, i)
	}
	return text.String()
}

// An address with a user name or a password is rejected before the call, without showing it.
func TestUserInfoInAnAddressIsRejected(t *testing.T) {
	t.Parallel()
	registry := checked(t)
	entry, _ := registry.Lookup("PROBE")
	for address, rejected := range map[string]bool{
		"https://user:hunter2@a.test/":        true,
		"https://hunter2@a.test":              true,
		"https://{{env.USER}}:hunter2@a.test": true,
		"https://a.test/@hunter2":             false,
		"https://a.test?to=hunter2@b.test":    false,
	} {
		input := json.RawMessage(`{"token":"tok_1","size":1,"link":"` + address + `"}`)
		faults, _ := entry.Review(input, json.RawMessage(`{}`), nil, nil)
		err := registry.Check("PROBE", input, json.RawMessage(`{}`))
		if refused := err != nil && strings.Contains(fmt.Sprint(err, err.(*fault.Error).Details), "Authorization"); refused != rejected || len(faults) > 0 != rejected {
			t.Errorf("%s: %v %v", address, err, faults)
		}
		if shown := fmt.Sprintf("%+v %+v", err, faults); strings.Contains(shown, "hunter2") && rejected && !strings.Contains(address, "{{") {
			t.Errorf("%s is shown in %s", address, shown)
		}
	}
}
