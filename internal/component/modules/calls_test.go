package modules

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// Every module rejects an input or a config that isn't an object, even if it has no fields.
func TestEveryModuleRejectsNonObjects(t *testing.T) {
	t.Parallel()
	r := registry(t)
	for _, d := range r.List() {
		for _, bad := range []string{`[]`, `7`, `"{}"`, `null`, `true`, `{`, `{"a":1}{}`} {
			for part, call := range map[string][2]string{"input": {bad, `{}`}, "config": {`{}`, bad}} {
				refusal := componenttest.Refusal(r.Check(d.Module, json.RawMessage(call[0]), json.RawMessage(call[1])))
				if !strings.HasPrefix(refusal, "/"+part) && !strings.Contains(refusal, "\n/"+part) {
					t.Errorf("%s with the %s %s: %q", d.Module, part, bad, refusal)
				}
			}
		}
	}
}

// FuzzCalls runs arbitrary calls on every module. Errors have pointers into the call and are
// deterministic, and the redacted call is valid JSON. If a module doesn't connect to the network,
// it finishes in time, with an output that can be stored or with a clean error.
func FuzzCalls(f *testing.F) {
	guard := egress.New(egress.Policy{})
	f.Cleanup(guard.Close)
	r, err := component.NewRegistry(All(guard)...)
	if err != nil {
		f.Fatal(err)
	}
	list := r.List()
	for i, d := range list {
		var schemas [2]struct{ Examples []json.RawMessage }
		for part, raw := range []json.RawMessage{d.Input, d.Config} {
			if err := json.Unmarshal(raw, &schemas[part]); err != nil {
				f.Fatal(err)
			}
		}
		for _, input := range schemas[0].Examples {
			f.Add(i, []byte(input), []byte(schemas[1].Examples[0]))
		}
	}
	f.Fuzz(func(t *testing.T, which int, input, config []byte) {
		d := list[(which%len(list)+len(list))%len(list)]
		entry, _ := r.Lookup(d.Module)
		refusal := componenttest.Refusal(r.Check(d.Module, input, config))
		if again := componenttest.Refusal(r.Check(d.Module, input, config)); again != refusal {
			t.Errorf("%s %q %q: %s, then %s", d.Module, input, config, refusal, again)
		}
		for line := range strings.Lines(refusal) {
			if !strings.HasPrefix(line, "/input") && !strings.HasPrefix(line, "/config") {
				t.Errorf("%s %q %q: %s", d.Module, input, config, line)
			}
		}
		_ = entry.CheckLiterals(input, config, nil, nil)
		if shown := entry.RedactInput(input); strictjson.Check(input) == nil && strictjson.Check(shown) != nil {
			t.Errorf("%s %q is shown as %q", d.Module, input, shown)
		}
		if refusal != "" || d.Effect != component.EffectNone || !slices.Contains(d.Modes, component.ModeComponent) {
			return
		}
		began := time.Now()
		result, err := r.Run(t.Context(), d.Module, component.Call{ExecutionID: uuid.Must(uuid.NewV7()), Attempt: 1, Input: input, Config: config})
		if failed, ok := err.(*component.Error); err != nil && (!ok || failed.Code == component.CodeInternal || failed.Code == component.CodeTimeout) {
			t.Errorf("%s %q %q after %s: %v", d.Module, input, config, time.Since(began), err)
		}
		if err == nil && strictjson.Check(result.Output) != nil {
			t.Errorf("%s %q %q gives %q", d.Module, input, config, result.Output)
		}
	})
}
