package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// closed returns an address without a listener.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

func TestFailureHasItsClass(t *testing.T) {
	guard := egress.New(egress.Policy{
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Resolver: egresstest.Resolver(t, func(string) []netip.Addr { return nil }),
	})
	t.Cleanup(guard.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Write(make([]byte, 2000))
		case "/around":
			http.Redirect(w, r, "/around", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "10")
			w.Write([]byte("a"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for name, c := range map[string]struct {
		url, code, class string
		retryable        bool
		rest             string // of the details
	}{
		"refused":   {closed(t), component.CodeUpstream, "refused", true, `,"sent":"no"`},
		"no name":   {"https://nowhere.example", component.CodeUpstream, "dns", true, `,"sent":"no"`},
		"untrusted": {secure.URL, component.CodeUpstream, "tls", false, `,"reason":"certificate_issuer","sent":"no"`},
		"blocked":   {"https://10.0.0.1", component.CodeAddressBlocked, "blocked_address", false, `,"sent":"no"`},
		"large":     {server.URL + "/large", component.CodeUpstream, "too_large", false, `,"sent":"unknown","status":200`},
		"redirects": {server.URL + "/around", component.CodeUpstream, "redirect", false, `,"sent":"answered"`},
		"cut":       {server.URL + "/cut", component.CodeUpstream, "connection", true, `,"reason":"cut_off","sent":"unknown","status":200`},
	} {
		client := guard.Client(egress.ClientOptions{Timeout: 10 * time.Second, Redirects: MaxRedirects, MaxBytes: 1000})
		request, err := http.NewRequestWithContext(t.Context(), "GET", c.url+"?key=canary-in-the-url", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Do(client, request)
		failed, ok := err.(*component.Error)
		if !ok || failed.Code != c.code || failed.Retryable != c.retryable || string(failed.Details) != `{"class":"`+c.class+`"`+c.rest+`}` {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(fmt.Sprintf("%v %v", failed, failed.Err), "canary") {
			t.Errorf("%s: the URL is in %v", name, failed)
		}
	}
}

func TestCanceledExchangeIsNotAnUpstreamFailure(t *testing.T) {
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", closed(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Do(guard.Client(egress.ClientOptions{}), request)
	if failed, ok := errors.AsType[*component.Error](err); !Stopped(err) || !errors.Is(err, context.Canceled) || !ok || failed.Sent() != egress.SentNo {
		t.Errorf("got %v", err)
	}
}

func TestRefusalsCarryRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "soon": 0, "7": 7 * time.Second} {
		got := Refused("upstream.test", Answer{Status: 429, Header: http.Header{"Retry-After": {value}}}, "")
		if got.RetryAfter != want || !got.Retryable {
			t.Errorf("%q: %s, retryable %v; want %s", value, got.RetryAfter, got.Retryable, want)
		}
	}
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	got := Refused("upstream.test", Answer{Status: 503, Header: http.Header{"Retry-After": {date}}}, "")
	if got.RetryAfter < 59*time.Minute || got.RetryAfter > time.Hour {
		t.Errorf("%s: %s", date, got.RetryAfter)
	}
}

func TestExcerptsAreText(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"text":    {" no \r\n\x1b[1m way ", "no    [1m way"},
		"binary":  {"\x89PNG\xff", ""},
		"nothing": {"", ""},
		"at cut":  {strings.Repeat("a", maxExcerpt-1) + "é tail", strings.Repeat("a", maxExcerpt-1)},
	} {
		if got := Excerpt([]byte(c.body)); got != c.want {
			t.Errorf("%s: %.60q, want %.60q", name, got, c.want)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("é\x00\xff"), 1)
	f.Add([]byte("🙂"), 1400)
	f.Fuzz(func(t *testing.T, body []byte, times int) {
		got := Excerpt(bytes.Repeat(body, min(max(times, 1), 2000)))
		if !utf8.ValidString(got) || len(got) > maxExcerpt || strings.ContainsFunc(got, func(r rune) bool { return r < 32 }) {
			t.Errorf("got %q", got)
		}
	})
}

func TestBusyProcessIsATemporaryFailure(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), "GET", "https://api.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	failed, ok := failure(request, Answer{Sent: egress.SentUnknown}, egress.ErrBusy).(*component.Error)
	if !ok || failed.Code != component.CodeUpstream || !failed.Retryable || string(failed.Details) != `{"class":"busy","sent":"unknown"}` {
		t.Errorf("got %v", failed)
	}
}

// A secret that equals one of Weft's words doesn't hide what was sent and what was wrong.
func TestSecretsDoNotHideWhatWasSent(t *testing.T) {
	for _, reason := range []string{
		egress.ReasonCertificateName, egress.ReasonCertificateExpired, egress.ReasonCertificateIssuer, egress.ReasonCertificate,
		egress.ReasonClientCertificate, egress.ReasonPlainHTTP, egress.ReasonNotTLS, egress.ReasonTLSVersion, egress.ReasonTLSName,
		egress.ReasonTLSAlert, egress.ReasonTLSProtocol, egress.ReasonHandshakeClosed, egress.ReasonUnanswered, egress.ReasonCutOff,
		egress.ReasonNotHTTP, egress.ReasonHeader, egress.ReasonLength, egress.ReasonTransferCoding, egress.ReasonChunk,
		egress.ReasonOther, egress.ReasonContentCoding, egress.ReasonGzip, egress.ReasonLocation, egress.ReasonCharset,
		egress.ReasonMapping, egress.ReasonStorage, egress.ReasonJSONRPC,
	} {
		details := `{"class":"connection","reason":"` + reason + `","sent":"unknown"}`
		got := component.NewRedactor(reason, "unknown", "connection").JSON([]byte(details))
		if string(got) != details || egress.Words(reason) == "" {
			t.Errorf("%s: %s", reason, got)
		}
	}
}
