package client_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/client"
)

// service is a fake Weft. It verifies signatures with its own code, then responds as the test says.
type service struct {
	*httptest.Server
	secret  string
	public  ed25519.PublicKey
	ahead   atomic.Int64 // seconds by which its clock is ahead
	refused atomic.Int64
}

func serve(t *testing.T, answer http.HandlerFunc) *service {
	t.Helper()
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{secret: base64.StdEncoding.EncodeToString(der), public: private.Public().(ed25519.PublicKey)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason := s.check(r); reason != "" {
			s.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, reason)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) check(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	signed := string(body)
	if signed == "" {
		signed = "{}"
	}
	timestamp := r.Header.Get("X-Sdk-Timestamp")
	message := r.Method + "|" + r.RequestURI + "|" + timestamp + "|" + signed
	sig, _ := base64.StdEncoding.DecodeString(r.Header.Get("X-Sdk-Signature"))
	if r.Header.Get("X-Api-Key") != "ws_test" || !ed25519.Verify(s.public, []byte(message), sig) {
		return `{"code":"UNAUTHORIZED","reason":"invalid_credentials","detail":"no","status":401}`
	}
	at, _ := strconv.ParseInt(timestamp, 10, 64)
	if delta := at - (time.Now().Unix() + s.ahead.Load()); delta > 0 || delta < -30 {
		return fmt.Sprintf(`{"code":"UNAUTHORIZED","reason":"timestamp_in_future","detail":"no","status":401,"deltaSeconds":%d}`, delta)
	}
	return ""
}

func (s *service) client(t *testing.T) *client.Client {
	t.Helper()
	signer, err := client.NewSigner("ws_test", s.secret)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.URL, signer, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const record = `{"id":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e","module":"M","status":"COMPLETED","completed":true,"output":{"n":1e30},"error":null,"totalUsage":1,"callback":{"url":null,"signed":false,"signatureAlgorithm":null,"headerNames":[],"lastAttemptAt":null,"deliveredAt":null,"attemptCount":0,"lastError":null},"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`

func TestExecuteSignsWhatItSends(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if want := `{"config":{},"input":{"text":"<é>"},"module":"M","waitForMs":5}`; string(body) != want {
			t.Errorf("body %s, want %s", body, want)
		}
		if r.Header.Get("Idempotency-Key") != "once" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", r.Header)
		}
		fmt.Fprint(w, record)
	})
	request := api.ExecuteComponentRequest{
		Module: "M", Input: []byte(`{"text":"<é>"}`), Config: []byte(`{}`), WaitForMs: new(int32(5)),
	}
	got, raw, err := s.client(t).Execute(t.Context(), request, http.Header{"Idempotency-Key": {"once"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != status.ExecutionCompleted || string(got.Output) != `{"n":1e30}` || string(raw) != record {
		t.Errorf("record %+v", got)
	}
}

func TestQueriesAndEscapesAreSignedAsSent(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	for _, target := range []string{"/v1/sdk/components?limit=2&cursor=a%3D%3D", "/v1/sdk/components/A%20B", "/v1/sdk/x?"} {
		if got, err := s.client(t).Call(t.Context(), "GET", target, nil, nil); err != nil || string(got) != target {
			t.Errorf("%s: got body %s (%v)", target, got, err)
		}
	}
}

// A proxy removes the path of the base URL, so the service sees the target without it.
func TestPathOfTheBaseURLIsNotSigned(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	direct, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := client.NewSigner("ws_test", s.secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"/weft", "/a/b"} {
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(direct) }}
		before := httptest.NewServer(http.StripPrefix(prefix, proxy))
		t.Cleanup(before.Close)
		c, err := client.New(before.URL+prefix+"/", signer, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{"/v1/sdk/components?limit=2&cursor=a%3D%3D", "/v1/sdk/components/A%20B"} {
			if got, err := c.Call(t.Context(), "GET", target, nil, nil); err != nil || string(got) != target {
				t.Errorf("%s behind %s: %s, %v", target, prefix, got, err)
			}
		}
	}
}

func TestClockDifferenceIsLearned(t *testing.T) {
	for _, ahead := range []int64{-1, -3600, 45} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, record) })
		s.ahead.Store(ahead)
		c := s.client(t)
		for range 3 {
			if _, _, err := c.Get(t.Context(), uuid.Nil); err != nil {
				t.Fatalf("server %d s ahead: %v", ahead, err)
			}
		}
		if s.refused.Load() > 2 { // two if a second boundary lies in between
			t.Errorf("server %d s ahead: %d requests rejected", ahead, s.refused.Load())
		}
	}
}

