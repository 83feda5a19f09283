package apicall

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// failing is how a call fails.
type failing struct {
	code, sent string
	retryable  bool
}

var (
	again        = failing{component.CodeUpstream, "unknown", true}
	unreadable   = failing{component.CodeUnreadable, "unknown", false}
	late         = failing{component.CodeTimeout, "unknown", true}
	answer503    = failing{component.CodeUpstream, "answered", true}
	unusableBody = failing{component.CodeUpstream, "answered", false}
	unsent       = failing{component.CodeUpstream, "no", true}
	untrusted    = failing{component.CodeUpstream, "no", false}
)

// kindsOfCall are the kinds of calls. Those of unsafeKind must not be repeated after they may have taken
// effect.
var kindsOfCall = map[string]struct {
	method string
	input  object
}{
	"GET":               {"GET", object{}},
	"POST":              {"POST", object{"body": object{"amount": 1}}},
	"POST with own key": {"POST", object{"body": object{"amount": 1}, "headers": object{"Idempotency-Key": "order-1"}}},
	"PATCH":             {"PATCH", object{"headers": object{"Idempotency-Key": " "}}},
}

func unsafeKind(kind string) bool { return kind == "POST" || strings.HasPrefix(kind, "PATCH") }

// attempt calls until the call succeeds, can't be retried, or has no attempts left. It returns the last
// failure and the number of attempts.
func attempt(t *testing.T, bench *componenttest.Bench, url, kind string, attempts, timeoutMs int) (*component.Error, int) {
	t.Helper()
	c := kindsOfCall[kind]
	for n := 1; ; n++ {
		_, failed := run(t, bench, c.input, object{"apiUrl": url, "method": c.method, "timeoutMs": timeoutMs})
		if failed == nil || !failed.Retryable || n == attempts {
			return failed, n
		}
	}
}

// check compares a failure and the number of requests with the expected ones.
func (want failing) check(t *testing.T, failed *component.Error, words, reason string, made int64, attempts int) {
	t.Helper()
	expected := int64(1)
	if want.retryable {
		expected = int64(attempts)
	}
	if failed == nil || failed.Code != want.code || failed.Sent() != want.sent || failed.Retryable != want.retryable {
		t.Fatalf("got %v %s, want %+v", failed, details(failed), want)
	}
	var shown struct{ Reason string }
	if err := json.Unmarshal(failed.Details, &shown); err != nil || shown.Reason != reason {
		t.Errorf("got the details %s, want the reason %q", failed.Details, reason)
	}
	if made != expected {
		t.Errorf("sent %d times, want %d", made, expected)
	}
	text, _, _ := strings.Cut(failed.Message, "answered 503 Service Unavailable: ") // what follows is an excerpt
	if !strings.Contains(failed.Message, words) || strings.Contains(text, "canary") {
		t.Errorf("got the message %q, want %q and no word of the peer", failed.Message, words)
	}
}

func each(t *testing.T, check func(t *testing.T, kind string, attempts int)) {
	for kind := range kindsOfCall {
		for _, attempts := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d", kind, attempts), func(t *testing.T) { check(t, kind, attempts) })
		}
	}
}

