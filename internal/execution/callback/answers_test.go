package callback

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// Only the status of a receiver's answer counts (decision 5.2): nothing in its body or its type makes a
// delivery fail.
func TestOnlyTheStatusOfAnAnswerDecides(t *testing.T) {
	t.Parallel()
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	var current egresstest.Answer
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		current.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	sender := NewSender(guard, 0)
	for _, a := range egresstest.Answers(`{"ok":true}`) {
		current, requests = a, 0
		out, err := sender.send(t.Context(), Message{ID: newID(t), URL: server.URL, Body: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		want := a.Status == http.StatusOK && a.Limit != "65536" // net/http drops a response with more headers
		if out.delivered() != want || requests != 1 {
			t.Errorf("%s: delivered %v with the status %d and the class %q after %d requests", a.Name, out.delivered(), out.status, out.class, requests)
		}
	}
}
