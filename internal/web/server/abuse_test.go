package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/web/protocol"
)

const (
	executePath = "/v1/sdk/components"
	getPath     = "/v1/sdk/components/executions/" + executionID
)

// envelope returns a valid body with this input value.
func envelope(input string) string {
	return `{"module":"HASH","input":{"data":` + input + `},"config":{}}`
}

// sized returns a valid body of exactly n bytes.
func sized(n int) string {
	return envelope(`"` + strings.Repeat("a", n-len(envelope(`""`))) + `"`)
}

func TestAB01BodiesEndAtOneMebibyte(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		size, status int
	}{{maxBody - 1, 200}, {maxBody, 200}, {maxBody + 1, 413}, {2 * maxBody, 413}} {
		if got := s.do(t, "POST", executePath, sized(c.size)); got.status != c.status {
			t.Errorf("%d bytes: %d", c.size, got.status)
		}
	}
	if ran := s.operations.taken(); len(ran) != 2 {
		t.Errorf("ran %v", ran)
	}
}

// Whatever length a request declares, the server reads at most 64 KiB beyond the limit before the
// response, and at most protocol.MaxDiscarded after the response, so that clients that write the
// whole body see the response. Then the server closes the connection.
func TestAB01ReadsNoMoreThanLimit(t *testing.T) {
	const slack, buffer = 64 << 10, 256 << 10
	chunk := "10000\r\n" + strings.Repeat("a", 1<<16) + "\r\n"
	for name, head := range map[string]string{
		"declared": "Content-Length: 1073741824\r\n\r\n",
		"chunked":  "Transfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(s *service, _ *http.Server) { receiveBuffer(t, s.Server.Listener, buffer) })
			conn := s.dial(t)
			if err := conn.(*net.TCPConn).SetWriteBuffer(buffer); err != nil {
				t.Fatal(err)
			}
			var answered atomic.Bool
			var sent atomic.Int64
			go func() {
				io.WriteString(conn, "POST "+executePath+" HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\nContent-Type: application/json\r\n"+head)
				for !answered.Load() && sent.Load() < 1<<30 {
					n, err := io.WriteString(conn, chunk)
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			}()
			replies := repliesOf(conn)
			answered.Store(true)
			if len(replies) != 1 || replies[0].status != 413 || !replies[0].closed {
				t.Fatalf("got %+v", replies)
			}
			if code := replies[0].problem(t).Code; code != fault.PayloadTooLarge {
				t.Errorf("code %s", code)
			}
			// Bytes in the buffers of the kernel count as sent, not as read. The kernel doubles both sizes,
			// and lets a buffer exceed its size by the last packet.
			if n := sent.Load(); n > maxBody+slack+protocol.MaxDiscarded+8*buffer {
				t.Errorf("the server accepted %d bytes", n)
			}
		})
	}
}

// receiveBuffer sets the size of the receive buffers of a listener's connections. The kernel doubles
// it, and no longer lets the buffers grow to many mebibytes.
func receiveBuffer(t *testing.T, listener net.Listener, bytes int) {
	t.Helper()
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if err := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAB01LyingContentLength(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) { s.front.timeouts.body = 200 * time.Millisecond })
	body := envelope(`"x"`)
	head := "POST " + executePath + " HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\nContent-Type: application/json\r\n"
	t.Run("more declared than sent, then the end", func(t *testing.T) {
		got := s.raw(t, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body)+10, body))
		if len(got) != 1 || got[0].status != 400 {
			t.Fatalf("got %+v", got)
		}
	})
	t.Run("more declared than sent, then silence", func(t *testing.T) {
		conn := s.dial(t)
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body)+10, body)
		if got := repliesOf(conn); len(got) != 1 || got[0].status != 400 {
			t.Fatalf("got %+v", got)
		}
	})
	t.Run("less declared than sent", func(t *testing.T) {
		got := s.raw(t, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body)-3, body))
		if len(got) == 0 || got[0].status != 400 || len(got) > 2 || len(got) == 2 && got[1].status != 400 {
			t.Fatalf("got %+v", got)
		}
	})
	if ran := s.operations.taken(); len(ran) != 0 {
		t.Errorf("ran %v", ran)
	}
}

