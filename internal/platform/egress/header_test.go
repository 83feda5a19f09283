package egress

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
)

const canary = "canary-value-7f3a"

// spellings returns three ways to write a reserved name.
func spellings(name string) []string {
	return []string{strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_")}
}

func TestCB18ReservedHeaderNames(t *testing.T) {
	for _, name := range []string{
		"Host", "Content-Length", "Content-Type", "Content-Encoding", "Content-Anything", "Transfer-Encoding", "Connection", "Keep-Alive",
		"Upgrade", "Te", "Trailer", "Expect", "Cookie", "Accept-Encoding", "User-Agent", "Proxy-Authorization", "Proxy-Connection",
		"X-Svc-Signature", "X-Svc-Execution-Id", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "X-Forwarded-For", "X-Forwarded-Host",
	} {
		for _, spelling := range spellings(name) {
			refuseOne(t, spelling, map[string]string{spelling: canary})
		}
	}
}

func TestCB18HeaderForms(t *testing.T) {
	many := make(map[string]string)
	for i := range 21 {
		many[fmt.Sprintf("X-H%d", i)] = canary
	}
	for name, headers := range map[string]map[string]string{
		"CR in value":        {"X-A": canary + "\rX: y"},
		"LF in value":        {"X-A": canary + "\n"},
		"NUL in value":       {"X-A": canary + "\x00"},
		"tab in value":       {"X-A": canary + "\t" + canary},
		"DEL in value":       {"X-A": canary + "\x7f"},
		"non-ASCII value":    {"X-A": canary + "é"},
		"leading space":      {"X-A": " " + canary},
		"trailing space":     {"X-A": canary + " "},
		"value of 5 KiB":     {"X-A": canary + strings.Repeat("a", 5<<10)},
		"value of 4097":      {"X-A": strings.Repeat("a", 4097)},
		"empty name":         {"": canary},
		"CR/LF in name":      {"X-A\r\nX-B": canary},
		"NUL in name":        {"X\x00": canary},
		"space in name":      {"X A": canary},
		"colon in name":      {"X-A:": canary},
		"underscore in name": {"X_A": canary},
		"non-ASCII name":     {"X-Ä": canary},
		"name of 65":         {strings.Repeat("a", 65): canary},
		"21 headers":         many,
		"twice by case":      {"X-A": canary, "x-a": canary},
		"8 KiB in all":       {"X-A": strings.Repeat("a", 4096), "X-B": strings.Repeat("b", 4096)},
	} {
		refuseOne(t, name, headers)
	}
}

func refuseOne(t *testing.T, name string, headers map[string]string) {
	t.Helper()
	err := CheckCallbackHeaders(headers)
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Code != fault.InvalidInput || refusal.Unprocessable || len(refusal.Details) == 0 {
		t.Errorf("%s: %v", name, err)
		return
	}
	for _, detail := range refusal.Details {
		if !strings.HasPrefix(detail.Pointer, "/callbackHeaders") || len(detail.Pointer) > 200 {
			t.Errorf("%s: pointer %q", name, detail.Pointer)
		}
		if strings.Contains(detail.Message+refusal.Message, canary) {
			t.Errorf("%s: the value is shown", name)
		}
	}
}

func TestCB18AllFaultsAreReportedAtOnce(t *testing.T) {
	err := CheckCallbackHeaders(map[string]string{"Host": "a", "X/~A": "b", "X-Good": "c", "Cookie": "d"})
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok {
		t.Fatal(err)
	}
	var pointers []string
	for _, detail := range refusal.Details {
		pointers = append(pointers, detail.Pointer)
	}
	if want := []string{"/callbackHeaders/Cookie", "/callbackHeaders/Host", "/callbackHeaders/X~1~0A"}; !slices.Equal(pointers, want) {
		t.Fatalf("%v", pointers)
	}
}

func TestAllowedHeaders(t *testing.T) {
	full := make(map[string]string)
	for i := range 20 {
		full[fmt.Sprintf("X-H%d", i)] = strings.Repeat("v", 400)
	}
	for _, headers := range []map[string]string{
		nil, {}, {"Authorization": "Bearer abc.def"}, {"X-Empty": ""}, {"Te-Deum": "x"}, {"Hostess": "x"}, {"Contents": "x"},
		{"X-Api-Key": "!~ \"'()"}, {strings.Repeat("a", 64): strings.Repeat("b", 4096)}, full,
	} {
		if err := CheckCallbackHeaders(headers); err != nil {
			t.Errorf("%v: %v", headers, err)
		}
	}
}

func FuzzCheckCallbackHeaders(f *testing.F) {
	f.Add("X-A", "value", "x-a", "value")
	f.Add("Authorization", "Bearer x", "Host", "y")
	f.Add("content_type", "\r\n", "", " ")
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Svc-Signature") != "own" || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusTeapot)
		}
		w.Header()["X-Seen"] = r.Header["X-Fuzz-Probe"]
	}))
	f.Cleanup(receiver.Close)
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		headers := map[string]string{name1: value1, name2: value2}
		err := CheckCallbackHeaders(headers)
		if err != nil {
			if secret := value1; len(secret) > 40 && strings.Contains(fmt.Sprintf("%+v", err), secret) {
				t.Fatal("the error shows a value")
			}
			return
		}
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, receiver.URL, strings.NewReader("{}"))
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("X-Svc-Signature", "own")
		if len(request.Header) != len(headers)+2 {
			t.Fatalf("%q overrides one of Weft's headers, or another one", headers)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatalf("accepted, but not sendable: %v", err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%q changed Weft's headers in transit", headers)
		}
	})
}
