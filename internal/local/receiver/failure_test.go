package receiver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestFailuresHitTheConfiguredDeliveries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure Failure
		want    []bool // attempts 1, 2, 3, at random 0.1, 0.5, 0.9
	}{
		"none":      {Failure{}, []bool{false, false, false}},
		"all":       {Failure{Kind: Drop}, []bool{true, true, true}},
		"first two": {Failure{Kind: Drop, First: 2}, []bool{true, true, false}},
		"some":      {Failure{Kind: Drop, Rate: 0.5}, []bool{true, false, false}},
		"always":    {Failure{Kind: Drop, Rate: 1}, []bool{true, true, true}},
	} {
		for i, random := range []float64{0.1, 0.5, 0.9} {
			if got := c.failure.applies(i+1, random); got != c.want[i] {
				t.Errorf("%s, attempt %d at %v: %v", name, i+1, random, got)
			}
		}
	}
	for text, want := range map[string]string{
		"slow:2s": "slow:2s, every delivery", "status:503": "503, every delivery", "drop": "drop, every delivery",
		"500": "500, every delivery", "99": "", "5e2": "", "500:1": "", "+500": "",
		"slow": "", "slow:-1s": "", "slow:1h": "", "status:": "", "status:99": "", "status:600": "", "drop:1": "", "fast": "", "": "",
	} {
		var f Failure
		if err := f.UnmarshalText([]byte(text)); (err == nil) != (want != "") || err == nil && f.String() != want {
			t.Errorf("%q: got error %v, failure %q", text, err, f)
		}
	}
}

func TestReceiverFailsOnPurpose(t *testing.T) {
	t.Parallel()
	record := body(one)
	header := func() http.Header { return signed(secret, one, record, time.Now()) }
	for text, want := range map[string]int{"status:503": 503, "status:204": 204, "drop": 0, "slow:1ms": 204} {
		var failure Failure
		if err := failure.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		s := start(t, Config{Secret: new(secret), Failure: failure})
		if status, _ := s.post(t, header(), record); status != want {
			t.Errorf("%s: answered %d", text, status)
		}
		d := s.last(t)
		if d.Failed() || d.Injected == nil || *d.Injected != failure.Kind || (d.Answer == nil) != (want == 0) || d.GaveUp {
			t.Errorf("%s: unexpected delivery %+v", text, d)
		}
		if deliveries, failed := s.receiver.Summary(); deliveries != 1 || failed != 0 {
			t.Errorf("%s: %d deliveries, %d failed", text, deliveries, failed)
		}
		if status, _ := s.post(t, signed("other", one, record, time.Now()), record); status != http.StatusUnauthorized {
			t.Errorf("%s: a forged delivery got status %d", text, status)
		}
	}
}

func TestRandomFailuresOccurAtTheirRate(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Failure: Failure{Kind: Status, Status: 500, Rate: 0.3}})
	drawn := []float64{0.29, 0.3, 0.99, 0}
	s.receiver.random = func() float64 {
		next := drawn[0]
		drawn = drawn[1:]
		return next
	}
	for i, want := range []int{500, 204, 204, 500} {
		if status, _ := s.post(t, http.Header{}, body(one)); status != want {
			t.Errorf("%d: got status %d, want %d", i, status, want)
		}
	}
}

func TestSlowResponseStopsWhenTheSenderDisconnects(t *testing.T) {
	t.Parallel()
	record := body(one)
	told := make(chan Delivery, 1)
	r := New(Config{Failure: Failure{Kind: Slow, Delay: maxDelay}, OnDelivery: func(d Delivery) { told <- d }})
	begun, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithCancel(request.Context())
		defer cancel()
		go func() { <-leave; cancel() }()
		close(begun)
		r.ServeHTTP(w, request.WithContext(ctx))
	}))
	defer server.Close()
	go func() {
		<-begun
		close(leave)
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = signed(secret, one, record, time.Now())
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if d := <-told; !d.GaveUp || d.Answer != nil || d.Failed() || *d.Injected != Slow {
		t.Errorf("unexpected delivery %+v", d)
	}
}
