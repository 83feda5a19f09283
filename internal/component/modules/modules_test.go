package modules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/egress"
)

func registry(t *testing.T) *component.Registry {
	t.Helper()
	guard := egress.New(egress.Policy{})
	t.Cleanup(guard.Close)
	r, err := component.NewRegistry(All(guard)...)
	if err == nil {
		err = r.Compile()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// described matches the name of a module in its descriptor.
var described = regexp.MustCompile(`(?:\b[mM]odule:\s*|[cC]onstant\()"([A-Z][A-Z0-9_]*)"`)

// named matches the constants of component/names.go.
var named = regexp.MustCompile(`= "([A-Z][A-Z0-9_]*)"`)

// Each module that a file describes is in the table of its category, and therefore in the
// library. The tests in conformance/ check that all modules of the contract exist.
func TestEveryDescribedModuleIsRegistered(t *testing.T) {
	r := registry(t)
	found := 0
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../names.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pattern := described
		if file == "../names.go" {
			pattern = named
		}
		for _, match := range pattern.FindAllSubmatch(source, -1) {
			found++
			if _, ok := r.Lookup(string(match[1])); !ok {
				t.Errorf("%s describes %s, which is in no table", file, match[1])
			}
		}
	}
	if listed := len(r.List()); found < listed {
		t.Errorf("%d modules are listed, and %d were found described: one says its name in another way", listed, found)
	}
}

func TestPricesThatTheContractGives(t *testing.T) {
	r := registry(t)
	for module, want := range map[string]credit.Amount{"RANDOM_UUID": credit.Credits(1), "GET_EVM_ACCOUNT_BALANCE": credit.Credits(3)} {
		if entry, _ := r.Lookup(module); entry.Price != want {
			t.Errorf("%s costs %s, want %s", module, entry.Price, want)
		}
	}
}

// Every module runs in workflows. Control flow modules run only there.
func TestModesOfTheLibrary(t *testing.T) {
	for _, d := range registry(t).List() {
		alone := d.Category != "LOGIC" || d.Module == "TRANSFORM"
		if slices.Contains(d.Modes, component.ModeComponent) != alone || !slices.Contains(d.Modes, component.ModeWorkflow) {
			t.Errorf("%s has the modes %v", d.Module, d.Modes)
		}
	}
}

func TestSecretFieldsOfTheLibrary(t *testing.T) {
	r := registry(t)
	for module, want := range map[string]string{
		"API_CALL": "/headers/*", "GET_EVM_ACCOUNT_BALANCE": "/headers/* /jsonRpcUrl", "READ_EVM_CONTRACT": "/headers/* /jsonRpcUrl", "WAIT_FOR_EVM_TRANSACTION": "/headers/* /jsonRpcUrl", "HASH": "",
		"SIGN_EVM_TRANSACTION": "/privateKey", "SIGN_EVM_MESSAGE": "/privateKey", "SIGN_EVM_TYPED_DATA": "/privateKey", "VERIFY_EVM_MESSAGE": "",
		"HMAC": "/key", "AGE_ENCRYPT": "/data", "AGE_DECRYPT": "/ageIdentity",
		"BUILD_EVM_TRANSACTION": "/headers/* /jsonRpcUrl", "BROADCAST_EVM_TRANSACTION": "/headers/* /jsonRpcUrl", "RESOLVE_ENS_NAME": "/headers/* /jsonRpcUrl",
	} {
		if entry, _ := r.Lookup(module); strings.Join(entry.SecretPaths.Input, " ") != want {
			t.Errorf("%s has the secret fields %v, want %s", module, entry.SecretPaths.Input, want)
		}
	}
}

type schema struct {
	Dialect     string                     `json:"$schema"`
	Description string                     `json:"description"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Examples    []json.RawMessage          `json:"examples"`
}

func read(t *testing.T, raw json.RawMessage) schema {
	t.Helper()
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAgeRecipientsAreNotSecret(t *testing.T) {
	entry, known := registry(t).Lookup("AGE_ENCRYPT")
	if !known {
		t.Fatal("AGE_ENCRYPT is missing")
	}
	want := []string{"/additionalRecipients/*", "/ageRecipient"}
	if got, _ := entry.AddressPaths(); !slices.Equal(got, want) {
		t.Errorf("its addresses are %q, want %q", got, want)
	}
}

func TestEverySchemaIsDocumentedAndItsExamplesAreValid(t *testing.T) {
	r := registry(t)
	for _, d := range r.List() {
		for part, raw := range map[string]json.RawMessage{"input": d.Input, "config": d.Config, "output": d.Output} {
			s := read(t, raw)
			if s.Dialect != "https://json-schema.org/draft/2020-12/schema" || s.Description == "" || (part != "output" && len(s.Examples) == 0) {
				t.Errorf("%s %s: dialect, description or examples are missing", d.Module, part)
			}
			for name, property := range s.Properties {
				var words struct{ Title, Description string }
				if err := json.Unmarshal(property, &words); err != nil || words.Title == "" || words.Description == "" {
					t.Errorf("%s %s.%s: title or description is missing", d.Module, part, name)
				}
				for _, place := range undescribed(t, property, name) {
					t.Errorf("%s %s.%s: the description is missing", d.Module, part, place)
				}
				compiled := componenttest.Compile(t, property)
				if part != "output" && len(read(t, property).Examples) == 0 {
					t.Errorf("%s %s.%s: an example is missing", d.Module, part, name)
				}
				for _, example := range read(t, property).Examples {
					value, _ := decode(example)
					if err := compiled.Validate(value); err != nil {
						t.Errorf("%s %s.%s: example %s: %v", d.Module, part, name, example, err)
					}
				}
			}
		}
		for _, input := range read(t, d.Input).Examples {
			for _, config := range read(t, d.Config).Examples {
				if err := r.Check(d.Module, input, config); err != nil {
					t.Errorf("%s: the example %s with %s is refused: %v", d.Module, input, config, err)
				}
			}
		}
	}
}

// undescribed returns the nested fields without a description.
func undescribed(t *testing.T, raw json.RawMessage, place string) []string {
	t.Helper()
	if raw == nil || raw[0] != '{' {
		return nil
	}
	var one struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Items      json.RawMessage            `json:"items"`
	}
	if err := json.Unmarshal(raw, &one); err != nil {
		t.Fatal(err)
	}
	all := undescribed(t, one.Items, place+"[]")
	for name, inner := range one.Properties {
		if read(t, inner).Description == "" {
			all = append(all, place+"."+name)
		}
		all = append(all, undescribed(t, inner, place+"."+name)...)
	}
	return all
}

func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// TestAB05WhatPostgreSQLCannotHoldIsRefusedInEveryField puts each kind of unstorable value into
// every field of every module.
func TestAB05WhatPostgreSQLCannotHoldIsRefusedInEveryField(t *testing.T) {
	r := registry(t)
	for _, d := range r.List() {
		for part, raw := range map[string]json.RawMessage{"input": d.Input, "config": d.Config} {
			for name := range read(t, raw).Properties {
				for _, bad := range []string{`"\u0000"`, `"\ud800"`, `1e131072`, "\"\xff\"", `{"a":1,"a":2}`, `{"\u0000":1}`, strings.Repeat("[", 70) + strings.Repeat("]", 70)} {
					parts := map[string]json.RawMessage{"input": json.RawMessage(`{}`), "config": json.RawMessage(`{}`)}
					parts[part] = json.RawMessage(fmt.Sprintf(`{%q:%s}`, name, bad))
					f, ok := r.Check(d.Module, parts["input"], parts["config"]).(*fault.Error)
					if !ok || f.Code != fault.InvalidInput || len(f.Details) == 0 || !strings.HasPrefix(f.Details[0].Pointer, "/"+part) {
						t.Errorf("%s %s.%s with %.20q: %+v", d.Module, part, name, bad, f)
					}
				}
			}
		}
	}
}

// TestMT05NoRefusalQuotesASecret puts a canary into every secret field, in values that violate each
// rule of the field.
func TestMT05NoRefusalQuotesASecret(t *testing.T) {
	r := registry(t)
	const canary = "canary-7f3e9a51c2"
	for _, d := range r.List() {
		entry, _ := r.Lookup(d.Module)
		for _, path := range entry.SecretPaths.Input {
			steps := strings.Split(path[1:], "/")
			for _, bad := range []any{canary, "\r\n" + canary, []any{canary}, map[string]any{"x": canary}, strings.Repeat(canary, 2000), "http://[" + canary} {
				value := bad
				for _, step := range slices.Backward(steps) {
					value = map[string]any{strings.ReplaceAll(step, "*", "X"): value}
				}
				input, _ := json.Marshal(value)
				err := r.Check(d.Module, input, json.RawMessage(`{}`))
				if err == nil {
					t.Fatalf("%s: %s was accepted", d.Module, input)
				}
				if text := fmt.Sprintf("%+v %v", err, err); strings.Contains(text, "canary") {
					t.Errorf("%s: the secret is in %s", d.Module, text)
				}
				if redacted := entry.RedactInput(input); bytes.Contains(redacted, []byte("canary")) {
					t.Errorf("%s: redaction leaves %s", d.Module, redacted)
				}
			}
		}
	}
}

// TestModulesConnectThroughTheGuardOnly searches the sources for connections that bypass the guard.
func TestModulesConnectThroughTheGuardOnly(t *testing.T) {
	around := regexp.MustCompile(`http\.(DefaultClient|DefaultTransport|Get|Post|PostForm|Head)\b|&?http\.(Client|Transport)\{|net\.(Dial|Listen|Lookup)|\bos/exec\b|ethclient|go-ethereum/rpc`)
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasSuffix(path, "test") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if found := around.Find(source); found != nil {
			t.Errorf("%s uses %s", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A module must read only the fields that its schema declares, but package encoding/json ignores
// letter case. Undeclared top-level fields never reach the module. Undeclared nested fields are
// rejected by the schema, or the module decodes exact names.
func TestNestedObjectsRejectUndeclaredFields(t *testing.T) {
	exact := []string{"SIGN_EVM_TRANSACTION/input/signature", "SIGN_EVM_TYPED_DATA/input/types/*/*"}
	var open []string
	var look func(at string, node any, below bool)
	look = func(at string, node any, below bool) {
		schema, ok := node.(map[string]any)
		if !ok {
			return
		}
		properties, _ := schema["properties"].(map[string]any)
		if _, stated := schema["additionalProperties"]; below && len(properties) > 0 && !stated {
			open = append(open, at)
		}
		for name, property := range properties {
			look(at+"/"+name, property, true)
		}
		for _, keyword := range []string{"additionalProperties", "items"} {
			look(at+"/*", schema[keyword], true)
		}
	}
	for _, d := range registry(t).List() {
		for part, raw := range map[string]json.RawMessage{"input": d.Input, "config": d.Config} {
			var root any
			if err := json.Unmarshal(raw, &root); err != nil {
				t.Fatal(err)
			}
			look(d.Module+"/"+part, root, false)
		}
	}
	if slices.Sort(open); !slices.Equal(open, exact) {
		t.Errorf("%v take other members, want %v", open, exact)
	}
}
