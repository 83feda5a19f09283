package callback

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

// trickle writes one byte at a time, slowly, until the peer closes the connection.
func trickle(conn net.Conn, text string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		if _, err := conn.Write([]byte{text[i%len(text)]}); err != nil {
			return
		}
		<-tick.C
	}
}

// flood writes head and then filler until the peer closes the connection. It counts the bytes.
func flood(conn net.Conn, head, filler string, count *atomic.Int64) {
	filler = strings.Repeat(filler, 1+4096/len(filler))
	_, err := io.WriteString(conn, head)
	for err == nil && count.Load() < 1<<30 {
		var n int
		n, err = io.WriteString(conn, filler)
		count.Add(int64(n))
	}
}

// Not parallel: it measures time and memory.
func TestCB06HostileResponsesAreLimitedInTimeAndMemory(t *testing.T) {
	ca := egresstest.NewCA(t)
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: ca.Pool})
	t.Cleanup(guard.Close)
	// Receivers that never respond get a sender with a short timeout. The other attempts finish
	// long before the default timeout.
	senders := map[bool]*Sender{true: NewSender(guard, time.Second), false: NewSender(guard, 0)}
	for name, c := range map[string]struct {
		serve func(net.Conn, *atomic.Int64)
		class string
	}{
		"status line in drops": {func(conn net.Conn, _ *atomic.Int64) { trickle(conn, strings.Repeat("HTTP/1.1 200 OK", 100)) }, egress.ClassTimeout},
		"no answer":            {func(conn net.Conn, _ *atomic.Int64) { _, _ = io.Copy(io.Discard, conn) }, egress.ClassTimeout},
		"headers in drops": {func(conn net.Conn, _ *atomic.Int64) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-A: ")
			trickle(conn, "a")
		}, egress.ClassTimeout},
		"headers of 10 MB":   {func(conn net.Conn, n *atomic.Int64) { flood(conn, "HTTP/1.1 200 OK\r\n", "X-A: aaaaaaa\r\n", n) }, egress.ClassTooLarge},
		"one endless header": {func(conn net.Conn, n *atomic.Int64) { flood(conn, "HTTP/1.1 200 OK\r\nX-A: ", "a", n) }, egress.ClassTooLarge},
		"failure of 1 GB": {func(conn net.Conn, n *atomic.Int64) {
			flood(conn, "HTTP/1.1 500 No\r\nContent-Length: 1073741824\r\n\r\n", "a", n)
		}, egress.ClassStatus},
		"success of 1 GB": {func(conn net.Conn, n *atomic.Int64) {
			flood(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", "a", n)
		}, ""},
		"gzip bomb": {func(conn net.Conn, n *atomic.Int64) {
			flood(conn, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", "400\r\n"+strings.Repeat("\x00", 1024)+"\r\n", n)
		}, ""},
		"success that never ends": {func(conn net.Conn, _ *atomic.Int64) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			trickle(conn, "a")
		}, ""},
	} {
		var wrote atomic.Int64
		address := ca.Raw(t, func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				c.serve(conn, &wrote)
			}
		})
		message := Message{ID: newID(t), URL: "https://" + address, Body: []byte("{}")}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var running sync.WaitGroup
		var took, awaited [50]time.Duration
		for i := range took {
			running.Go(func() {
				started := time.Now()
				out, err := senders[c.class == egress.ClassTimeout].send(t.Context(), message)
				if err != nil || out.class != c.class {
					t.Errorf("%s: class %q, %v", name, out.class, err)
				}
				took[i], awaited[i] = time.Since(started), out.took
			})
		}
		running.Wait()
		// The timeout applies to each attempt. On a busy machine some attempts end later.
		if quickest, slowest := slices.Min(took[:]), slices.Max(took[:]); waittest.Timed() && (quickest > defaultTimeout+time.Second || slowest > defaultTimeout+20*time.Second) {
			t.Errorf("%s: the attempts took %s to %s", name, quickest, slowest)
		}
		if quickest, slowest := slices.Min(awaited[:]), slices.Max(awaited[:]); waittest.Timed() && c.class == egress.ClassTimeout && (quickest > 2*time.Second || slowest > 20*time.Second) {
			t.Errorf("%s: the answers were awaited for %s to %s", name, quickest, slowest)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if rise := int64(after.HeapAlloc) - int64(before.HeapAlloc); rise > 5<<20 {
			t.Errorf("%s: %d bytes of memory kept", name, rise)
		}
		if wrote.Load() >= 1<<30 {
			t.Errorf("%s: everything was read", name)
		}
	}
}

