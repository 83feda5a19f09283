package signers_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/conformance/signers"
)

// prefix is a path that a proxy removes before the request reaches Weft.
const prefix = "/weft"

// verifying returns the base URL of a service that reports for each request what it received,
// and whether the key of the vectors signed exactly that within the last seconds. A proxy in
// front of the service removes prefix.
func verifying(t *testing.T, prefix string) string {
	t.Helper()
	public, err := base64.StdEncoding.DecodeString(made().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Truncate(time.Second).Add(-time.Second)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		timestamp := r.Header.Get("X-Sdk-Timestamp")
		seconds, _ := strconv.ParseInt(timestamp, 10, 64)
		at := time.Unix(seconds, 0)
		sig, _ := base64.StdEncoding.DecodeString(r.Header.Get("X-Sdk-Signature"))
		signed := string(body)
		if signed == "" {
			signed = "{}"
		}
		target, prefixed := strings.CutPrefix(r.RequestURI, prefix)
		good := err == nil && prefixed && !at.Before(began) && !at.After(time.Now()) && r.Header.Get("X-Api-Key") == "ws_none" &&
			ed25519.Verify(public, []byte(r.Method+"|"+target+"|"+timestamp+"|"+signed), sig)
		fmt.Fprintf(w, "%v %s %s %s %d\n", good, r.Method, target, r.Header.Get("Content-Type"), len(body))
	}))
	t.Cleanup(server.Close)
	return server.URL + prefix
}

// sent checks the two requests that the service received. The first has a query, a fragment (which
// is not sent), and no body. The second has a non-ASCII body.
func sent(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], "true GET /v1/sdk/components?limit=1  0") ||
		!strings.Contains(lines[1], "true POST /v1/sdk/components application/json ") || !strings.HasPrefix(lines[0], "200 ") || !strings.HasPrefix(lines[1], "200 ") {
		t.Errorf("%s", out)
	}
}

func TestSignersSendWhatTheySign(t *testing.T) {
	compiler, err := filepath.Abs("../../internal/tools/node_modules/typescript/bin/tsc")
	if err != nil {
		t.Fatal(err)
	}
	bases := []string{verifying(t, ""), verifying(t, prefix), verifying(t, prefix) + "/"}
	for _, language := range []struct {
		name, needs  string
		files        []string
		build, start []string
	}{
		{"TypeScript", "node", []string{"weft_signer.ts", "testdata/live.mjs"}, []string{"node", compiler, "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom", "weft_signer.ts"}, []string{"node", "live.mjs"}},
		{"Python", "python3", []string{"weft_signer.py", "testdata/live.py"}, nil, []string{"python3", "live.py"}},
		{"Java", "javac", []string{"WeftSigner.java", "testdata/Live.java"}, []string{"javac", "WeftSigner.java", "Live.java"}, []string{"java", "-XX:TieredStopAtLevel=1", "Live"}},
		{"shell", "curl", []string{"weft_curl.sh", "testdata/live.sh"}, nil, []string{"bash", "live.sh"}},
	} {
		t.Run(language.name, func(t *testing.T) { // not in parallel: the server stops at the end of the test
			if !present(t, language.needs) {
				return
			}
			folder := place(t, language.files...)
			if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if language.build != nil {
				run(t, folder, "", language.build...)
			}
			for _, base := range bases {
				environ := append([]string{"env", "WEFT_URL=" + base, "WEFT_API_KEY=ws_none"}, language.start...)
				sent(t, run(t, folder, "", environ...))
			}
		})
	}
}

func TestTheGoSignerSendsWhatItSigns(t *testing.T) {
	bases := []string{verifying(t, ""), verifying(t, prefix), verifying(t, prefix) + "/"}
	signer, err := signers.NewSigner("ws_none", made().APISecret)
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range bases {
		sent(t, sendByGo(t, signer, base))
	}
}

// sendByGo sends two signed requests and returns the responses, one per line.
func sendByGo(t *testing.T, signer *signers.Signer, base string) string {
	t.Helper()
	var out strings.Builder
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/v1/sdk/components?limit=1#x", ""},
		{"POST", "/v1/sdk/components", `{"module":"HASH","input":{"data":"é"},"config":{}}`},
	} {
		request, err := signer.Request(t.Context(), call.method, base, call.path, []byte(call.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d %s", answer.StatusCode, said)
	}
	return out.String()
}