// 500 connections that send single bytes slowly are closed, and an ordinary client isn't slowed
// down. The production timeouts are 5 s and 10 s. The timeouts of this test are shorter by the same
// factor by which its senders are faster.
func TestAB02SlowClientsAreCut(t *testing.T) {
	if readHeaderTimeout != 5*time.Second || defaultTimeouts.body != 10*time.Second {
		t.Errorf("header %s, body %s", readHeaderTimeout, defaultTimeouts.body)
	}
	const factor = 10
	s := start(t, func(s *service, config *http.Server) {
		config.ReadHeaderTimeout = readHeaderTimeout / factor
		s.front.timeouts.body = defaultTimeouts.body / factor
	})
	var alone []time.Duration // baseline, so that a busy machine doesn't fail the test
	for range 100 {
		alone = append(alone, s.healthy(t))
	}
	began := time.Now()
	var slow sync.WaitGroup
	var longest atomic.Int64
	for i := range 500 {
		text := "POST " + executePath + " HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\n"
		if i%2 == 0 {
			text += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
		}
		conn := s.dial(t)
		io.WriteString(conn, text)
		slow.Go(func() {
			drip(conn, time.Second/factor)
			longest.Store(max(longest.Load(), int64(time.Since(began))))
		})
	}
	cut := make(chan struct{})
	go func() { slow.Wait(); close(cut) }()
	var times []time.Duration
	for open := true; open; {
		select {
		case <-cut:
			open = false
		default:
			times = append(times, s.healthy(t))
		}
	}
	if p99, before := p99(times), p99(alone); waittest.Timed() && p99 > max(200*time.Millisecond, 5*before) {
		t.Errorf("p99 of an ordinary client: %s, without slow clients %s", p99, before)
	}
	if d := time.Duration(longest.Load()); waittest.Timed() && d > (defaultTimeouts.body+5*time.Second)/factor+20*time.Second {
		t.Errorf("the last slow client was disconnected after %s", d)
	}
}

// The header timeout starts with the first byte, so a connection opened in advance is still usable
// later. This test sets a timeout of 1 ns, in which no header can be sent.
func TestHeaderTimeoutStartsWithFirstByte(t *testing.T) {
	s := start(t, func(_ *service, config *http.Server) { config.ReadHeaderTimeout = time.Nanosecond })
	ahead, begun := s.dial(t), s.dial(t)
	s.healthy(t)
	io.WriteString(ahead, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if got := repliesOf(ahead); len(got) != 1 || got[0].status != 200 {
		t.Errorf("connection opened ahead: got %+v", got)
	}
	io.WriteString(begun, "GET /healthz HTTP/1.1\r\n")
	if got, err := io.ReadAll(begun); len(got) != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("half a header: got %q, %v", got, err)
	}
}

// healthy sends an ordinary request and returns how long the response took.
func (s *service) healthy(t *testing.T) time.Duration {
	t.Helper()
	sent := time.Now()
	if got := s.do(t, "GET", "/healthz", ""); got.status != 200 {
		t.Fatalf("ordinary request: got %d", got.status)
	}
	return time.Since(sent)
}

func p99(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)*99/100]
}

// drip sends one byte per interval until the connection is closed.
func drip(conn net.Conn, every time.Duration) {
	ended := make(chan struct{})
	go func() { io.Copy(io.Discard, conn); close(ended) }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
			io.WriteString(conn, "X")
		}
	}
}

func TestAB03HeadersAndTargetsHaveLimits(t *testing.T) {
	s := start(t)
	head := "GET " + getPath + " HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\n"
	many := func(n int) (lines string) {
		for i := range n {
			lines += fmt.Sprintf("X-H-%d: v\r\n", i)
		}
		return lines
	}
	for _, c := range []struct {
		name, text string
		status     int
	}{
		{"17 KiB of headers", head + "X-Long: " + strings.Repeat("a", 17<<10) + "\r\n\r\n", 431},
		{"200 headers", head + many(200) + "\r\n", 431},
		{"90 headers", head + many(90) + "\r\n", 200},
		{"9 KiB of target", "GET " + getPath + "?a=" + strings.Repeat("a", 9<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.raw(t, c.text)
			if len(got) != 1 || got[0].status != c.status {
				t.Fatalf("got %+v", got)
			}
		})
	}
}

