package cli_test

import (
	"net/http"
	"strings"
	"testing"
)

// Plain requests pass through the proxy of weft dev. Web pages of other sites and components get
// nothing signed, even if the network of the proxy is allowed.
func TestDevSignsRequestsOfThisMachineOnly(t *testing.T) {
	t.Parallel()
	at := "127.0.0.1:" + freePort(t)
	environ, baseURL := startWeft(t, "--proxy-addr="+at, "--allow-network=127.0.0.0/8")
	for header, want := range map[string]int{
		"Host: " + at:        http.StatusOK,
		"Host: localhost:80": http.StatusOK,
		"Host: rebound.example:" + strings.TrimPrefix(at, "127.0.0.1:"): http.StatusForbidden,
		"Host: " + at + "\nOrigin: https://evil.example":                http.StatusForbidden,
		"Host: " + at + "\nOrigin: " + baseURL:                          http.StatusForbidden,
		"Host: " + at + "\nSec-Fetch-Site: cross-site":                  http.StatusForbidden,
	} {
		if code, text := send(t, at, "GET /v1/sdk/components/executions HTTP/1.1\n"+header+"\n\n"); code != want {
			t.Errorf("%s: %d %s", header, code, text)
		} else if strings.Contains(header, "rebound") && !strings.Contains(text, "names another machine; use 127.0.0.1 or localhost\"") {
			t.Errorf("%s: the error is %s", header, text) // weft dev has no flag --host
		}
	}
	for _, address := range []string{"http://" + at, baseURL} {
		run(t, environ, "", "call", "API_CALL", `--config={"apiUrl":"`+address+`/v1/sdk/components/executions","method":"GET"}`, `--input={"headers":{}}`, "--stream", "-o", "json").
			check(t, 1, `"retryable": false`, "belongs to Weft itself")
	}
}
