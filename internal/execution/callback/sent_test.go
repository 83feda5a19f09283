package callback

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// Each failed attempt reports how far its request got and what was wrong. Only
// the status of a receiver's response counts, so half a body is an answer.
func TestAttemptsReportWhatWasSentAndWhatWasWrong(t *testing.T) {
	t.Parallel()
	ca, other := egresstest.NewCA(t), egresstest.NewCA(t)
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: ca.Pool})
	t.Cleanup(guard.Close)
	const delivered = ""
	reasons := map[string]string{ // of answers without a status
		"nothing": "unanswered", "one byte": "not_http", "half a status line": "not_http", "not HTTP": "not_http",
		"another protocol": "not_http", "a status of letters": "not_http", "cut headers": "cut_off",
		"a header, no colon": "header", "a header, no name": "header", "two lengths": "content_length",
		"a length of letters": "content_length", "an unknown transfer": "transfer_encoding",
		"103, then the end": "cut_off", "100, then the end": "cut_off",
	}
	for name, text := range egresstest.Broken {
		peer := egresstest.Answering(t, func(*http.Request) (string, bool) { return text, false })
		class, sent := "connection", "unknown"
		switch {
		case reasons[name] != "":
		case strings.Contains(text, "HTTP/1.1 200"):
			class, sent = delivered, "answered"
		case strings.Contains(text, "HTTP/1.1 30"):
			class, sent = "redirect", "answered"
		default:
			class, sent = "status", "answered"
		}
		checkAttempt(t, NewSender(guard, 0), name, peer.URL, class, reasons[name], sent)
		if n := peer.Asked["POST"].Load(); n != 1 {
			t.Errorf("%s: sent %d times", name, n)
		}
	}
	for name, c := range map[string]struct{ text, class, reason string }{
		"plain HTTP":       {"HTTP/1.0 400 canary\r\n\r\n", "tls", "plain_http"},
		"SSH":              {"SSH-2.0-canary\r\n", "tls", "not_tls"},
		"closed handshake": {"", "connection", "handshake_closed"},
		"internal_error":   {egresstest.Alert(80), "connection", "handshake_closed"},
		"alert":            {egresstest.Alert(40), "tls", "tls_alert"},
	} {
		checkAttempt(t, NewSender(guard, 0), name, egresstest.Greeting(t, c.text).URL, c.class, c.reason, "no")
	}
	untrusted := egresstest.SecureAnswering(t, other.Config(t, "127.0.0.1"), func(*http.Request) (string, bool) { return "", false })
	checkAttempt(t, NewSender(guard, 0), "unknown issuer", untrusted.URL, "tls", "certificate_issuer", "no")
	checkAttempt(t, NewSender(guard, 100*time.Millisecond), "silent handshake", "https://"+egresstest.NewSilentOpen(t), "timeout", "", "no")
}

func checkAttempt(t *testing.T, sender *Sender, name, url, class, reason, sent string) {
	t.Helper()
	out, err := sender.send(t.Context(), Message{ID: newID(t), URL: url, Body: []byte(`{}`)})
	if err != nil || out.class != class || out.reason != reason || out.sent != sent {
		t.Errorf("%s: class %q, reason %q, sent %q, %v; want %q, %q, %q", name, out.class, out.reason, out.sent, err, class, reason, sent)
		return
	}
	encoded, err := present.CallbackError(failureOf(out))
	var shown api.CallbackError
	if class == "" || err != nil || json.Unmarshal(encoded, &shown) != nil {
		if class != "" || err != nil || encoded != nil {
			t.Errorf("%s: %s, %v", name, encoded, err)
		}
		return
	}
	if !strings.Contains(shown.Message, egress.Words(reason)) || strings.Contains(string(encoded), "canary") || shown.Sent == nil || string(*shown.Sent) != sent {
		t.Errorf("%s: %s", name, encoded)
	}
}

func TestAnAttemptOnAReusedConnectionReportsWhatWasSent(t *testing.T) {
	t.Parallel()
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	receiver := egresstest.NewClosing(t)
	sender := NewSender(guard, 0)
	for i := 0; receiver.Reused() == 0; i++ {
		if i == 1000 {
			t.Fatal("no connection was reused")
		}
		before := receiver.Seen("/")
		out, err := sender.send(t.Context(), Message{ID: newID(t), URL: receiver.URL + "/", Body: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		want := "unknown" // the receiver read it, and closed the connection
		if out.delivered() {
			want = "answered"
		}
		if out.sent != want || receiver.Seen("/") != before+1 {
			t.Errorf("sent %q, class %q; want %q", out.sent, out.class, want)
		}
	}
}
