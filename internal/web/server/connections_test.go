package server

import (
	"context"
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

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

const health = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"

// bounded starts a service whose listener has these limits.
func bounded(t *testing.T, limits Connections, change ...func(*service)) *service {
	return start(t, func(s *service, _ *http.Server) {
		limits.Log = s.connections.Log
		s.connections = limits
		for _, c := range change {
			c(s)
		}
	})
}

func (s *service) connected() int { return s.Listener.(*boundedListener).count() }

// cut reports whether the server has closed the connection without a response. It waits until the
// connection is closed, or the response to a health check arrives.
func cut(t *testing.T, conn net.Conn) bool {
	t.Helper()
	_, _ = io.WriteString(conn, health)
	var first [1]byte
	_, err := conn.Read(first[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection is open, but no response arrived")
	}
	return err != nil
}

func TestSilentConnectionsOfAnAddressDisplaceEachOther(t *testing.T) {
	s := bounded(t, Connections{Max: 100, PerAddress: 4})
	var silent []net.Conn
	for range 10 {
		silent = append(silent, s.dialFrom(t, "127.0.0.2"))
	}
	if cut(t, s.dialFrom(t, "127.0.0.3")) {
		t.Error("another address was not served")
	}
	if open := s.connected(); open > 5 {
		t.Errorf("%d connections are open", open)
	}
	for i, conn := range silent {
		if got, want := cut(t, conn), i < 6; got != want {
			t.Errorf("connection %d: closed is %v, want %v", i, got, want)
		}
	}
}

func TestNewcomersDisplaceSilentConnectionsOfTheLargestAddress(t *testing.T) {
	s := bounded(t, Connections{Max: 8, PerAddress: 6})
	small := s.dialFrom(t, "127.0.0.2")
	for range 20 {
		s.dialFrom(t, "127.0.0.3")
		s.dialFrom(t, "127.0.0.4")
	}
	for i := range 5 {
		if cut(t, s.dialFrom(t, fmt.Sprintf("127.0.1.%d", i+1))) {
			t.Errorf("new connection %d was not served", i)
		}
	}
	if cut(t, small) {
		t.Error("the only connection of an address was evicted in favor of addresses with more")
	}
	if open := s.connected(); open > 8 {
		t.Errorf("%d connections are open", open)
	}
}

// An incomplete header doesn't count as a request.
func TestConnectionsWithHalfAHeaderMakeRoom(t *testing.T) {
	s := bounded(t, Connections{Max: 3, PerAddress: 3})
	for range 3 {
		_, _ = io.WriteString(s.dialFrom(t, "127.0.0.2"), "GET /healthz HTTP/1.1\r\n")
	}
	if cut(t, s.dialFrom(t, "127.0.0.3")) {
		t.Error("new connection was not served")
	}
}

// The server doesn't work on a request before its body has arrived, so its connection can be
// evicted.
func TestConnectionsWithHalfABodyMakeRoom(t *testing.T) {
	s := bounded(t, Connections{Max: 3, PerAddress: 3})
	for range 3 {
		conn := s.dialFrom(t, "127.0.0.2")
		_, _ = io.WriteString(conn, "POST /v1/sdk/components HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"+withKey+"\r\n")
		var sent [len("HTTP/1.1 100 Continue")]byte
		if _, err := io.ReadFull(conn, sent[:]); err != nil || string(sent[:]) != "HTTP/1.1 100 Continue" {
			t.Fatalf("the service doesn't wait for the body: %q, %v", sent[:], err)
		}
		_, _ = io.WriteString(conn, "{")
	}
	if cut(t, s.dialFrom(t, "127.0.0.3")) {
		t.Error("new connection was not served")
	}
}

func TestRequestsAreNotDisplaced(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := bounded(t, Connections{Max: 2, PerAddress: 2}, func(s *service) {
		s.operations.get = func(context.Context) (api.ComponentExecution, error) {
			entered <- struct{}{}
			<-leave
			return api.ComponentExecution{}, nil
		}
	})
	var busy []net.Conn
	for range 2 {
		conn := s.dialFrom(t, "127.0.0.2")
		_, _ = io.WriteString(conn, "GET "+getPath+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+withKey+"\r\n")
		<-entered
		busy = append(busy, conn)
	}
	if !cut(t, s.dialFrom(t, "127.0.0.3")) {
		t.Error("accepted a connection beyond the limit")
	}
	if !strings.Contains(s.logs.String(), "closed connections over the limit") {
		t.Error("nothing was logged")
	}
	close(leave)
	for _, conn := range busy {
		if got := repliesOf(conn); len(got) != 1 || got[0].status != 200 {
			t.Errorf("request in flight: got %+v", got)
		}
	}
}

func TestProxiesHaveNoAddressLimit(t *testing.T) {
	proxies := auth.Proxies{netip.MustParsePrefix("127.0.0.2/32")}
	s := bounded(t, Connections{Max: 10, PerAddress: 2, ExemptFunc: proxies.Trusts})
	var kept []net.Conn
	for range 8 {
		kept = append(kept, s.dialFrom(t, "127.0.0.2"))
	}
	for range 20 {
		s.dialFrom(t, "127.0.0.3")
	}
	for i, conn := range kept {
		if cut(t, conn) {
			t.Errorf("connection %d of the proxy was closed", i)
		}
	}
}

func TestIdleConnectionsMakeRoomAfterTheirRequest(t *testing.T) {
	s := bounded(t, Connections{Max: 3, PerAddress: 3})
	for range 3 {
		if cut(t, s.dialFrom(t, "127.0.0.2")) {
			t.Fatal("a connection was not served")
		}
	}
	for range 5 {
		if cut(t, s.dialFrom(t, "127.0.0.3")) {
			t.Error("new connection was not served")
		}
	}
}

func TestOpenStreamsCountAsConnections(t *testing.T) {
	events := make(chan api.ComponentExecutionEvent)
	s := bounded(t, Connections{Max: 10, PerAddress: 1}, func(s *service) {
		s.operations.stream = func(context.Context) (api.StreamComponentExecutionResponseObject, error) {
			return executionStream(context.Background(), func() {}, events, streams{log: s.front.log}), nil
		}
	})
	stream := s.dialFrom(t, "127.0.0.2")
	_, _ = io.WriteString(stream, "GET "+getPath+"/stream HTTP/1.1\r\nHost: a\r\n"+withKey+"\r\n")
	var first [1]byte
	if _, err := io.ReadFull(stream, first[:]); err != nil {
		t.Fatal(err)
	}
	if !cut(t, s.dialFrom(t, "127.0.0.2")) {
		t.Error("a second connection was accepted next to the stream")
	}
	close(events)
	_, _ = io.Copy(io.Discard, stream)
	stream.Close()
	waittest.Until(t, "the stream is counted no more", func() bool { return s.connected() == 0 })
	if cut(t, s.dialFrom(t, "127.0.0.2")) {
		t.Error("a connection after the stream was not accepted")
	}
}

// stalled returns how many connections of an address have a client that doesn't read the response.
func (s *service) stalled(address string) (count int) {
	l := s.Listener.(*boundedListener)
	l.mu.Lock()
	defer l.mu.Unlock()
	if from := l.sources[netip.MustParseAddr(address)]; from != nil {
		for e := from.waiting.Front(); e != nil; e = e.Next() {
			if e.Value.(*countedConn).waits&forReader != 0 {
				count++
			}
		}
	}
	return count
}

// pipeline fills a connection with requests for a large record and doesn't read the responses.
func (s *service) pipeline(t *testing.T, address string) net.Conn {
	t.Helper()
	conn := s.dialFrom(t, address)
	_, _ = io.WriteString(conn, strings.Repeat("GET "+getPath+" HTTP/1.1\r\nHost: a\r\n"+withKey+"\r\n", 100))
	return conn
}

// largeRecord makes the service respond with a record that exceeds the socket buffers.
func largeRecord(s *service) {
	output := text(12 * mebi)
	s.front.memory = NewMemory(1 << 30)
	s.operations.get = func(context.Context) (api.ComponentExecution, error) {
		return api.ComponentExecution{Output: output}, nil
	}
}

func TestResponsesWithoutProgressMakeRoom(t *testing.T) {
	s := bounded(t, Connections{Max: 3, PerAddress: 3, Stall: time.Millisecond, Progress: time.Hour}, largeRecord)
	var unread []net.Conn
	for i := range 3 {
		unread = append(unread, s.pipeline(t, "127.0.0.2"))
		waittest.Until(t, "the client to stall the response", func() bool { return s.stalled("127.0.0.2") == i+1 })
	}
	if cut(t, s.dialFrom(t, "127.0.0.3")) {
		t.Error("new connection was not served")
	}
	if got := s.stalled("127.0.0.2"); got != 2 {
		t.Errorf("%d stalled connections are open, want 2", got)
	}
	if _, err := io.Copy(io.Discard, unread[0]); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection that stalled first is still open: %v", err)
	}
}

func TestResponsesInProgressAreNotDisplaced(t *testing.T) {
	s := bounded(t, Connections{Max: 2, PerAddress: 2, Stall: time.Hour, Progress: time.Hour}, largeRecord)
	var slow []net.Conn
	for range 2 {
		conn := s.pipeline(t, "127.0.0.2")
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	if !cut(t, s.dialFrom(t, "127.0.0.3")) {
		t.Error("a new connection displaced a response that made progress")
	}
	for _, conn := range slow {
		if _, err := io.CopyN(io.Discard, conn, 12*mebi); err != nil {
			t.Error(err)
		}
	}
}

// The write timeout of net/http starts again with each request, so it doesn't end a pipeline of
// small responses that nobody reads.
func TestUnreadSmallResponsesAreDisconnected(t *testing.T) {
	s := start(t, func(s *service, config *http.Server) {
		config.WriteTimeout = time.Hour
		s.connections.Progress = 50 * time.Millisecond
	})
	conn := s.dial(t)
	for requests := strings.Repeat(health, 1000); ; {
		if _, err := io.WriteString(conn, requests); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection is still open")
		} else if err != nil {
			return
		}
	}
}
