package callback

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// The receiver closes every reused connection without a response. The attempt then fails instead
// of sending a second request, and the schedule determines the next attempt.
func TestAnAttemptSendsOneRequest(t *testing.T) {
	t.Parallel()
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	receiver := egresstest.NewClosing(t)
	sender := NewSender(guard, 0)
	failures := 0
	for i := range 1000 {
		path := fmt.Sprintf("/%d", i)
		headers := map[string]string{"Idempotency-Key": "k"}
		out, err := sender.send(t.Context(), Message{
			ID: newID(t), URL: receiver.URL + path, Body: []byte(`{}`), Secrets: Secrets{Headers: headers},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !out.delivered() {
			failures++
		}
		if n := receiver.Seen(path); n != 1 {
			t.Fatalf("%s was sent %d times", path, n)
		}
	}
	if reused := receiver.Reused(); reused == 0 || failures != reused {
		t.Errorf("%d requests on a reused connection, %d failures", reused, failures)
	}
}
