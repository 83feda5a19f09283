package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Many clients, such as Python's http.client, write the whole body before they read. They see
// an error response only if the server reads the rest of the body.
func TestClientsThatWriteWholeBodySeeErrorResponse(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) {
		s.front.precheck = func(header http.Header, _ netip.Addr) error {
			if header.Get(auth.HeaderKey) == "" {
				return &fault.Error{Code: fault.Unauthorized, Reason: "missing_api_key", Message: "X-Api-Key is missing"}
			}
			return nil
		}
	})
	const size = 3 << 20
	declared := fmt.Sprintf("Content-Length: %d\r\n\r\n", size) + strings.Repeat("a", size)
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n"+strings.Repeat("a", 1<<16)+"\r\n", size>>16) + "0\r\n\r\n"
	for _, c := range []struct {
		name, target, header, body string
		status                     int
	}{
		{"too large, declared", executePath, withKey, declared, 413},
		{"too large, chunked", executePath, withKey, chunked, 413},
		{"a header is missing", executePath, "", declared, 401},
		{"a header is missing, chunked", executePath, "", chunked, 401},
		{"unknown path", "/nothing", withKey, declared, 404},
		{"within the limit", executePath, "", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", maxBody, strings.Repeat("a", maxBody)), 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := s.dial(t)
			narrow(t, conn)
			text := "POST " + c.target + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + c.header + c.body
			if n, err := io.WriteString(conn, text); err != nil {
				t.Fatalf("wrote only %d of %d bytes: %v", n, len(text), err)
			}
			got := repliesOf(conn)
			if len(got) != 1 || got[0].status != c.status || got[0].problem(t).Status != int32(c.status) || !got[0].closed {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// narrow shrinks the socket buffers, so that they can't hold the whole body.
func narrow(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.(*net.TCPConn).SetWriteBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
}

// While the rest of a body is discarded, it holds no memory, and its connection can be evicted.
func TestDiscardedBodiesHoldNoMemory(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) {
		s.front.timeouts.body = time.Hour
		s.connections.PerAddress = 1
	})
	conn := s.dial(t)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\n%sTransfer-Encoding: chunked\r\n\r\n", executePath, withKey)
	for range 2*maxBody>>16 + 1 {
		fmt.Fprintf(conn, "10000\r\n%s\r\n", strings.Repeat("a", 1<<16))
	}
	if got := firstReply(t, conn); got.status != 413 {
		t.Fatalf("got %+v", got)
	}
	if unknown, known := s.front.memory.Held(); unknown != 0 || known != 0 {
		t.Errorf("unauthenticated callers hold %d bytes and workspaces %d, want 0", unknown, known)
	}
	s.healthy(t) // over a connection that evicts the first one
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("connection is still open after eviction: %v", err)
	}
}

// The deadline of the body also applies to the part that is discarded.
func TestDiscardingStopsAtBodyDeadline(t *testing.T) {
	for name, head := range map[string]string{
		"declared": fmt.Sprintf("Content-Length: %d\r\n\r\n", 2*maxBody),
		"chunked":  "Transfer-Encoding: chunked\r\n\r\n",
	} {
		s := start(t, func(s *service, _ *http.Server) { s.front.timeouts.body = 50 * time.Millisecond })
		conn := s.dial(t)
		fmt.Fprintf(conn, "POST /nothing HTTP/1.1\r\nHost: a\r\n%s", head)
		if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 404") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// A client that waits for 100 Continue need not send the body after an error response.
func TestBodyWithoutContinueIsNotDiscarded(t *testing.T) {
	for name, head := range map[string]string{
		"small":   "Content-Length: 9\r\n\r\n",
		"large":   fmt.Sprintf("Content-Length: %d\r\n\r\n", 2*maxBody),
		"chunked": "Transfer-Encoding: chunked\r\n\r\n",
	} {
		s := start(t, func(s *service, _ *http.Server) { s.front.timeouts.body = time.Hour })
		conn := s.dial(t)
		fmt.Fprintf(conn, "POST /nothing HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n%s", head)
		if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 404") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
