package envref

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// FuzzResolve replaces references with a value that looks like a reference. The value must not
// be scanned again. Invalid JSON must be rejected.
func FuzzResolve(f *testing.F) {
	for _, text := range []string{`{"a":"{{env.A}}"}`, `["x {{env.A}} y","{{env.A}}{{env.A}}"]`, `"{{env.a}}"`, `{"{{env.A}}":1e400}`, `{`, `"\u0000{{env.A}}"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const value = `{{env.B}}"\`
		data := json.RawMessage(text)
		names := Names(data)
		got, err := Values{"A": value}.ResolveAs("/input", data, data)
		for _, name := range names {
			if unknown, ok := errors.AsType[*Unknown](err); name != "A" && strings.Contains(text, "{{env."+name+"}}") && (!ok || unknown.Name == "A") {
				t.Errorf("%q names %s: %v", text, name, err)
			}
		}
		if err != nil {
			return
		}
		want := 0
		if given, err := decode(data); err == nil {
			each(given, "", func(_, text string) { want += len(reference.FindAllString(text, -1)) })
		}
		filled, err := decode(got)
		if len(names) > 0 && err != nil {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		have := 0
		each(filled, "", func(_, text string) { have += strings.Count(text, value) })
		if len(names) > 0 && have < want {
			t.Errorf("%q became %q: %d of %d places", text, got, have, want)
		}
	})
}
