package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
)

// AU-11: a key is revoked while requests and streams use the key on two nodes. No request that
// started later than 1 s after the commit is accepted, and the streams are closed within 5 s.
func TestAU11AKeyIsRevokedUnderTraffic(t *testing.T) {
	if waittest.LeftToSoak(t, "conformance.TestAU11ARevokedKeyEndsOnEveryNode", "internal/account/auth.TestAU11RevokedKeyIsRefusedWithinASecondAndItsStreamsEnd") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	nodes := []*process{s.start("serve"), s.start("serve")}
	s.start("work")
	s.upstream.hold()
	record, _, err := s.submitUntilAcknowledged(t.Context(), order{})
	if err != nil {
		t.Fatal(err)
	}
	doomed := s.tenants[0]
	var opened, streams sync.WaitGroup
	var lastClosed atomic.Int64
	for _, p := range nodes {
		for range 2 {
			opened.Add(1)
			streams.Go(func() {
				if last, err := s.stream(t.Context(), p, record.ID, 0, opened.Done); err == nil {
					t.Errorf("the stream finished at %s instead of being closed", last)
				}
				lastClosed.Store(max(lastClosed.Load(), time.Now().UnixNano()))
			})
		}
	}
	opened.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var lastAccepted [2]atomic.Int64 // start of the last request that was accepted
	var traffic sync.WaitGroup
	for i, p := range nodes {
		traffic.Go(func() {
			during(ctx, time.Minute, 10*time.Millisecond, func() {
				began := time.Now()
				_, _, err := s.client(p, doomed).Get(ctx, record.ID)
				problem, _ := errors.AsType[*client.Problem](err)
				switch {
				case err == nil:
					lastAccepted[i].Store(began.UnixNano())
				case problem != nil && problem.Status != http.StatusUnauthorized && problem.Status != http.StatusTooManyRequests:
					t.Errorf("the revoked key got %v", err)
				}
			})
		})
	}
	for i := range nodes {
		eventually(t, 30*time.Second, "traffic", func() (bool, string) { return lastAccepted[i].Load() > 0, "no request was accepted" })
	}
	if _, err := auth.NewKeys(s.pool).Revoke(t.Context(), doomed.id, doomed.key.KeyID); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	streams.Wait()
	closed := time.Unix(0, lastClosed.Load()).Sub(revoked)
	hold(t, 1500*time.Millisecond-min(time.Since(revoked), 1400*time.Millisecond))
	stop()
	traffic.Wait()
	var told int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM audit_events WHERE action = 'api_key.revoked' AND subject_id = $1 AND created_at <= $2",
		doomed.key.KeyID.String(), revoked).Scan(&told); err != nil || told != 1 {
		t.Errorf("the revocation has %d audit events (%v), want 1", told, err)
	}
	worst := time.Duration(0)
	for i := range nodes {
		worst = max(worst, time.Unix(0, lastAccepted[i].Load()).Sub(revoked))
	}
	if waittest.Timed() && worst > time.Second {
		t.Errorf("a request that started %v after the revocation was accepted", worst)
	}
	if closed > 5*time.Second {
		t.Errorf("a stream was closed %v after the revocation", closed)
	}
	s.upstream.release()
	s.tenants[0] = doomed.withKey(s) // the checker reads with this key
	s.finish(15 * time.Second)
	figures.note(t, "the last accepted request started %v after the revocation, the last of 4 streams was closed after %v",
		worst.Round(time.Millisecond), closed.Round(time.Millisecond))
}

