package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// logged returns the decoded line of a message with attributes.
func logged(t testing.TB, message string, attrs ...any) map[string]any {
	t.Helper()
	var out bytes.Buffer
	NewLogger(&out, slog.LevelDebug).Info(message, attrs...)
	return decoded(t, out.Bytes())
}

func decoded(t testing.TB, line []byte) map[string]any {
	t.Helper()
	if bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("\n")) {
		t.Fatalf("not one line: %q", line)
	}
	var record map[string]any
	if err := json.Unmarshal(line, &record); err != nil {
		t.Fatalf("not JSON: %v in %q", err, line)
	}
	return record
}

func TestMT11HostileTextStaysInOneLine(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "a label", "a label"},
		{"letters", "Grüße, 世界", "Grüße, 世界"},
		{"line break", "a\r\nb", `a\r\nb`},
		{"terminal", "\x1b[31mred", `\x1b[31mred`},
		{"delete", "a\x7fb", `a\x7fb`},
		{"C1", "a\u009bb", `a\u009bb`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"right to left", "a\u202eb", `a\u202eb`},
		{"zero width", "a\u200bb", `a\u200bb`},
		{"broken UTF-8", "a\xffb", `a\xffb`},
		{"replacement", "a\ufffdb", "a\ufffdb"},
		{"null", "a\x00b", `a\x00b`},
		{"one MiB", strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<10) + "…"},
		{"one MiB of escapes", strings.Repeat("\n", 1<<20), strings.Repeat(`\n`, 1<<9) + "…"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			record := logged(t, test.text, "label", test.text, "err", errors.New(test.text))
			for _, key := range []string{"msg", "label", "err"} {
				if record[key] != test.want {
					t.Errorf("%s = %.80q, want %.80q", key, record[key], test.want)
				}
			}
		})
	}
}

func FuzzMT11OneValidLine(f *testing.F) {
	f.Add("a\r\n\x1b\xff\u202e")
	f.Add(strings.Repeat("\u2028", 700))
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := logged(t, "message", "value", text)["value"].(string)
		if !ok || len(got) > maxValue+len("…") || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

type holder struct{ Password string }

type nilStringer struct{ text string }

func (n *nilStringer) String() string { return n.text }

func TestValuesOfTypesThatMayHoldSecretsAreNotPrinted(t *testing.T) {
	const canary = "canary-f00d"
	address, err := url.Parse("https://user:" + canary + "@example.com/" + canary + "?key=" + canary)
	if err != nil {
		t.Fatal(err)
	}
	var missing *nilStringer
	tests := []struct {
		name  string
		value any
		want  string
	}{
		{"struct", holder{canary}, "(telemetry.holder)"},
		{"pointer", &holder{canary}, "(*telemetry.holder)"},
		{"map", map[string]string{"a": canary}, "(map[string]string)"},
		{"bytes", []byte(canary), "11 bytes"},
		{"JSON", json.RawMessage(`"` + canary + `"`), "13 bytes of JSON"},
		{"headers", http.Header{"X-Token": {canary}, "Authorization": {canary}}, "Authorization X-Token"},
		{"URL", address, "https://example.com"},
		{"net/http's error", fmt.Errorf("call: %w", &url.Error{Op: "Get", URL: address.String(), Err: errors.New("refused")}), `call: Get "https://example.com": refused`},
		{"nil pointer", missing, "(*telemetry.nilStringer)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			record := logged(t, "message", "value", test.value)
			if record["value"] != test.want {
				t.Errorf("printed %q, want %q", record["value"], test.want)
			}
		})
	}
	for _, name := range secretNames {
		if got := logged(t, "message", name, canary)[name]; got != "***" {
			t.Errorf("%s printed as %q", name, got)
		}
	}
}

func TestPlainValues(t *testing.T) {
	record := logged(t, "message",
		"at", time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("", 3600)),
		"took", 1500*time.Millisecond, "count", 3, "ok", true, "names", []string{"a", "b"}, "workers", []int32{7, 8}, "id", uuid.Nil,
		"stack", Stack(strings.Repeat("s", 2000)))
	want := map[string]any{
		"at": "2026-01-02T02:04:05.006Z", "took": 1.5, "count": 3.0, "ok": true, "names": "a b", "workers": "7 8",
		"id": uuid.Nil.String(), "stack": strings.Repeat("s", 2000), "level": "INFO",
	}
	for key, value := range want {
		if record[key] != value {
			t.Errorf("%s = %v, want %v", key, record[key], value)
		}
	}
	if at, _ := record["time"].(string); !strings.HasSuffix(at, "Z") {
		t.Errorf("time = %q is not in UTC", at)
	}
}

func TestEveryLineHasTheAttributesOfItsContext(t *testing.T) {
	workspace, key, id := uuid.New(), uuid.New(), uuid.New()
	var out bytes.Buffer
	log := NewLogger(&out, slog.LevelInfo)
	line := func() map[string]any { defer out.Reset(); return decoded(t, out.Bytes()) }

	outer := WithRequest(t.Context(), "req-1")
	inner := WithExecution(outer, workspace, id, "HASH", 2)
	Identify(inner, workspace, key) // recorded for the outer context, too
	log.InfoContext(outer, "done")
	got := line()
	for name, want := range map[string]any{"request_id": "req-1", "workspace_id": workspace.String(), "key_id": key.String(), "execution_id": nil} {
		if got[name] != want {
			t.Errorf("outside: %s = %v, want %v", name, got[name], want)
		}
	}
	log.With("part", "x").InfoContext(inner, "at work")
	got = line()
	for name, want := range map[string]any{"request_id": "req-1", "execution_id": id.String(), "module": "HASH", "attempt": 2.0, "part": "x"} {
		if got[name] != want {
			t.Errorf("inside: %s = %v, want %v", name, got[name], want)
		}
	}
	if RequestID(inner) != "req-1" || RequestID(t.Context()) != "" {
		t.Error("RequestID is wrong")
	}
}
