package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/budget"
	"github.com/weft-automation/weft/internal/web/portal"
)

const (
	runPath = "/v1/sdk/workflows/executions/" + executionID
	mebi    = 1 << 20
)

// text returns a JSON string of n bytes.
func text(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("a", n-2) + `"`) }

// serving starts a service whose workspaces may hold share bytes each, and which responds with a
// record of 12 MiB. The record is larger than the socket buffers, so a client that doesn't read
// blocks the service.
func serving(t *testing.T, share int64, progress time.Duration) *service {
	return start(t, func(s *service, _ *http.Server) {
		s.front.memory = &Memory{unknown: budget.New[netip.Addr](mebi, mebi), known: budget.New[uuid.UUID](100*mebi, share)}
		s.connections.Progress = progress
		output := text(12 * mebi)
		s.operations.get = func(context.Context) (api.ComponentExecution, error) {
			return api.ComponentExecution{Output: output}, nil
		}
	})
}

// stall sends a request and reads only the first byte of the response.
func (s *service) stall(t *testing.T, target string) net.Conn {
	t.Helper()
	conn := s.dial(t)
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: a\r\n"+withKey+"\r\n")
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		t.Fatal(err)
	}
	return conn
}

// inFlight waits until responses to workspaces hold n bytes.
func (s *service) inFlight(t *testing.T, n int64) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("answers hold %d bytes", n), func() bool {
		_, known := s.front.memory.Held()
		return known == n
	})
}

func TestStalledReadersAreDisconnected(t *testing.T) {
	s := serving(t, 100*mebi, 50*time.Millisecond)
	conn := s.stall(t, getPath)
	s.inFlight(t, 0)
	if rest, err := io.Copy(io.Discard, conn); rest > mebi || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the disconnect: read %d bytes, %v", rest, err)
	}
}

func TestResponsesInFlightAreLimitedPerWorkspace(t *testing.T) {
	s := serving(t, 10*mebi, time.Hour)
	conn := s.stall(t, getPath)
	got := s.do(t, "GET", getPath, "")
	if got.status != 503 || got.header.Get("Retry-After") == "" || got.problem(t).Code != fault.Unavailable {
		t.Errorf("another large response: %d %.200s", got.status, got.body)
	}
	if got := s.do(t, "GET", executePath, ""); got.status != 200 {
		t.Errorf("small response: %d", got.status)
	}
	s.operations.taken()
	if got := s.do(t, "POST", executePath, envelope("1")); got.status != 503 {
		t.Errorf("request that changes something: %d", got.status)
	}
	if ran := s.operations.taken(); len(ran) != 0 {
		t.Errorf("ran %v", ran)
	}
	conn.Close()
	s.inFlight(t, 0)
	if got := s.do(t, "GET", getPath, ""); got.status != 200 || len(got.body) < 12*mebi {
		t.Errorf("large response after the first was read: %d, %d bytes", got.status, len(got.body))
	}
}

// stages returns a run with count stages of 1 MiB each. It counts the stages that are read.
func stages(ctx context.Context, count int, read *atomic.Int64) wholeRun {
	output := text(mebi)
	return wholeRun{ctx: ctx, log: slog.New(slog.DiscardHandler), stagesFunc: func(context.Context) iter.Seq2[api.RunStage, error] {
		return func(yield func(api.RunStage, error) bool) {
			for range count {
				read.Add(1)
				if !yield(api.RunStage{Output: output}, nil) {
					return
				}
			}
		}
	}}
}

func TestSlowRunReadersHoldOneWindowEach(t *testing.T) {
	var read atomic.Int64
	s := serving(t, 4*recordWindow, time.Hour)
	s.operations.run = func(ctx context.Context) wholeRun { return stages(ctx, 64, &read) }
	var readers []net.Conn
	for range 4 {
		readers = append(readers, s.stall(t, runPath))
	}
	s.inFlight(t, 4*recordWindow)
	for range 20 {
		if got := s.do(t, "GET", runPath, ""); got.status != 503 {
			t.Fatalf("one more reader: %d", got.status)
		}
	}
	if n := read.Load(); n > 4*16+20 {
		t.Errorf("read %d stages ahead of stalled readers", n)
	}
	for _, conn := range readers {
		conn.Close()
	}
	s.inFlight(t, 0)
	if got := s.do(t, "GET", runPath, ""); got.status != 200 || len(got.body) < 64*mebi {
		t.Errorf("a record larger than the share: %d, %d bytes", got.status, len(got.body))
	}
}

func TestSmallRunsHoldNoMemory(t *testing.T) {
	var read atomic.Int64
	s := serving(t, 4*recordWindow, time.Hour)
	s.operations.run = func(ctx context.Context) wholeRun { return stages(ctx, 0, &read) }
	s.front.memory.known.Add(uuid.Max, 100*mebi)
	if got := s.do(t, "GET", runPath, ""); got.status != 200 {
		t.Errorf("while the budget is exhausted: %d %s", got.status, got.body)
	}
}

func TestStreamClosesIfEventExceedsMemory(t *testing.T) {
	memory := &Memory{unknown: budget.New[netip.Addr](mebi, mebi), known: budget.New[uuid.UUID](100*mebi, 10*mebi)}
	all := streams{memory: memory}
	one, other := all.of(auth.Principal{WorkspaceID: uuid.Max}), all.of(auth.Principal{WorkspaceID: uuid.Max})
	release, err := one.count(9 * mebi)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.count(2 * mebi); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("event beyond the share: %v", err)
	}
	if _, err := other.count(100); err != nil {
		t.Errorf("small event: %v", err)
	}
	release()
	if _, known := memory.Held(); known != 0 {
		t.Errorf("%d bytes are still held after the event", known)
	}
}

// Handlers of pages ignore the errors of their writes.
func TestRejectedPagesAreNotEmpty(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) {
		s.front.memory = NewMemory(16 * mebi)
		s.front.mount(s.operations, portal.Handler(nil))
	})
	s.front.memory.unknown.Add(netip.MustParseAddr("192.0.2.1"), 4*mebi)
	for _, path := range []string{"/docs/reference", "/docs/reference.md"} {
		got := s.do(t, "GET", path, "", "Accept-Encoding: identity")
		if got.status != 503 || got.header.Get("Retry-After") == "" || got.problem(t).Code != fault.Unavailable {
			t.Errorf("%s: %d %.100s", path, got.status, got.body)
		}
		if cache := got.header.Get("Cache-Control"); cache != "no-store" {
			t.Errorf("%s: Cache-Control %q", path, cache)
		}
	}
	s.front.memory.unknown.Release(netip.MustParseAddr("192.0.2.1"), 4*mebi)
	if got := s.do(t, "GET", "/docs/reference", ""); got.status != 200 || len(got.body) < mebi/4 {
		t.Errorf("once there is room: %d, %d bytes", got.status, len(got.body))
	}
}

func TestFailureBeforeFirstByteReplacesStatus(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) {
		docs := http.NewServeMux()
		docs.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			panic("late")
		})
		s.front.mount(s.operations, docs)
	})
	if got := s.do(t, "GET", "/docs", ""); got.status != 500 || got.problem(t).Code != fault.Internal {
		t.Errorf("got %d %s", got.status, got.body)
	}
}
