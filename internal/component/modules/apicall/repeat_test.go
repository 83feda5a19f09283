package apicall

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// behavior is what a server does with one request.
type behavior struct {
	text     string // what it writes
	status   int
	complete bool // the text is a complete response
}

// anyBehavior returns a random response: complete, cut off anywhere, or with a line that isn't HTTP.
func anyBehavior(random *rand.Rand) behavior {
	b := behavior{status: []int{200, 201, 204, 400, 404, 408, 425, 429, 500, 503}[random.IntN(10)], complete: true}
	head := []string{fmt.Sprintf("HTTP/1.1 %d Canary", b.status)}
	for range random.IntN(3) {
		head = append(head, "X-Any: canary")
	}
	body := ""
	switch shape := random.IntN(3); {
	case b.status == 204:
	case shape == 0:
		body = `{"id":7}`
		head = append(head, fmt.Sprintf("Content-Length: %d", len(body)))
	case shape == 1:
		body = "8\r\n{\"id\":7}\r\n0\r\n\r\n"
		head = append(head, "Transfer-Encoding: chunked")
	default:
		body = "{}"
		head = append(head, "Content-Length: 2", "Content-Encoding: canary")
	}
	for range random.IntN(2) * random.IntN(3) { // informational responses come first
		head = append([]string{"HTTP/1.1 103 Early Hints", "Link: canary", ""}, head...)
	}
	switch random.IntN(4) {
	case 0:
		odd := []string{"canary", ": canary", "Content-Length: 99\r\nContent-Length: 98", "Transfer-Encoding: canary"}
		at := len(head)
		head = append(head[:at:at], odd[random.IntN(len(odd))])
		b.complete = false
	case 1:
		b.complete = false
		text := strings.Join(head, "\r\n") + "\r\n\r\n" + body
		b.text = text[:random.IntN(len(text))]
		return b
	}
	b.text = strings.Join(head, "\r\n") + "\r\n\r\n" + body
	return b
}

// A server may answer before it has read a request, and close the connection while the request is still
// being written.
func TestAnAnswerBeforeTheEndOfTheRequestIsAnAnswer(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, Modules(loopback(t))...)
	large := strings.Repeat("a", 8<<20)
	for name, text := range map[string]string{
		"complete": "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}", "cut": "HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\n{}", "bad": "canary\r\n",
	} {
		for range waittest.Size(3, 100) {
			peer := egresstest.Hasty(t, text)
			output, failed := run(t, bench, object{"body": large}, object{"apiUrl": peer.URL, "method": "POST", "expectStatus": 413})
			if peer.Asked["POST"].Load() != 1 || failed == nil && output["status"] != 413.0 || failed != nil && (name == "complete" || failed.Retryable) {
				t.Fatalf("%s: %.100v, %v %s", name, output, failed, details(failed))
			}
		}
	}
}

// Whatever a server does, a call that isn't safe to repeat is sent again only if no byte of a response
// arrived, or after a complete response whose status is retryable.
func TestAnUnsafeCallIsRepeatedOnlyIfItWasNotAnswered(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	var last behavior
	var redirect int
	peer := egresstest.Answering(t, func(r *http.Request) (string, bool) {
		if r.URL.Path == "/" && redirect != 0 {
			return fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: /rest\r\nContent-Length: 0\r\n\r\n", redirect), false
		}
		last = anyBehavior(random)
		return last.text, false
	})
	bench := componenttest.New(t, Modules(loopback(t))...)
	for i := range waittest.Size(1000, 20_000) {
		redirect = []int{0, 0, 0, 301, 302, 303, 307, 308}[random.IntN(8)]
		method := []string{"POST", "PATCH"}[random.IntN(2)]
		turned := redirect == 303 || method == "POST" && (redirect == 301 || redirect == 302)
		before := peer.Asked[method].Load()
		_, failed := run(t, bench, object{"body": "x"}, object{"apiUrl": peer.URL + "/", "method": method})
		again := failed != nil && failed.Retryable
		allowed := !turned && (last.text == "" || last.complete && upstream.Temporary(last.status))
		if again && !allowed || failed == nil && !last.complete {
			t.Fatalf("seed %d, call %d: %s with the redirect %d, answered with %q: %v %s", seed, i, method, redirect, last.text, failed, details(failed))
		}
		sends := int64(1)
		if redirect != 0 && !turned {
			sends = 2
		}
		if n := peer.Asked[method].Load() - before; n != sends {
			t.Fatalf("seed %d, call %d: one attempt sent %d requests", seed, i, n)
		}
		if failed != nil && (failed.Sent() == "answered") != (last.complete || turned) {
			t.Fatalf("seed %d, call %d: answered with %q: %v %s", seed, i, last.text, failed, details(failed))
		}
	}
}