// AU-14: a flood of requests with wrong signatures from one address gets 401 and 429. A
// well-behaved client at a different address sees its latency rise no more than if it called a
// server on the same machine that only rejects requests. Each latency is the best of three.
func TestAU14FloodOfWrongSignaturesDoesNotSlowOthers(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/account/auth.TestAU14FailedAuthenticationsAreLimitedByAddress") {
		return
	}
	s := newScene(t, shared)
	node := s.start("serve")
	s.start("work")
	record, _, err := s.submitUntilAcknowledged(t.Context(), order{module: "RANDOM_UUID", wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	limit := size(500*time.Millisecond, 50*time.Millisecond)
	rise := limit + 1
	for tries := 0; tries < 3 && rise > limit; tries++ {
		rise = s.flood(t, node, record.ID.String())
	}
	if rise > limit {
		t.Errorf("the well-behaved client's p99 rose by %v more than with a bare server", rise)
	}
	s.finish(10 * time.Second)
}

// flood returns the rise of a well-behaved client's p99 latency during a flood, minus the rise that
// the flood causes for any server on the machine.
func (s *scene) flood(t *testing.T, node *process, id string) (rise time.Duration) {
	t.Helper()
	length := size(2*time.Second, 20*time.Second)
	read := func() error {
		_, err := s.client(node, s.tenants[0]).Call(t.Context(), http.MethodGet, "/v1/sdk/components/executions/"+id, nil, nil)
		return err
	}
	before := percentile(latencies(t, length/2, read), .99)
	base, _ := node.addresses()
	f := newFlood(base, s.tenants[1].key.APIKey)
	var meanwhile time.Duration
	rate := f.during(t, func() {
		meanwhile = percentile(latencies(t, length, read), .99)
		eventually(t, 30*time.Second, "the flood to be limited", func() (bool, string) {
			return f.count(http.StatusTooManyRequests) > 0, fmt.Sprint(f.count(http.StatusUnauthorized), " were not limited")
		})
	})
	if f.count(http.StatusUnauthorized)+f.count(http.StatusTooManyRequests) != f.count(0) {
		t.Errorf("the flood got responses %v", f.answers)
	}
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer bare.Close()
	ask := func() error {
		answer, err := bare.Client().Get(bare.URL)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	quiet := percentile(latencies(t, length/4, ask), .99)
	var flooded time.Duration
	newFlood(bare.URL, "").during(t, func() { flooded = percentile(latencies(t, length/2, ask), .99) })
	figures.note(t, "%.0f/s for %v got %v; the well-behaved client's p99 went from %v to %v, with a bare server from %v to %v", rate, length, f.answers,
		before.Round(time.Millisecond), meanwhile.Round(time.Millisecond), quiet.Round(time.Millisecond), flooded.Round(time.Millisecond))
	return meanwhile - before - max(0, flooded-quiet)
}

// latencies calls request every 10 ms, one call after the other, and returns the times.
func latencies(t *testing.T, length time.Duration, request func() error) (times []time.Duration) {
	t.Helper()
	during(t.Context(), length, 10*time.Millisecond, func() {
		began := time.Now()
		if err := request(); err != nil {
			t.Errorf("the well-behaved client got %v", err)
		}
		times = append(times, time.Since(began))
	})
	return times
}

// flood sends requests with a wrong signature.
type flood struct {
	base, key string
	mu        sync.Mutex
	answers   map[int]int
}

func newFlood(base, key string) *flood { return &flood{base: base, key: key, answers: map[int]int{}} }

// during runs the flood until the action returns, and returns the rate reached.
func (f *flood) during(t *testing.T, action func()) (perSecond float64) {
	ctx, stop := context.WithCancel(t.Context())
	var attack sync.WaitGroup
	attack.Go(func() { f.run(ctx, size(500, 5000)) })
	began := time.Now()
	action()
	perSecond = float64(f.count(0)) / time.Since(began).Seconds()
	stop()
	attack.Wait()
	return perSecond
}

// count returns the number of responses with a status; 0 counts all.
func (f *flood) count(status int) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for code, times := range f.answers {
		if status == 0 || status == code {
			n += times
		}
	}
	return n
}

// run sends perSecond requests a second from its own address.
func (f *flood) run(ctx context.Context, perSecond int) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	wrong := strings.Repeat("A", 86) + "=="
	const senders = 16
	workers(ctx, senders, func(ctx context.Context, _ int) {
		during(ctx, time.Hour, time.Second*senders/time.Duration(perSecond), func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+"/v1/sdk/components", bytes.NewReader([]byte("{}")))
			if err != nil {
				return
			}
			request.Header.Set("X-Api-Key", f.key)
			request.Header.Set("X-Sdk-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
			request.Header.Set("X-Sdk-Signature", wrong)
			answer, err := transport.RoundTrip(request)
			if err != nil {
				return // the test is over
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			f.mu.Lock()
			defer f.mu.Unlock()
			f.answers[answer.StatusCode]++
		})
	})
}

// EX-22: 200 clients wait inline and disconnect. Waiting uses no database connection, the executions
// continue, and the waits leave nothing behind.
func TestEX22DisconnectedWaitersLeaveNothing(t *testing.T) {
	if waittest.LeftToSoak(t, "conformance.TestConformance") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	node := s.start("serve")
	s.start("work", "WEFT_WORKERS=300")
	s.load(20, func(i int) order { return order{tenant: i % 2, module: "RANDOM_UUID"} })
	goroutines := func() float64 { return sum(node.metrics(t), "go_goroutines") }
	s.http.CloseIdleConnections()
	before := goroutines()
	s.upstream.hold()
	const n = 200
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	var waiting sync.WaitGroup
	for i := range n {
		waiting.Go(func() {
			_, err := s.submit(ctx, node, order{tenant: i % 2, wait: 15 * time.Second})
			if err == nil || ctx.Err() == nil {
				t.Errorf("the wait returned %v", err)
			}
		})
	}
	eventually(t, 20*time.Second, "200 waits", func() (bool, string) {
		values := node.metrics(t)
		open := sum(values, "weft_inline_waits_open")
		return open == n, fmt.Sprint(open)
	})
	// A client that disconnects before its request is accepted has started nothing.
	eventually(t, 20*time.Second, "200 executions", func() (bool, string) {
		accepted := s.number("SELECT count(*) FROM component_executions WHERE module = 'API_CALL'")
		return accepted == n, fmt.Sprint(accepted)
	})
	eventually(t, 5*time.Second, "no connection in use while all wait", func() (bool, string) {
		busy := s.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'weft-api' AND state <> 'idle'`)
		return busy == 0, fmt.Sprint(busy)
	})
	hangUp()
	waiting.Wait()
	s.http.CloseIdleConnections()
	left := eventually(t, 10*time.Second, "the waits to be cleaned up", func() (bool, string) {
		values := node.metrics(t)
		now, open := sum(values, "go_goroutines"), sum(values, "weft_inline_waits_open")
		return open == 0 && now <= before+10, fmt.Sprintf("%v waits, %v goroutines, %v before", open, now, before)
	})
	s.upstream.release()
	s.finish(20 * time.Second)
	if done := s.number("SELECT count(*) FROM component_executions WHERE status = 'COMPLETED' AND module = 'API_CALL'"); done != n {
		t.Errorf("%d of %d executions completed after their clients had disconnected", done, n)
	}
	figures.note(t, "%d waits were cleaned up %.1f s after the clients had disconnected; %v goroutines before, %v after", n, left.Seconds(), before, goroutines())
}
