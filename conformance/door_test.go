package conformance

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// between returns a target whose requests and answers pass through a proxy.
func between(t *testing.T, behind *probe.Target, request func(*http.Request), answer func(*http.Response) error) *probe.Target {
	t.Helper()
	base, err := url.Parse(behind.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			request(r.In)
		},
		ModifyResponse: answer,
	})
	t.Cleanup(server.Close)
	through := *behind
	through.BaseURL = server.URL
	return &through
}

func TestDoorBearerDoesNotSendTheSecretOfTheWorkspace(t *testing.T) {
	behind := target(t)
	through := between(t, behind, func(r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), behind.APISecret) {
			t.Errorf("%s %s sends the API secret of the workspace", r.Method, r.URL)
		}
	}, nil)
	passes(t, through, doorBearer)
}

func TestCheckFloodRejectsARetryAfterOfMoreThanAMinute(t *testing.T) {
	through := between(t, target(t), func(*http.Request) {}, func(answer *http.Response) error {
		if answer.StatusCode == http.StatusTooManyRequests {
			answer.Header.Set("Retry-After", "61")
		}
		return nil
	})
	if err := probe.Run(t.Context(), through, checkFlood); err == nil || !strings.Contains(err.Error(), `Retry-After "61"`) {
		t.Errorf("the case ends with %v", err)
	}
}
