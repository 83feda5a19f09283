package receiver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// parsed returns a URL to forward to.
func parsed(t *testing.T, text string) *url.URL {
	t.Helper()
	to, err := ParseForward(text)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestBytesAndHeadersAreForwardedUnchanged(t *testing.T) {
	t.Parallel()
	record := " " + body(one) + "\n\u2028" // decoding and encoding would change the bytes
	var got http.Header
	var target, text string
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, target, text = r.Header.Clone(), r.RequestURI, string(raw)
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("X-Own", "yes")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "thanks")
	}))
	defer behind.Close()
	for to, want := range map[string]string{
		"": "/hooks/a%2Fb?x=1;y", "/": "/hooks/a%2Fb?x=1;y", "/own": "/own", "/?k=1": "/?k=1", "/own/?k=1": "/own/?k=1",
	} {
		s := start(t, Config{Secret: new(secret), Forward: parsed(t, behind.URL+to)})
		header := signed(secret, one, record, time.Now())
		header["X-Order"] = []string{"a", "b"}
		header["X-Forwarded-For"] = []string{"192.0.2.1"}
		header["Authorization"] = []string{"Bearer abc"}
		header["X-Hop"] = []string{"1"}
		header["Connection"] = []string{"X-Hop"}
		sent := header.Clone()
		status, answered := s.post(t, header, record)
		if status != http.StatusAccepted || answered != "thanks" {
			t.Errorf("%s: got status %d %q", to, status, answered)
		}
		if target != want || text != record {
			t.Errorf("%s: forwarded to %s with body %q", to, target, text)
		}
		for name, values := range sent {
			if name != "X-Hop" && name != "Connection" && !slices.Equal(got[name], values) {
				t.Errorf("%s: %s is %q, want %q", to, name, got[name], values)
			}
		}
		if got.Get("X-Hop") != "" || got.Get("Accept-Encoding") != "" {
			t.Errorf("%s: forwarded with headers %v", to, got)
		}
		if d := s.last(t); !d.Forwarded || *d.Answer != http.StatusAccepted || string(d.Body) != record {
			t.Errorf("%s: unexpected delivery %+v", to, d)
		}
	}
}

func TestForwardedResponseIsReturned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behind http.HandlerFunc
		status int
		body   string
		fault  string
	}{
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) }, 503, "no\n", ""},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, 302, "", ""},
		"nothing":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, "", ""},
		"a large one": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", maxAnswer+1000))
		}, 200, strings.Repeat("x", maxAnswer), ""},
		"none at all": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "the delivery could not be forwarded\n", "EOF"},
		"another protocol": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Upgrade", "x")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}, 502, "the delivery could not be forwarded\n", "101"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behind := httptest.NewServer(c.behind)
			defer behind.Close()
			s := start(t, Config{Forward: parsed(t, behind.URL)})
			status, answered := s.post(t, signed(secret, one, body(one), time.Now()), body(one))
			if status != c.status || answered != c.body && c.status != 302 {
				t.Errorf("got status %d with %d bytes", status, len(answered))
			}
			d := s.last(t)
			if d.Failed() != (c.status/100 != 2) || !strings.Contains(strings.Join(d.Faults, " "), c.fault) || (len(d.Faults) > 0) != (c.fault != "") {
				t.Errorf("reported with faults %q, failed: %v", d.Faults, d.Failed())
			}
		})
	}
}

func TestUnreachableForwardIsABadGateway(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	s := start(t, Config{Forward: parsed(t, gone.URL)})
	if status, _ := s.post(t, signed(secret, one, body(one), time.Now()), body(one)); status != http.StatusBadGateway {
		t.Errorf("got status %d", status)
	}
	if d := s.last(t); !d.Failed() || len(d.Faults) != 1 || !strings.Contains(d.Faults[0], "connection refused") {
		t.Errorf("reported with faults %q", d.Faults)
	}
}

func TestForgedAndFailedDeliveriesAreNotForwarded(t *testing.T) {
	t.Parallel()
	behind := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the delivery was forwarded") }))
	defer behind.Close()
	s := start(t, Config{Secret: new(secret), Forward: parsed(t, behind.URL), Failure: Failure{Kind: Drop}})
	for key, want := range map[string]int{secret: 0, "other": http.StatusUnauthorized} {
		if status, _ := s.post(t, signed(key, one, body(one), time.Now()), body(one)); status != want {
			t.Errorf("got status %d, want %d", status, want)
		}
		if s.last(t).Forwarded {
			t.Error("the delivery is reported as forwarded")
		}
	}
}

func TestForwardURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:3000":    "",
		"https://app.example/a?b":  "",
		"127.0.0.1:3000":           "must be a URL",
		"ftp://127.0.0.1":          "must be a URL",
		"http://":                  "must be a URL",
		"http://a:hunter2@x.test/": "a user or a password",
		"http://a:hunter2@x:y/":    "must be a URL",
		"http://x/#here":           "fragment",
	} {
		_, err := ParseForward(text)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got error %v", text, err)
		}
	}
}