func TestProblemsAreErrors(t *testing.T) {
	cases := []struct {
		name, body string
		status     int
		want       []string
	}{
		{
			"problem", `{"code":"INVALID_INPUT","detail":"wrong","requestId":"r1","status":422,"errors":[{"code":"X","message":"too long","pointer":"/input/a"}]}`,
			422, []string{"422 INVALID_INPUT: wrong", "/input/a: too long", "request r1", "after 3s"},
		},
		{"something in between", `<html>Bad gateway</html>`, 502, []string{"502: the response is not from Weft: Bad Gateway"}},
		{"redirect", "", 307, []string{"307: the response is not from Weft"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "3")
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			_, _, err := s.client(t).Get(t.Context(), uuid.Nil)
			p, ok := errors.AsType[*client.Problem](err)
			if !ok || p.Status != int32(c.status) || p.RetryAfter != 3*time.Second {
				t.Fatalf("error %#v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func event(state string) string {
	return `{"id":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e","module":"M","status":"` + state + `","output":null,"error":null,"totalUsage":0,"timestamp":"2026-11-21T10:15:30.123Z"}`
}

func TestStreamEndsWithTheFinalEvent(t *testing.T) {
	cases := []struct{ name, text, want, err string }{
		{
			"whole",
			":ping\n\nevent: progress\ndata: " + event("EXECUTING") + "\n\ndata:\n\n:ping\n\ndata: " + event("COMPLETED") + "\n\ndata: " + event("FAILED") + "\n\n",
			"EXECUTING COMPLETED", "",
		},
		{"final", "data: " + event("CREATED") + "\r\n\r\ndata: " + event("FAILED") + "\r\n\r\nrest", "CREATED FAILED", ""},
		{"cut off", "data: " + event("EXECUTING") + "\n\ndata: " + event("COMPLETED") + "\n", "EXECUTING", "unexpected EOF"},
		{"empty", "", "", "unexpected EOF"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.text) })
			var seen []string
			var last error
			for event, err := range s.client(t).Stream(t.Context(), uuid.Nil) {
				if last = err; err == nil {
					seen = append(seen, string(event.Status))
				}
			}
			if got := strings.Join(seen, " "); got != c.want {
				t.Errorf("saw %q, want %q", got, c.want)
			}
			if text := fmt.Sprint(last); last == nil && c.err != "" || last != nil && text != c.err {
				t.Errorf("error %v, want %q", last, c.err)
			}
		})
	}
}

func TestReadEvents(t *testing.T) {
	text := "\nid: 1\nevent: a\ndata: one\ndata:two\nretry: 5\n\nevent: nothing\n\ndata\n\nid:2\ndata:  x\n\ndata: cut"
	var got []string
	for e, err := range client.ReadEvents(strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s|%s|%s", e.Name, e.ID, e.Data))
	}
	want := []string{"a|1|one\ntwo", "|1|", "|2| x"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBaseURLs(t *testing.T) {
	for text, ok := range map[string]bool{
		"http://127.0.0.1:8080": true, "https://weft.example/": true, "127.0.0.1:8080": false, "ftp://x": false,
		"http://": false, "http://u:p@x": false, "http://x/prefix": true, "http://x/a/b/": true, "http://x/v1": false, "http://x/weft/v1/sdk/": false, "http://x?a": false, "": false,
	} {
		if _, err := client.ParseBase(text); (err == nil) != ok {
			t.Errorf("base URL %q: got error %v", text, err)
		}
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("event: a\ndata: {}\n\n:ping\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		for e, err := range client.ReadEvents(strings.NewReader(text)) {
			if err == nil && strings.ContainsAny(e.Name+e.ID, "\n") {
				t.Errorf("a field contains a line break: %+v", e)
			}
		}
	})
}
