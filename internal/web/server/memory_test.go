package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/budget"
)

// dialFrom opens a raw connection from an address of the loopback network.
func (s *service) dialFrom(t testing.TB, source string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(waittest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// announce sends the head of a request with a body of a mebibyte, and the first n bytes of the
// body.
func announce(conn net.Conn, n int, header ...string) {
	head := "POST " + executePath + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + strings.Join(header, "")
	fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, maxBody, strings.Repeat("a", n))
}

const withKey = "X-Api-Key: ws_test\r\n"

// held waits until unauthenticated callers hold n bytes.
func (s *service) held(t testing.TB, n int64) {
	t.Helper()
	for t.Context().Err() == nil {
		if got, _ := s.front.memory.Held(); got == n {
			return
		}
		s.healthy(t.(*testing.T))
	}
	got, _ := s.front.memory.Held()
	t.Fatalf("unauthenticated callers hold %d bytes, want %d", got, n)
}

func TestSigningHeadersAreCheckedBeforeTheBodyArrives(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) {
		s.front.timeouts.body = time.Hour
		s.front.precheck = func(header http.Header, _ netip.Addr) error {
			if header.Get(auth.HeaderKey) == "" {
				return &fault.Error{Code: fault.Unauthorized, Reason: "missing_api_key", Message: "X-Api-Key is missing"}
			}
			return nil
		}
	})
	conn := s.dial(t)
	announce(conn, 10)
	if got := firstReply(t, conn); got.status != 401 {
		t.Errorf("got %+v", got)
	}
}

// offered is a body of n bytes that records the largest buffer that it was read into.
type offered struct{ left, largest int }

func (o *offered) Read(p []byte) (int, error) {
	o.largest = max(o.largest, len(p))
	if o.left == 0 {
		return 0, io.EOF
	}
	n := min(o.left, len(p), 1000)
	o.left -= n
	return n, nil
}

func TestBufferGrowsAsBytesArrive(t *testing.T) {
	for _, size := range []int{0, 1, smallBody, smallBody + 1, 100_000, maxBody} {
		memory := NewMemory(DefaultMemory)
		hold, body := memory.hold(netip.MustParseAddr("192.0.2.1")), &offered{left: size}
		got, err := receive(body, -1, hold)
		if err != nil || len(got) != size {
			t.Errorf("%d bytes: received %d, %v", size, len(got), err)
		}
		if body.largest > max(smallBody, size) {
			t.Errorf("%d bytes: largest buffer has %d", size, body.largest)
		}
		if hold.bytes > uncounted && hold.bytes > int64(2*size) {
			t.Errorf("%d bytes: hold counts %d", size, hold.bytes)
		}
	}
	if _, err := receive(&offered{left: maxBody + 1}, -1, NewMemory(DefaultMemory).hold(netip.Addr{})); fault.CodeOf(err) != fault.PayloadTooLarge {
		t.Errorf("one byte beyond the limit: %v", err)
	}
}

func TestAnnouncedBodiesHoldNoMemory(t *testing.T) {
	s := start(t)
	for range 200 {
		announce(s.dial(t), 10, withKey)
	}
	s.healthy(t)
	if unknown, known := s.front.memory.Held(); unknown != 0 || known != 0 {
		t.Errorf("unauthenticated callers hold %d bytes and workspaces %d, want 0", unknown, known)
	}
}

// Each connection sends 100,000 bytes, for which a buffer of 128 KiB is reserved. In this test all
// addresses may hold 1 MiB, and one address may hold a quarter of the memory that the others leave
// free.
func TestUnauthenticatedBytesAreLimitedByAddressAndInTotal(t *testing.T) {
	const sent, reserved = 100_000, 128 << 10
	s := start(t, func(s *service, _ *http.Server) {
		s.front.memory = NewMemory(4 << 20)
		s.front.timeouts.body = time.Hour
	})
	var open []net.Conn
	fill := func(source string, connections int) {
		for range connections {
			conn := s.dialFrom(t, source)
			open = append(open, conn)
			announce(conn, sent, withKey)
			s.held(t, int64(len(open))*reserved)
		}
	}
	refused := func(what, source string) {
		conn := s.dialFrom(t, source)
		announce(conn, sent, withKey)
		got := firstReply(t, conn)
		if got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: got %+v", what, got)
		} else if problem := got.problem(t); problem.Code != fault.Unavailable || !problem.Retryable {
			t.Errorf("%s: %+v", what, problem)
		}
	}
	fill("127.0.0.2", 2)
	refused("an address with its share", "127.0.0.2")
	fill("127.0.0.3", 1)
	refused("the next address with its smaller share", "127.0.0.3")
	fill("127.0.0.4", 1)
	fill("127.0.0.5", 1)
	refused("another address while much is held", "127.0.0.6")
	if got := s.do(t, "POST", executePath, sized(uncounted-1)); got.status != 200 {
		t.Errorf("small request while the budget is exhausted: %d %s", got.status, got.body)
	}
	for _, conn := range open {
		conn.Close()
	}
	s.held(t, 0)
}

func TestBytesThroughProxyCountForClient(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) {
		s.front.memory = NewMemory(16 << 20)
		s.front.proxies = auth.Proxies{netip.MustParsePrefix("127.0.0.1/32")}
	})
	for i := range 3 {
		announce(s.dial(t), 200_000, withKey, fmt.Sprintf("X-Forwarded-For: 192.0.2.%d\r\n", i))
		s.held(t, int64(i+1)*256<<10)
	}
}

func TestAuthenticatedBytesCountForWorkspace(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := start(t, func(s *service, _ *http.Server) {
		s.front.memory = &Memory{unknown: budget.New[netip.Addr](8<<20, 8<<20), known: budget.New[uuid.UUID](8<<20, 2<<20)}
		s.operations.execute = func() error { entered <- struct{}{}; <-leave; return nil }
	})
	results := make(chan reply, 4)
	send := func() { results <- s.do(t, "POST", executePath, sized(1_000_000)) }
	go send()
	<-entered
	if unknown, known := s.front.memory.Held(); unknown != 0 || known != maxBody+1 {
		t.Errorf("while a request is handled, unauthenticated callers hold %d bytes and workspaces %d", unknown, known)
	}
	if got := s.do(t, "POST", executePath, sized(1_000_000)); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("request beyond the share of the workspace: %d %s", got.status, got.body)
	}
	close(leave)
	if got := <-results; got.status != 200 {
		t.Errorf("the first request: %d %s", got.status, got.body)
	}
	go send()
	<-entered
	if got := <-results; got.status != 200 {
		t.Errorf("a request after it: %d %s", got.status, got.body)
	}
}

// The body deadline also applies to a body that isn't read. After it, the connection is closed.
func TestUnreadBodiesHaveDeadline(t *testing.T) {
	for _, target := range []string{"/nothing", "/healthz", executePath + "/RANDOM_UUID"} {
		s := start(t, func(s *service, _ *http.Server) { s.front.timeouts.body = 50 * time.Millisecond })
		conn := s.dial(t)
		fmt.Fprintf(conn, "DELETE %s HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n", target)
		if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 4") {
			t.Errorf("%s: got %q, %v", target, got, err)
		}
	}
}
