package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// The service must accept the requests of the signers that users copy. The requests have a query, a
// fragment (which is not sent), no body, or a non-ASCII body. They pass through a proxy that
// removes a prefix of the path.
func TestCopiedSignersAreServed(t *testing.T) {
	if waittest.LeftToSoak(t, "conformance.TestTheGuidesCallsFromEachLanguage", "conformance/signers.TestSignersSendWhatTheySign", "conformance/signers.TestSignersOfOtherLanguagesGiveTheVectors") {
		return
	}
	t.Parallel()
	behind := target(t)
	baseURL := prefixed(t, behind.BaseURL)
	compiler, err := filepath.Abs("../internal/tools/node_modules/typescript/bin/tsc")
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []struct {
		name, needs  string
		files        []string
		build, start []string
	}{
		{"TypeScript", "node", []string{"weft_signer.ts", "testdata/live.mjs"}, []string{"node", compiler, "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom", "weft_signer.ts"}, []string{"node", "live.mjs"}},
		{"Python", "python3", []string{"weft_signer.py", "testdata/live.py"}, nil, []string{"python3", "live.py"}},
		{"Java", "javac", []string{"WeftSigner.java", "testdata/Live.java"}, []string{"javac", "WeftSigner.java", "Live.java"}, []string{"java", "-XX:TieredStopAtLevel=1", "Live"}},
		{"shell", "openssl", []string{"weft_curl.sh", "testdata/live.sh"}, nil, []string{"bash", "live.sh"}},
	} {
		t.Run(language.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(language.needs); err != nil {
				t.Logf("there is no %s: its signer is not run", language.needs)
				return
			}
			folder := t.TempDir()
			put := func(name string, text []byte, err error) {
				if err == nil {
					err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			put("package.json", []byte(`{"type":"module"}`), nil)
			for _, file := range language.files {
				text, err := os.ReadFile(filepath.Join("signers", file))
				put(filepath.Base(file), text, err)
			}
			var out string
			for _, command := range [][]string{language.build, language.start} {
				if command == nil {
					continue
				}
				program := exec.CommandContext(t.Context(), command[0], command[1:]...)
				program.Dir = folder
				program.Env = append(program.Environ(), "WEFT_URL="+baseURL, "WEFT_API_KEY="+behind.APIKey, "WEFT_API_SECRET="+behind.APISecret)
				said, err := program.CombinedOutput()
				if out = string(said); err != nil {
					t.Fatalf("%v: %v\n%s", command, err, out)
				}
			}
			served(t, out)
		})
	}
}

// served checks two lines: the responses to a list of one component and to a HASH.
func served(t *testing.T, out string) {
	t.Helper()
	sum := sha256.Sum256([]byte("é"))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "200 ") || !strings.HasPrefix(lines[1], "200 ") ||
		!strings.Contains(lines[0], `"hasMore":true`) || !strings.Contains(lines[1], hex.EncodeToString(sum[:])) {
		t.Errorf("%s", out)
	}
}

// prefixed returns a base URL with a path, which a proxy removes before the service.
func prefixed(t *testing.T, baseURL string) string {
	t.Helper()
	direct, err := url.Parse(baseURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(direct) }}
	server := httptest.NewServer(http.StripPrefix("/weft", proxy))
	t.Cleanup(server.Close)
	return server.URL + "/weft"
}

func TestTheCopiedGoSignerIsServed(t *testing.T) {
	behind := target(t)
	baseURL := prefixed(t, behind.BaseURL)
	signer, err := signers.NewSigner(behind.APIKey, behind.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, call := range []struct{ method, path, body string }{
		{"GET", probe.Components + "?limit=1#x", ""},
		{"POST", probe.Components, `{"module":"HASH","input":{"data":"é"},"config":{},"waitForMs":15000}`},
	} {
		request, err := signer.Request(t.Context(), call.method, baseURL, call.path, []byte(call.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d %s\n", answer.StatusCode, bytes.TrimSpace(body))
	}
	served(t, out.String())
}

// urllib writes the whole body before it reads the response, like many clients.
func TestUrllibSeesThatItsBodyIsTooLarge(t *testing.T) {
	t.Parallel()
	if !present(t, "python3") {
		return
	}
	behind := target(t)
	signer, err := signers.Files.ReadFile("weft_signer.py")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "weft_signer.py"), signer)
	write(t, filepath.Join(folder, "large.py"), []byte(`import json, sys, urllib.error, urllib.request
from weft_signer import WeftSigner
base_url, api_key, api_secret = sys.argv[1:]
try:
    urllib.request.urlopen(WeftSigner(api_key, api_secret).request(base_url, "POST", "/v1/sdk/components", b"x" * (6 << 20)))
except urllib.error.HTTPError as refused:
    print(refused.code, json.load(refused)["code"])
`))
	out := runIn(t, folder, "", "python3", "large.py", behind.BaseURL, behind.APIKey, behind.APISecret)
	if got := strings.TrimSpace(string(out)); got != "413 PAYLOAD_TOO_LARGE" {
		t.Errorf("got %q", got)
	}
}