func TestAB04JSONBombsAreRejectedBeforeDecoding(t *testing.T) {
	s := start(t)
	keys := &strings.Builder{}
	for i := range 100_000 {
		fmt.Fprintf(keys, `"%d":1,`, i)
	}
	bombs := map[string]string{
		"depth 65":      envelope(strings.Repeat("[", 64) + strings.Repeat("]", 64)),
		"depth 10,001":  strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
		"100,001 keys":  envelope("{" + keys.String() + `"last":1}`),
		"1 MiB of {},":  envelope("[" + strings.Repeat("{},", 349_000) + "{}]"),
		"1 MB number":   envelope(strings.Repeat("9", 1_000_000)),
		"1 MB of a key": envelope(`{"` + strings.Repeat("k", 1_000_000) + `":1}`),
	}
	for name, body := range bombs {
		t.Run(name, func(t *testing.T) {
			if len(body) > maxBody {
				t.Fatalf("the bomb has %d bytes", len(body))
			}
			got := s.do(t, "POST", executePath, body)
			if got.status != 400 || got.problem(t).Code != fault.InvalidInput || len(got.body) > 2<<10 {
				t.Errorf("got %d %.300s", got.status, got.body)
			}
		})
	}
	t.Run("50 at once", func(t *testing.T) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { s.do(t, "POST", executePath, bombs["1 MiB of {},"]) })
		}
		all.Wait()
		runtime.ReadMemStats(&after)
		if grown := int64(after.Sys) - int64(before.Sys); grown > 200<<20 {
			t.Errorf("the process grew by %d MiB", grown>>20)
		}
	})
	if ran := s.operations.taken(); len(ran) != 0 {
		t.Errorf("ran %v", ran)
	}
}

// Strings that PostgreSQL can't store are rejected with a pointer, in every field and parameter in
// which a caller can send a string.
func TestAB05UnstorableStringsAreRejected(t *testing.T) {
	s := start(t)
	bad := map[string]string{
		"NUL":            `"a\u0000b"`,
		"lone surrogate": `"\ud800"`,
		"huge number":    "1e131072",
		"invalid UTF-8":  "\"\xff\"",
		"duplicate keys": `{"a":1,"a":2}`,
	}
	places := map[string]struct{ body, pointer string }{
		"module":         {`{"module":%s,"input":{},"config":{}}`, "/module"},
		"input":          {`{"module":"HASH","input":{"data":%s},"config":{}}`, "/input/data"},
		"deep in input":  {`{"module":"HASH","input":{"a":[0,{"b/c":%s}]},"config":{}}`, "/input/a/1/b~1c"},
		"config":         {`{"module":"HASH","input":{},"config":{"a":%s}}`, "/config/a"},
		"attempts":       {`{"module":"HASH","input":{},"config":{},"attempts":%s}`, "/attempts"},
		"callbackUrl":    {`{"module":"HASH","input":{},"config":{},"callbackUrl":%s}`, "/callbackUrl"},
		"callbackSecret": {`{"module":"HASH","input":{},"config":{},"callbackSecret":%s}`, "/callbackSecret"},
		"a header":       {`{"module":"HASH","input":{},"config":{},"callbackHeaders":{"A":%s}}`, "/callbackHeaders/A"},
		"unknown field":  {`{"module":"HASH","input":{},"config":{},"more":%s}`, "/more"},
	}
	for what, value := range bad {
		for where, place := range places {
			t.Run(what+" in "+where, func(t *testing.T) {
				got := s.do(t, "POST", executePath, fmt.Sprintf(place.body, value))
				problem := got.problem(t)
				if got.status != 400 || len(problem.Errors) == 0 {
					t.Fatalf("%d %s", got.status, got.body)
				}
				pointer := problem.Errors[0].Pointer
				if pointer != place.pointer && pointer != place.pointer+"/a" {
					t.Errorf("pointer %s, want %s", pointer, place.pointer)
				}
			})
		}
	}
	for _, name := range []string{`"a\u0000"`, `"\ud800"`, "\"\xff\""} {
		if got := s.do(t, "POST", executePath, envelope("{"+name+":1}")); got.status != 400 {
			t.Errorf("key %q: %d", name, got.status)
		}
	}
	for _, target := range []string{getPath + "%00", "/v1/sdk/components/%00", "/v1/sdk/components/\xff"} {
		if got := s.raw(t, "GET "+target+" HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\nConnection: close\r\n\r\n"); len(got) != 1 || got[0].status != 404 {
			t.Errorf("%q: %+v", target, got)
		}
	}
	for _, line := range []string{"Idempotency-Key: \xff", "Idempotency-Key: \x01", "Idempotency-Key: " + strings.Repeat("k", 256)} {
		if got := s.raw(t, "POST "+executePath+" HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\nConnection: close\r\n"+line+"\r\nContent-Type: application/json\r\nContent-Length: 42\r\n\r\n"+`{"module":"HASH","input":{}, "config":{} }`); len(got) != 1 || got[0].status != 400 {
			t.Errorf("%q: %+v", line, got)
		}
	}
	for _, query := range []string{"cursor=%00", "cursor=%ff", "limit=%00"} {
		if got := s.do(t, "GET", "/v1/sdk/components/executions?"+query, ""); got.status != 400 {
			t.Errorf("%s: %d", query, got.status)
		}
	}
	if ran := s.operations.taken(); len(ran) != 0 {
		t.Errorf("ran %v", ran)
	}
}
