package conformance

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// between returns a target whose requests and responses pass through a proxy.
func between(t *testing.T, behind *probe.Target, request func(*http.Request), answer func(*http.Response) error) *probe.Target {
	t.Helper()
	base, err := url.Parse(behind.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
		},
		ModifyResponse: answer,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request(r)
		proxy.ServeHTTP(w, r)
	}))
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

func TestChecksOfSignaturesDoNotSendTheSecretOfTheWorkspace(t *testing.T) {
	behind := target(t)
	through := between(t, behind, func(r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), behind.APISecret) {
			t.Errorf("%s %s sends the API secret of the workspace: %v", r.Method, r.URL, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}, nil)
	passes(t, through, checkForm)
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