// A response that can't be read is not a lost connection: a request that isn't safe to repeat is sent
// again only if nothing was sent, if no byte of a response arrived, or after a complete response.
func TestBrokenAnswersAreNotLostConnections(t *testing.T) {
	for name, c := range map[string]struct {
		safe, unsafe  failing
		reason, words string
		hang          bool
	}{
		"nothing":                {again, again, "unanswered", "closed the connection without an answer", false},
		"one byte":               {again, unreadable, "not_http", "not HTTP", false},
		"half a status line":     {again, unreadable, "not_http", "not HTTP", false},
		"not HTTP":               {again, unreadable, "not_http", "not HTTP", false},
		"another protocol":       {again, unreadable, "not_http", "not HTTP", false},
		"a status of letters":    {again, unreadable, "not_http", "not HTTP", false},
		"cut headers":            {again, unreadable, "cut_off", "in the middle of its answer", false},
		"a header, no colon":     {again, unreadable, "header", "malformed header", false},
		"a header, no name":      {again, unreadable, "header", "malformed header", false},
		"two lengths":            {again, unreadable, "content_length", "Content-Length", false},
		"a length of letters":    {again, unreadable, "content_length", "Content-Length", false},
		"an unknown transfer":    {again, unreadable, "transfer_encoding", "Transfer-Encoding", false},
		"103, then the end":      {again, unreadable, "cut_off", "in the middle of its answer", false},
		"100, then the end":      {again, unreadable, "cut_off", "in the middle of its answer", false},
		"a cut body":             {again, unreadable, "cut_off", "in the middle of its answer", false},
		"a cut body, 503":        {again, unreadable, "", "", false},
		"no body, 503":           {again, unreadable, "", "", false},
		"a cut chunk":            {again, unreadable, "cut_off", "in the middle of its answer", false},
		"a broken chunk":         {again, unreadable, "chunk", "malformed chunk", false},
		"a chunk without end":    {again, unreadable, "cut_off", "in the middle of its answer", false},
		"cut gzip":               {again, unreadable, "cut_off", "in the middle of its answer", false},
		"an unknown coding":      {unusableBody, unusableBody, "content_encoding", "a Content-Encoding other than gzip", false},
		"an unknown coding, cut": {again, unreadable, "cut_off", "in the middle of its answer", false},
		"not gzip":               {unusableBody, unusableBody, "gzip", "not valid gzip", false},
		"half of gzip":           {unusableBody, unusableBody, "gzip", "not valid gzip", false},
		"complete, 503":          {answer503, answer503, "", "answered 503 Service Unavailable: {}", false},
		"complete, 429":          {answer503, answer503, "", "answered 429 Too Many Requests", false},
		"a bad location":         {answer503, unusableBody, "location", "not a URL", false},

		"nothing, open":            {late, late, "", "did not respond in time", true},
		"half a status line, open": {late, unreadable, "", "in time", true},
		"103, then the end, open":  {late, unreadable, "", "in time", true},
		"cut headers, open":        {late, unreadable, "", "in time", true},
		"a cut body, open":         {late, unreadable, "", "in time", true},
		"a cut chunk, open":        {late, unreadable, "", "in time", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, known := egresstest.Broken[strings.TrimSuffix(name, ", open")]
			if !known {
				t.Fatal("no such answer")
			}
			each(t, func(t *testing.T, kind string, attempts int) {
				if c.hang && (kind == "PATCH" || attempts > 1 && kind != "POST") {
					return // these take as long as their timeouts
				}
				t.Parallel()
				peer := egresstest.Answering(t, func(*http.Request) (string, bool) { return text, c.hang })
				bench := componenttest.New(t, Modules(loopback(t))...)
				timeout := 10_000
				if c.hang {
					timeout = 500
				}
				failed, _ := attempt(t, bench, peer.URL, kind, attempts, timeout)
				want, words, reason := c.safe, c.words, c.reason
				if unsafeKind(kind) {
					want = c.unsafe
				}
				if strings.Contains(name, "body, 503") {
					words, reason = "answered 503 Service Unavailable", ""
					if unsafeKind(kind) {
						words, reason = "in the middle of its answer", "cut_off"
					}
				}
				want.check(t, failed, words, reason, peer.Asked[kindsOfCall[kind].method].Load(), attempts)
			})
		})
	}
}

// secureGuard returns a guard that trusts the authority, and allows loopback under any name.
func secureGuard(t *testing.T, pool *x509.CertPool) *egress.Guard {
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: pool})
	t.Cleanup(guard.Close)
	return guard
}

// A connection that the server closes during the handshake may be opened again. Everything else that
// fails there fails again.
func TestFailedHandshakesSayWhatWasWrong(t *testing.T) {
	ca, other := egresstest.NewCA(t), egresstest.NewCA(t)
	issued := func(until time.Duration, hosts ...string) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, time.Now().Add(until), hosts...)}}
	}
	demanding := func(version uint16) *tls.Config {
		config := ca.Config(t, "127.0.0.1")
		config.ClientAuth, config.MaxVersion = tls.RequireAnyClientCert, version
		return config
	}
	old := ca.Config(t, "127.0.0.1")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for name, c := range map[string]struct {
		want          failing
		reason, words string
		config        *tls.Config // or
		raw           string
	}{
		"another name":            {untrusted, "certificate_name", "a TLS certificate for another name", issued(time.Hour, "canary.example"), ""},
		"expired":                 {untrusted, "certificate_expired", "has expired", issued(-time.Hour, "127.0.0.1"), ""},
		"unknown issuer":          {untrusted, "certificate_issuer", "an unknown issuer", other.Config(t, "127.0.0.1"), ""},
		"client certificate":      {untrusted, "client_certificate", "requires a client certificate", demanding(tls.VersionTLS12), ""},
		"client certificate, 1.3": {again, "client_certificate", "requires a client certificate", demanding(tls.VersionTLS13), ""},
		"an old version":          {untrusted, "tls_version", "TLS 1.2 or later", old, ""},
		"plain HTTP":              {untrusted, "plain_http", "plain HTTP", nil, "HTTP/1.0 400 canary\r\n\r\n"},
		"SSH":                     {untrusted, "not_tls", "does not use TLS", nil, "SSH-2.0-canary\r\n"},
		"nothing":                 {unsent, "handshake_closed", "closed the connection during the TLS handshake", nil, ""},
		"half a record":           {unsent, "handshake_closed", "closed the connection during the TLS handshake", nil, "\x16\x03\x03\x00\x7a\x02"},
		"close_notify":            {unsent, "handshake_closed", "closed the connection during the TLS handshake", nil, egresstest.Alert(0)},
		"internal_error":          {unsent, "handshake_closed", "closed the connection during the TLS handshake", nil, egresstest.Alert(80)},
		"user_canceled":           {unsent, "handshake_closed", "closed the connection during the TLS handshake", nil, egresstest.Alert(90)},
		"handshake_failure":       {untrusted, "tls_alert", "rejected the TLS connection", nil, egresstest.Alert(40)},
		"unrecognized_name":       {untrusted, "tls_name", "does not know this name", nil, egresstest.Alert(112)},
		"another message":         {untrusted, "tls_protocol", "violated the TLS protocol", nil, "\x16\x03\x03\x00\x04\x0e\x00\x00\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, kind string, attempts int) {
				t.Parallel()
				peer := egresstest.Greeting(t, c.raw)
				if c.config != nil {
					peer = egresstest.SecureAnswering(t, c.config, func(*http.Request) (string, bool) { return "", false })
				}
				bench := componenttest.New(t, Modules(secureGuard(t, ca.Pool))...)
				failed, _ := attempt(t, bench, peer.URL, kind, attempts, 10_000)
				want := c.want
				if want == again && failed != nil && failed.Sent() == "no" {
					want.sent = "no" // the alert arrived before the request was written
				}
				want.check(t, failed, c.words, c.reason, peer.Accepted.Load(), attempts)
			})
		})
	}
}