func TestCB12NamesThatResolveInsideFailOnTheSchedule(t *testing.T) {
	t.Parallel()
	silent := egresstest.NewSilent(t)
	names := map[string][]netip.Addr{
		"loopback.test": {netip.MustParseAddr("127.0.0.1")},
		"metadata.test": {netip.MustParseAddr("169.254.169.254")},
		"six.test":      {netip.MustParseAddr("::1")},
		"mixed.test":    {netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")},
	}
	b := newBench(t, options{policy: egress.Policy{
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		Resolver: egresstest.Resolver(t, func(name string) []netip.Addr { return names[name] }),
	}})
	for name := range names {
		f := b.submit(t, wish{url: "https://" + net.JoinHostPort(name, silent.Port()) + "/"})
		b.await(t, 1)
		row := b.row(t, f)
		if class, _ := failure(t, row.LastError); class != egress.ClassBlocked || row.State != stateQueued || row.DueAt == nil {
			t.Errorf("%s: class %q, state %s, due %v", name, class, row.State, row.DueAt)
		}
	}
	if n := silent.Connections(); n != 0 {
		t.Errorf("%d connections to the private address", n)
	}
}

func TestCB13RebindingBetweenAttemptsIsBlocked(t *testing.T) {
	t.Parallel()
	silent := egresstest.NewSilent(t)
	var asked atomic.Int64
	b := newBench(t, options{
		settings: Settings{Schedule: times(20)},
		policy: egress.Policy{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
			Resolver: egresstest.Resolver(t, func(string) []netip.Addr {
				if asked.Add(1) <= 2 { // A and AAAA of the first lookup
					return []netip.Addr{netip.MustParseAddr("127.0.0.2")}
				}
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
			}),
		},
	})
	b.submit(t, wish{url: "https://" + net.JoinHostPort("rebind.test", silent.Port()) + "/"})
	classes := b.await(t, 20)
	if classes[0] != egress.ClassRefused || slices.ContainsFunc(classes[1:], func(c string) bool { return c != egress.ClassBlocked }) {
		t.Errorf("classes %v", classes)
	}
	if n := silent.Connections(); n != 0 {
		t.Errorf("%d connections to the private address", n)
	}
}

func TestCB14RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: times(1)}})
	silent := egresstest.NewSilent(t)
	public := b.receiver(t, nil)
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, target := range []string{"https://" + silent.Address + "/", public.url} {
			r := b.receiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", target)
				w.WriteHeader(code)
			})
			f := b.submit(t, wish{url: r.url})
			b.await(t, 1)
			if class, status := failure(t, b.row(t, f).LastError); class != egress.ClassRedirect || status != code {
				t.Errorf("%d: class %q, status %d", code, class, status)
			}
		}
	}
	if silent.Connections() != 0 || len(public.all()) != 0 {
		t.Errorf("%d and %d requests followed a redirect", silent.Connections(), len(public.all()))
	}
}

func TestCB17NothingOfAResponseIsStoredOrLogged(t *testing.T) {
	t.Parallel()
	const canary = "canary-5b1e77aa"
	b := newBench(t, options{settings: Settings{Schedule: times(2)}, chatty: true})
	r := b.receiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Said", canary)
		w.Header().Set("Retry-After", canary)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, canary)
	})
	broken := b.ca.Raw(t, func(conn net.Conn) { _, _ = io.WriteString(conn, canary+"\r\n\r\n") })
	secret := canary + "-secret"
	headers := map[string]string{"Authorization": canary + "-value"}
	for _, url := range []string{r.url, "https://" + broken + "/"} {
		f := b.submit(t, wish{url: url, secret: &secret, headers: headers})
		b.await(t, 2)
		page, err := b.service.Attempts(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, 10, "")
		if err != nil || strings.Contains(string(page.Data[0].Error), canary) {
			t.Errorf("log of attempts: %s, %v", page.Data[0].Error, err)
		}
	}
	if strings.Contains(b.log.String(), canary) {
		t.Error("it is in the log")
	}
	for _, table := range []string{"callbacks", "callback_attempts", "component_executions", "river.river_job"} {
		var n int
		if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" AS r WHERE r::text LIKE '%"+canary+"%' OR r::text LIKE '%' || encode($1, 'hex') || '%'", []byte(canary)).Scan(&n); err != nil || n != 0 {
			t.Errorf("it is in %d rows of %s, %v", n, table, err)
		}
	}
}

// The test sends 2,000 callbacks (500 while other tests run) to a host whose kernel opens
// connections that the program never accepts. At the same time it sends callbacks of a different
// workspace to a healthy receiver. The dead host does not use TLS: handshakes would use the CPU
// time that the test measures. Not parallel: it measures time.
func TestCB19ADeadHostDoesNotDelayAnotherWorkspace(t *testing.T) {
	lost := waittest.Size(100, 2000)
	for name, here := range map[string]bool{"through the queue": false, "in the finishing process": true} {
		b := newBench(t, options{})
		dead, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer dead.Close()
		wishes := make([]wish, lost)
		for i := range wishes {
			wishes[i].url = "https://" + dead.Addr().String() + "/"
		}
		b.finish(t, here, b.accept(t, wishes...)...)
		delays := b.delays(t, here)
		p95 := delays[len(delays)*95/100]
		t.Logf("%s: p50 %s, p95 %s, max %s", name, delays[len(delays)/2], p95, delays[len(delays)-1])
		if waittest.Timed() && p95 > 2*time.Second {
			t.Errorf("%s: p95 of the healthy receiver is %s", name, p95)
		}
	}
}

// delays sends callbacks of a second workspace to a healthy receiver and returns their delays,
// sorted.
func (b *bench) delays(t *testing.T, here bool) []time.Duration {
	t.Helper()
	healthyOnes := waittest.Size(40, 200)
	var mu sync.Mutex
	at := make(map[string]time.Time)
	arrived := make(chan struct{}, 1000)
	healthy := b.receiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		at[r.Header.Get("X-Svc-Execution-Id")] = time.Now()
		mu.Unlock()
		arrived <- struct{}{}
	})
	tenant := newID(t)
	started := make(map[uuid.UUID]time.Time)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range healthyOnes {
		f := b.accept(t, wish{workspace: tenant, url: healthy.url})[0]
		b.finish(t, here, f)
		started[f.ID] = time.Now()
		<-tick.C
	}
	for range healthyOnes {
		<-arrived
	}
	var delays []time.Duration
	for id, from := range started {
		delays = append(delays, at[id.String()].Sub(from))
	}
	slices.Sort(delays)
	return delays
}
