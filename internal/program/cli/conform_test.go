package cli_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// broken returns a proxy in front of a service that changes its responses.
func broken(t *testing.T, baseURL string, change func(*http.Response)) string {
	t.Helper()
	behind, err := url.Parse(baseURL)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(behind) },
		ModifyResponse: func(answer *http.Response) error {
			change(answer)
			return nil
		},
	})
	t.Cleanup(server.Close)
	return server.URL
}

// unsigned changes every record to say that its callbacks are not signed.
func unsigned(answer *http.Response) {
	if answer.Header.Get("Content-Type") == "application/json" {
		rewrite(answer, `"signed":true`, `"signed":false`)
	}
}

// rewrite replaces a string in the body of a response.
func rewrite(answer *http.Response, from, to string) {
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	replace(answer, strings.ReplaceAll(string(body), from, to))
}

// replace replaces the body of a response.
func replace(answer *http.Response, body string) {
	answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// tests holds the parts of JUnit's XML that are checked.
type tests struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Skipped  int `xml:"skipped,attr"`
	Cases    []struct {
		Name    string    `xml:"name,attr"`
		Class   string    `xml:"classname,attr"`
		Failure *struct{} `xml:"failure"`
		Skipped *struct{} `xml:"skipped"`
	} `xml:"testsuite>testcase"`
}

func readJUnit(t *testing.T, file string) (all tests) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	failed, skipped := 0, 0
	for _, c := range all.Cases {
		if c.Name == "" || c.Class == "" {
			t.Errorf("a case without a name: %+v", c)
		}
		if c.Failure != nil {
			failed++
		}
		if c.Skipped != nil {
			skipped++
		}
	}
	if len(all.Cases) != all.Tests || failed != all.Failures || skipped != all.Skipped {
		t.Errorf("the sums of %+v are wrong", all)
	}
	return all
}

func TestConformAgainstTheRealService(t *testing.T) {
	t.Parallel()
	authority, junit := filepath.Join(t.TempDir(), "authority.pem"), filepath.Join(t.TempDir(), "junit.xml")
	run(t, nil, "", "conform", "--authority="+authority).check(t, 1, "", "weft dev with --egress-ca "+authority)
	environ, baseURL := startWeft(t, "--allow-network=127.0.0.0/8", "--callback-schedule=0s,50ms,50ms", "--egress-ca="+authority)
	few := []string{"conform", "--only=5.3", "--only=4.2", "--only=8.3", "--only=D5.3.exhausted", "--junit=" + junit}

	for _, tls := range []string{"--authority=" + authority, "--soak"} { // one by TLS, one by plain http
		got := run(t, environ, "", append(few, tls)...)
		got.check(t, 0, "5.3   Callback signature  2       -", " cases against "+baseURL)
		for _, want := range []string{
			"\n8     Limits              -       -       -     -           1 ", "\nCHOICES: ", "\nD5    Callbacks  1 ", "a way to make workspaces and to give them credits: 1",
			"\n4 parts of the contract: 3 proven, 1 not run\n1 part of the choices: 1 proven\n",
		} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("the table lacks %q: %s", want, got.stdout)
			}
		}
		if all := readJUnit(t, junit); all.Tests < 5 || all.Failures != 0 || all.Skipped != 1 {
			t.Errorf("unexpected JUnit file %+v", all)
		}
	}
	t.Run("with guests", func(t *testing.T) {
		run(t, environ, "", "conform", "--guests", "--only=8.3", "--only=D7.3").check(t, 0, "1 part of the contract: 1 proven\n", "7 cases against")
	})
	t.Run("as JSON", func(t *testing.T) {
		run(t, environ, "", "conform", "--only=5.3", "--jq=.[0] | .part + .verdict").check(t, 0, "5.3", "")
	})
	t.Run("a contract that is broken", func(t *testing.T) {
		got := run(t, environ, "", append(few, "--callback-schedule=0s,50ms,50ms", "--base-url="+broken(t, baseURL, unsigned))...)
		got.check(t, 1, "FAILED: violations of the contract\n  5.3.header  ", "failed: CB22 a signed callback of COMPLETED (")
		if all := readJUnit(t, junit); all.Failures == 0 {
			t.Errorf("unexpected JUnit file %+v", all)
		}
	})
	t.Run("what fails once", func(t *testing.T) {
		var tried atomic.Pointer[string] // sent first, to find out which addresses can be reached
		var once sync.Once
		got := run(t, environ, "", append(few, "--callback-schedule=0s,50ms,50ms", "--base-url="+broken(t, baseURL, func(answer *http.Response) {
			path := answer.Request.URL.Path
			if !strings.HasPrefix(path, "/v1/sdk/components/executions/") || tried.CompareAndSwap(nil, &path) || *tried.Load() == path {
				return
			}
			once.Do(func() { answer.StatusCode = http.StatusAccepted })
		}))...)
		got.check(t, 0, "\nUNSTEADY: cases that failed", "failed: ")
	})
	t.Run("choices made otherwise", func(t *testing.T) {
		nameless := broken(t, baseURL, func(answer *http.Response) { answer.Header.Del("X-Request-Id") })
		otherwise := []string{"conform", "--only=4.2", "--only=D1.6", "--base-url=" + nameless, "--junit=" + junit}
		got := run(t, environ, "", otherwise...)
		got.check(t, 0, "OTHERWISE: departures from the decisions, which do not violate the contract\n  D1.6.id  ", "")
		got.check(t, 0, "1 part of the contract: 1 proven\n", "")
		if all := readJUnit(t, junit); all.Failures != 0 {
			t.Errorf("unexpected JUnit file %+v", all)
		}
		run(t, environ, "", append(otherwise, "--strict")...).check(t, 1, "1 part of the contract: 1 proven\n", "")
		if all := readJUnit(t, junit); all.Failures == 0 {
			t.Errorf("unexpected JUnit file %+v", all)
		}
	})
}

