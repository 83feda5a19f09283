package receiver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	secret = "correct-horse-battery"
	one    = "01a2008b-1ca7-71e9-9654-0113709b637e"
	two    = "01a2008b-1d69-7f04-93b7-0eaf492fceb2"
)

// body returns the record of an execution.
func body(id string) string {
	return fmt.Sprintf(`{"id":%q,"module":"RANDOM_UUID","status":"COMPLETED","output":{"uuid":"1"}}`, id)
}

// mac computes the contract's signature with the test's own code.
func mac(key string, parts ...string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	for _, part := range parts {
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// signed returns the headers that Weft sends with a body.
func signed(key, id, body string, at time.Time) http.Header {
	seconds := strconv.FormatInt(at.Unix(), 10)
	return http.Header{
		"Content-Type": {"application/json"}, "X-Svc-Execution-Id": {id}, "User-Agent": {"Weft-Callback/1"},
		"X-Svc-Signature": {"hmac-sha256-v1=" + hex.EncodeToString(mac(key, body))},
		"Webhook-Id":      {id}, "Webhook-Timestamp": {seconds},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac(key, id, ".", seconds, ".", body))},
	}
}

// started is a running receiver with the deliveries that it reported.
type started struct {
	*httptest.Server
	receiver *Receiver

	mu      sync.Mutex
	told    []Delivery
	refused []string
}

func start(t *testing.T, cfg Config) *started {
	t.Helper()
	s := &started{}
	cfg.OnDelivery = func(d Delivery) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = append(s.told, d)
	}
	cfg.OnRejected = func(why string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = append(s.refused, why)
	}
	s.receiver = New(cfg)
	s.Server = httptest.NewServer(s.receiver)
	t.Cleanup(s.Close)
	return s
}

// post sends a delivery. status is 0 if the connection was closed without a response.
func (s *started) post(t *testing.T, header http.Header, body string) (status int, answered string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/hooks/a%2Fb?x=1;y", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	answer, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(request)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// last returns the last reported delivery.
func (s *started) last(t *testing.T) Delivery {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) == 0 {
		t.Fatal("no delivery was reported")
	}
	return s.told[len(s.told)-1]
}

func TestRepeatedDeliveriesAreDetected(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Secret: new(secret), Failure: Failure{Kind: Status, Status: 500, First: 2}})
	altered := strings.Replace(body(one), `"1"`, `"2"`, 1)
	forged := strings.Replace(body(two), `"1"`, `"3"`, 1)
	for i, c := range []struct {
		key, id, body string
		status        int
		attempt       int
		repeat        Repeat
	}{
		{secret, one, body(one), 500, 1, First},
		{secret, one, body(one), 500, 2, Again},
		{secret, one, body(one), 204, 3, Again},
		{secret, one, body(one), 204, 4, Repeated},
		{secret, one, altered, 204, 5, Altered},
		{secret, one, body(one), 204, 6, Repeated},
		{"other", two, forged, 401, 1, First},
		{"other", two, forged, 401, 2, Again},
		{secret, two, body(two), 204, 3, Again}, // the forged ones are ignored
		{secret, two, forged, 204, 4, Altered},
	} {
		if status, _ := s.post(t, signed(c.key, c.id, c.body, time.Now()), c.body); status != c.status {
			t.Errorf("%d: got status %d, want %d", i, status, c.status)
		}
		d := s.last(t)
		if d.Attempt != c.attempt || d.Repeat != c.repeat {
			t.Errorf("%d: attempt %d, %s; want %d, %s", i, d.Attempt, d.Repeat, c.attempt, c.repeat)
		}
		if wrong := c.repeat == Altered || c.status == 401; d.Failed() != wrong {
			t.Errorf("%d: failed %v: %q", i, d.Failed(), d.Faults)
		}
	}
}

func TestTheMemoryOfExecutionsIsBounded(t *testing.T) {
	t.Parallel()
	var m memory
	for n := range maxRemembered + 2 {
		m.arrive(strconv.Itoa(n), nil, true)
	}
	if len(m.known) != maxRemembered || len(m.order) != maxRemembered {
		t.Errorf("%d executions remembered, with %d in the eviction order", len(m.known), len(m.order))
	}
	if attempt, _ := m.arrive("1", nil, true); attempt != 1 {
		t.Error("the oldest execution is still remembered")
	}
	if attempt, _ := m.arrive(strconv.Itoa(maxRemembered), nil, true); attempt != 2 {
		t.Error("a recent execution was evicted")
	}
	for range 2 {
		if attempt, repeat := m.arrive("", nil, true); attempt != 1 || repeat != First {
			t.Error("a delivery without an execution is remembered")
		}
	}
}

func TestSenderThatDoesNotWaitIsReported(t *testing.T) {
	t.Parallel()
	record := body(one)
	told := make(chan Delivery, 1)
	arrived := make(chan struct{})
	behind := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done() // done when the receiver gives up as well
	}))
	defer behind.Close()
	to, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(New(Config{Forward: to, OnDelivery: func(d Delivery) { told <- d }}))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-arrived
		leave()
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = signed(secret, one, record, time.Now())
	if answer, err := http.DefaultClient.Do(request); err == nil {
		answer.Body.Close()
		t.Fatal("the delivery got a response")
	}
	if d := <-told; !d.GaveUp || d.Answer != nil || !d.Failed() || !d.Forwarded {
		t.Errorf("unexpected delivery %+v", d)
	}
}

func TestOtherRequestsAreRejectedAndNotCounted(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Count: 1})
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodHead, http.MethodDelete} {
		request, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != http.MethodPost {
			t.Errorf("%s: got status %d", method, answer.StatusCode)
		}
	}
	if status, _ := s.post(t, http.Header{}, strings.Repeat("x", MaxBody+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large got status %d", status)
	}
	if deliveries, _ := s.receiver.Summary(); deliveries != 0 || len(s.refused) != 5 {
		t.Errorf("%d deliveries, rejected: %q", deliveries, s.refused)
	}
	if status, _ := s.post(t, signed(secret, one, body(one), time.Now()), body(one)); status != http.StatusNoContent {
		t.Errorf("a delivery got status %d", status)
	}
}

func TestReceiverStopsAfterCountDeliveries(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Count: 3})
	record := body(one)
	statuses := make(chan int)
	const sent = 8
	for range sent {
		go func() {
			status, _ := s.post(t, signed(secret, one, record, time.Now()), record)
			statuses <- status
		}()
	}
	count := map[int]int{}
	for range sent {
		count[<-statuses]++
	}
	<-s.receiver.Done()
	if count[http.StatusNoContent] != 3 || count[http.StatusServiceUnavailable] != sent-3 || len(s.told) != 3 {
		t.Errorf("got statuses %v and %d reports", count, len(s.told))
	}
}