// A refused connection and a handshake that takes too long have a known outcome.
func TestNothingWasSentUntilTheConnectionIsReady(t *testing.T) {
	silent := egresstest.NewSilentOpen(t)
	bench := componenttest.New(t, Modules(loopback(t))...)
	for _, kind := range []string{"GET", "POST"} {
		failed, _ := attempt(t, bench, "https://"+silent, kind, 1, 100)
		if failed == nil || failed.Code != component.CodeTimeout || failed.Sent() != "no" || !failed.Retryable {
			t.Errorf("%s: %v %s", kind, failed, details(failed))
		}
	}
}

// After a redirect that turned a POST into a GET, the POST was answered.
func TestATurnedPOSTIsNotSentAgain(t *testing.T) {
	for status, turns := range map[int]bool{301: true, 302: true, 303: true, 307: false, 308: false} {
		for name, rest := range map[string]string{
			"503": "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "nothing": "", "half": "HTTP/1.1 200",
			"cut": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "bad location": egresstest.Broken["a bad location"],
		} {
			for _, kind := range []string{"POST", "POST with own key", "PATCH"} {
				t.Run(fmt.Sprintf("%d, %s, %s", status, name, kind), func(t *testing.T) {
					t.Parallel()
					method := kindsOfCall[kind].method
					peer := egresstest.Answering(t, func(r *http.Request) (string, bool) {
						if r.URL.Path == "/start" {
							return fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: /rest\r\nContent-Length: 0\r\n\r\n", status), false
						}
						return rest, false
					})
					bench := componenttest.New(t, Modules(loopback(t))...)
					failed, n := attempt(t, bench, peer.URL+"/start", kind, 3, 10_000)
					turned := turns && (method == "POST" || status == 303)
					if turned && (failed == nil || n != 1 || failed.Retryable || failed.Sent() != "answered" || peer.Asked[method].Load() != 1 || peer.Asked["GET"].Load() != 1) {
						t.Errorf("%d attempts: %v %s", n, failed, details(failed))
					}
					lost := name == "nothing" || name == "503" // no byte, or a complete answer
					if kept := kind == "POST with own key" || lost; !turned && (failed == nil || failed.Retryable != kept) {
						t.Errorf("%d attempts: %v %s", n, failed, details(failed))
					}
				})
			}
		}
	}
}

// Bodies that can't be used leave no word of the server in the message, not even the name of a field.
func TestMessagesOfUnusableBodiesHaveNoWordOfTheServer(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"\u0416canary":                         "outputMapping x cannot be applied: the response is not valid JSON: byte 1 is wrong",
		`{"a":1}` + "\u0416":                   "outputMapping x cannot be applied: the response is not valid JSON: byte 8 is wrong",
		`{"a":`:                                "outputMapping x cannot be applied: the response is not valid JSON: it ends too early",
		`{"a":{"canary":1,"canary":2}}`:        `the output cannot be stored: /x: the object has this field twice`,
		`{"a":{"canary":{"canary":1e999999}}}`: "the output cannot be stored: /x: a number is too large, or has too many decimals, to be stored",
	} {
		answer := upstream.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
		_, err := render(answer, map[string]string{"x": "a"})
		if failed, ok := errors.AsType[*component.Error](err); !ok || failed.Message != want {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}
