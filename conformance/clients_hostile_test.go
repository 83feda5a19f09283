package conformance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// forgery is a received callback, and whether a client must accept it.
type forgery struct {
	name, secret string
	body         string
	header       map[string]string
	genuine      bool
}

const (
	callbackBody = `{"id":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e","status":"COMPLETED","output":{"text":"hällo"}}`
	callbackNow  = 1795257600
)

// callbacks returns callbacks that are created without code of the service, only from the contract and Standard Webhooks.
func callbacks() []forgery {
	signed := func(key, text string) []byte {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	delivery := func(secret, key, body string, at int64) map[string]string {
		const id = "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e"
		timestamp := strconv.FormatInt(at, 10)
		return map[string]string{
			"X-Svc-Signature": "hmac-sha256-v1=" + hex.EncodeToString(signed(secret, body)),
			"Webhook-Id":      id, "Webhook-Timestamp": timestamp,
			"Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(signed(key, id+"."+timestamp+"."+body)),
		}
	}
	const secret = "geheim ä"
	right := func(change func(h map[string]string)) map[string]string {
		h := delivery(secret, secret, callbackBody, callbackNow)
		change(h)
		return h
	}
	as := func(name, value string) map[string]string {
		return right(func(h map[string]string) { h[name] = value })
	}
	without := func(names ...string) map[string]string {
		return right(func(h map[string]string) {
			for _, name := range names {
				delete(h, name)
			}
		})
	}
	all := right(func(map[string]string) {})
	const encoded = "whsec_c2VjcmV0IGJ5dGVzIG9mIGEga2V5"
	return []forgery{
		{"both signatures", secret, callbackBody, all, true},
		{"the contract's alone", secret, callbackBody, without("Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"), true},
		{"a secret of Standard Webhooks", encoded, callbackBody, delivery(encoded, "secret bytes of a key", callbackBody, callbackNow), true},
		{"one of two signatures", secret, callbackBody, as("Webhook-Signature", "v1,AAAA "+all["Webhook-Signature"]), true},
		{"as old as may be", secret, callbackBody, delivery(secret, secret, callbackBody, callbackNow-300), true},
		{"older", secret, callbackBody, delivery(secret, secret, callbackBody, callbackNow-301), false},
		{"from later", secret, callbackBody, delivery(secret, secret, callbackBody, callbackNow+301), false},
		{"another secret", "geheim a", callbackBody, all, false},
		{"an altered body", secret, strings.Replace(callbackBody, "COMPLETED", "FAILED", 1), all, false},
		{"a body that was written again", secret, strings.ReplaceAll(callbackBody, ":", ": "), all, false},
		{"no body", secret, "", all, false},
		{"no signature", secret, callbackBody, without("X-Svc-Signature", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"), false},
		{"not the contract's", secret, callbackBody, without("X-Svc-Signature"), false},
		{"without the prefix", secret, callbackBody, as("X-Svc-Signature", strings.TrimPrefix(all["X-Svc-Signature"], "hmac-sha256-v1=")), false},
		{"half of the digest", secret, callbackBody, as("X-Svc-Signature", all["X-Svc-Signature"][:47]), false},
		{"more than the digest", secret, callbackBody, as("X-Svc-Signature", all["X-Svc-Signature"]+"00"), false},
		{"an empty digest", secret, callbackBody, as("X-Svc-Signature", "hmac-sha256-v1="), false},
		{"letters that are not hex digits", secret, callbackBody, as("X-Svc-Signature", "hmac-sha256-v1="+strings.Repeat("zz", 32)), false},
		{"another id", secret, callbackBody, as("Webhook-Id", "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6f"), false},
		{"another time", secret, callbackBody, as("Webhook-Timestamp", strconv.Itoa(callbackNow+1)), false},
		{"no time", secret, callbackBody, without("Webhook-Timestamp"), false},
		{"an invalid time", secret, callbackBody, as("Webhook-Timestamp", "now"), false},
		{"another version", secret, callbackBody, as("Webhook-Signature", strings.Replace(all["Webhook-Signature"], "v1,", "v2,", 1)), false},
		{"an empty signature", secret, callbackBody, as("Webhook-Signature", ""), false},
	}
}

// forgeries lets a client verify callbacks. Each line has the secret, the body, the time, and
// the names and values of headers, in base64 unless they are plain.
func forgeries(t *testing.T, language language, folder string) {
	all := callbacks()
	var lines strings.Builder
	for _, c := range all {
		fmt.Fprintf(&lines, "%s\t%s\t%d", base64.StdEncoding.EncodeToString([]byte(c.secret)), base64.StdEncoding.EncodeToString([]byte(c.body)), callbackNow)
		for name, value := range c.header {
			fmt.Fprintf(&lines, "\t%s\t%s", name, value)
		}
		lines.WriteString("\n")
	}
	said := strings.Fields(string(runIn(t, folder, lines.String(), append(language.start("check"), "callbacks")...)))
	if len(said) != len(all) {
		t.Fatalf("%d verdicts on %d callbacks: %q", len(said), len(all), said)
	}
	for i, c := range all {
		if want := map[bool]string{true: "genuine", false: "forged"}[c.genuine]; said[i] != want {
			t.Errorf("%s: %s, want %s", c.name, said[i], want)
		}
	}
}

// breaking is a server whose stream needs several connections. For each connection it has the
// response, and the way in which the connection ends.
type breaking struct {
	mutex sync.Mutex
	came  []string // Last-Event-ID
}

const silence = 4 * time.Second // after which a client must treat the connection as lost

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mutex.Lock()
	b.came = append(b.came, r.Header.Get("Last-Event-Id"))
	turn := len(b.came)
	b.mutex.Unlock()
	send := func(text string) {
		fmt.Fprint(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	if r.URL.Path == "/refused" {
		http.Error(w, `{"code":"NOT_FOUND"}`, http.StatusNotFound)
		return
	}
	if turn == 2 {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch turn {
	case 1: // ends whole, before its time
		send(":ping\n\nid: a1\nevent: progress\ndata: {\"status\":\"CREATED\",\n")
		send("data:\"n\":1}\n\ndata\n\n: a comment\nretry: 1\n\n")
	case 3: // the last one again, then one in two parts, in the middle of a letter; then silence
		send("id: a1\ndata: {\"status\":\"CREATED\",\"n\":1}\n\nid:b2\r\ndata: {\"status\":\"EXECUTING\",\"n\":\"\xc3")
		send("\xa4\"}\r\n\r\n")
		<-r.Context().Done()
	case 4: // breaks off inside of a message, with a name that is not to be kept
		send("id: x9\ndata: {\"status\":\"COMPLETED\"")
		panic(http.ErrAbortHandler)
	default: // what is not a state of the thing itself, and the end; nothing after it counts
		send("id: c3\ndata: {\"status\":\"EXECUTING\",\"n\":3,\"output\":{\"status\":\"COMPLETED\"}}\n\n")
		send("id: d4\ndata: {\"status\":\"FAILED\",\"n\":4}\n\nid: e5\ndata: {\"status\":\"COMPLETED\",\"n\":5}\n\n")
	}
}

// breaks lets a client read a stream to its end, and an unknown stream.
func breaks(t *testing.T, language language, folder string) {
	stream := &breaking{}
	server := httptest.NewServer(stream)
	t.Cleanup(server.Close)
	out := string(runIn(t, folder, "", append(language.start("check"), "stream", server.URL, "/stream", strconv.Itoa(int(silence.Milliseconds())))...))
	if want := "CREATED 1\nEXECUTING ä\nEXECUTING 3\nFAILED 4\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
	if want := []string{"", "a1", "a1", "b2", "b2"}; !slices.Equal(stream.came, want) {
		t.Errorf("the connections came with Last-Event-ID %q, want %q", stream.came, want)
	}
	none := &breaking{}
	server = httptest.NewServer(none)
	t.Cleanup(server.Close)
	if out := string(runIn(t, folder, "", append(language.start("check"), "stream", server.URL, "/refused", "1000")...)); out != "refused 404\n" || len(none.came) != 1 {
		t.Errorf("%q after %d requests", out, len(none.came))
	}
}
