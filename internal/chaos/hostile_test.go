package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/waittest"
)

// hostile is a process under attack, and what attackers need.
type hostile struct {
	*scene
	process *process
	evil    tenant // whose keys the attackers have
}

// attackers each work until ctx ends. An attacker counts on nothing: it goes on after every
// failure. Each one has a network of its own in 127.0.0.0/8, so that the bounds of addresses
// hold for it. A further attacker is a further line.
var attackers = map[string]func(ctx context.Context, h *hostile){
	"unknown callers announce large bodies": largeBodies,
	"silent connections":                    silence,
	"slow readers of large records":         slowReaders,
}

const (
	hostileDescriptors = 512
	hostileMemory      = 512 << 20 // bytes of RSS
	hostileSlowdown    = 3         // of a well-behaved workspace's p95
	hostileTime        = 20 * time.Second
)

// Hostile tenants together leave a well-behaved workspace its speed, and the process its
// memory and its operations listener.
func TestHostileTenantsTogether(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/server.TestBytesOfUnknownCallersAreBoundedByAddressAndInTotal",
		"internal/app.TestSilentConnectionsStopNeitherTheAPINorOperations", "internal/server.TestSlowReadersOfRunsHoldAWindowEach") {
		return
	}
	s := newScene(t, shared)
	limited := filepath.Join(t.TempDir(), "limited")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", hostileDescriptors, program)
	if err := os.WriteFile(limited, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	h := &hostile{scene: s, evil: s.tenants[1]}
	h.process = s.join(s.launchOf(limited, "serve", "WEFT_DRAIN_DELAY=0s"))
	worker := s.start("work")

	alone := h.wellBehaved(t, hostileTime/2)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, attack := range attackers {
		all.Go(func() { attack(ctx, h) })
	}
	attacked := h.wellBehaved(t, hostileTime)
	cancel()
	all.Wait()

	h.hasDefended(t)
	peak := max(peakMemory(t, h.process), peakMemory(t, worker))
	figures.note(t, "%d calls alone: p95 %v; %d under attack: p95 %v; peak memory %d MiB",
		len(alone), p95(alone), len(attacked), p95(attacked), peak>>20)
	for _, p := range []*process{h.process, worker} {
		if p.ended() {
			t.Errorf("%s ended: %v", p.name, p.err)
		}
	}
	if peak >= hostileMemory {
		t.Errorf("a process took %d MiB of memory", peak>>20)
	}
	if p95(attacked) > hostileSlowdown*p95(alone) {
		t.Errorf("a well-behaved workspace's p95 was %v alone and %v under attack", p95(alone), p95(attacked))
	}
}

// wellBehaved executes components for so long and returns how long each call took. Every call
// succeeds, and so does every look at the operations listener.
func (h *hostile) wellBehaved(t *testing.T, length time.Duration) (took []time.Duration) {
	t.Helper()
	c := h.client(h.process, h.tenants[0])
	_, ops := h.process.addresses()
	during(t.Context(), length, 50*time.Millisecond, func() {
		began := time.Now()
		_, _, err := c.Execute(t.Context(), h.request(order{module: "RANDOM_UUID", wait: 10 * time.Second}), http.Header{})
		if took = append(took, time.Since(began)); err != nil {
			t.Errorf("a well-behaved workspace: %v", err)
		}
		if len(took)%20 == 0 {
			answer, err := http.Get(ops + "/healthz")
			if err != nil {
				t.Errorf("the operations listener: %v", err)
				return
			}
			answer.Body.Close()
		}
	})
	return took
}

func p95(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*95/100]
}

// hasDefended checks that the attacks met the bounds: one that reaches none proves nothing.
func (h *hostile) hasDefended(t *testing.T) {
	t.Helper()
	_, ops := h.process.addresses()
	answer, err := http.Get(ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	metrics, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, bound := range []string{`weft_connections_closed_total{reason="evicted"}`, `weft_refusals_total{limit="memory"}`} {
		if !strings.Contains(string(metrics), bound) {
			t.Errorf("no attack met the bound that %s counts", bound)
		}
	}
}

// peakMemory returns the most that a process had resident, in bytes.
func peakMemory(t *testing.T, p *process) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kibibytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kibibytes << 10
}

// swarm runs n copies of act, again and again until ctx ends. Each has an address of the
// network 127.0.<network>.0/24, of which there are addresses, and a connection of its own
// that is closed for it. Between two turns it waits for pause.
func (h *hostile) swarm(ctx context.Context, network byte, addresses, n int, pause time.Duration, act func(conn net.Conn)) {
	base, _ := h.process.addresses()
	workers(ctx, n, func(ctx context.Context, i int) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, network, byte(1+i%addresses))}}
		during(ctx, hostileTime, pause, func() {
			conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				return
			}
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			act(conn)
		})
	})
}

// largeBodies sends most of a body of 1 MiB under a key that does not exist.
func largeBodies(ctx context.Context, h *hostile) {
	head := "POST /v1/sdk/components HTTP/1.1\r\nHost: weft\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n" +
		"X-Api-Key: ws_unknown\r\nX-Sdk-Timestamp: 1700000000\r\nX-Sdk-Signature: " + strings.Repeat("A", 86) + "==\r\n\r\n"
	body := bytes.Repeat([]byte("a"), 900<<10)
	h.swarm(ctx, 1, 8, 60, time.Second, func(conn net.Conn) {
		if _, err := io.WriteString(conn, head); err == nil {
			_, _ = conn.Write(body)
			_, _ = io.Copy(io.Discard, conn)
		}
	})
}

// silence opens connections and sends nothing.
func silence(ctx context.Context, h *hostile) {
	h.swarm(ctx, 2, 20, 600, 500*time.Millisecond, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
}

// slowReaders asks for a record of a mebibyte and reads its first byte.
func slowReaders(ctx context.Context, h *hostile) {
	wanted := api.ExecuteComponentRequest{
		Module: "JSON_STRINGIFY", Config: json.RawMessage(`{}`), WaitForMs: new(int32(10_000)),
		Input: json.RawMessage(`{"value":"` + strings.Repeat("a", 1_000_000) + `"}`),
	}
	record, _, err := h.client(h.process, h.evil).Execute(ctx, wanted, http.Header{})
	if err != nil {
		h.t.Errorf("make a large record: %v", err)
		return
	}
	target := "/v1/sdk/components/executions/" + record.ID.String()
	h.swarm(ctx, 3, 4, 60, 500*time.Millisecond, func(conn net.Conn) { h.readSlowly(ctx, conn, target) })
}

// readSlowly sends a signed GET and holds the connection until the server cuts it, or for as
// long as ctx lasts.
func (h *hostile) readSlowly(ctx context.Context, conn net.Conn, target string) {
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	request := &http.Request{Method: http.MethodGet, Header: http.Header{}}
	h.evil.sign(request.Header, target)
	var head bytes.Buffer
	_ = request.Header.Write(&head)
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: weft\r\n%s\r\n", target, head.Bytes())
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return
	}
	during(ctx, 15*time.Second, time.Second, func() { _, _ = conn.Read(first[:]) })
}

// sign adds the signing headers of a GET.
func (n tenant) sign(header http.Header, target string) {
	n.signer.Sign(header, http.MethodGet, target, nil, time.Now())
}