// With a plan's limits, the cases would report a hundred breaches of the contract.
func TestConformNeedsAWorkspaceWithoutLimits(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t, "--plan=starter")
	const limited = "the workspace may make 5 requests a second"
	// A changed plan applies within five seconds, and the runs themselves may exceed it.
	eventually := func(t *testing.T, want string, flags ...string) {
		t.Helper()
		flags = append([]string{"conform", "--only=9"}, flags...)
		var got result
		waittest.Until(t, want, func() bool {
			got = run(t, environ, "", flags...)
			return strings.Contains(got.stderr, want)
		})
		got.check(t, 1, "", want)
	}
	eventually(t, limited)
	t.Run("by the key's own view, where no answer has the policy", func(t *testing.T) {
		bare := broken(t, baseURL, func(answer *http.Response) { answer.Header.Del("RateLimit-Policy") })
		eventually(t, limited, "--base-url="+bare)
	})
	run(t, environ, "", "admin", "plan", "set", "dev", "enterprise").check(t, 0, "", "")
	eventually(t, "are answered 402 at ")
}

func TestConformReportsUnreachableDeployments(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t)
	got := run(t, environ, "", "conform", "--only=4.1.1", "--only=5.3", "--parts")
	got.check(t, 0, "4.1.1       proven   without waitForMs", "does not reach this machine: ")
	got.check(t, 0, "5.3.raw     not run  the digest is over the raw body bytes", "weft dev --allow-network 127.0.0.0/8")
	for flag, want := range map[string]string{"--only=11.2": "unknown part", "--callback-schedule=soon": "--callback-schedule: "} {
		run(t, environ, "", "conform", flag).check(t, 2, "", want)
	}
	junit := filepath.Join(t.TempDir(), "junit.xml")
	for base, want := range map[string]string{
		"http://127.0.0.1:1": "reach http://127.0.0.1:1", baseURL + "/weft": "must end after the host", "127.0.0.1:8080": "is not a base URL",
	} {
		run(t, environ, "", "conform", "--base-url="+base, "--junit="+junit).check(t, 1, "", want)
		if _, err := os.Stat(junit); err == nil {
			t.Errorf("%s: an empty JUnit file was left", base)
		}
	}
	run(t, environ, "", "conform", "--only=9", "--base-url="+baseURL+"/").check(t, 0, "1 part of the contract: 1 proven", " against "+baseURL+", ")
	foreign := filepath.Join(t.TempDir(), "foreign.json")
	text, err := os.ReadFile(strings.TrimPrefix(environ[0], "WEFT_CREDENTIALS="))
	if err != nil || os.WriteFile(foreign, regexp.MustCompile(`"ws_[^"]*"`).ReplaceAll(text, []byte(`"ws_unknown"`)), 0o600) != nil {
		t.Fatal(err)
	}
	run(t, environ, "", "conform", "--credentials="+foreign).check(t, 1, "", "are answered 401 at "+baseURL+": ")
	run(t, environ, "", "conform", "--credentials="+foreign).check(t, 1, "", "The credentials are not of this deployment, or the key was revoked")
}
