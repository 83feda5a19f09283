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
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// hostile is a process under attack, and what the attackers use.
type hostile struct {
	*scene
	process *process
	evil    tenant // the attacker's own workspace
}

// attacker attacks until ctx is done and continues after every failure. Each attacker has its own
// workspace and its own network in 127.0.0.0/8, so that limits by address apply to each attacker
// separately.
type attacker struct {
	credits int64 // of its workspace at the start
	attack  func(ctx context.Context, h *hostile)
	check   func(t *testing.T, h *hostile) // after all attacks: checks that the limit was reached and enforced; may be nil
}

// To add an attacker, add an entry.
var attackers = map[string]attacker{
	"unknown callers announce large bodies": {attack: largeBodies},
	"silent connections":                    {attack: silence},
	"slow readers of large records":         {attack: slowReaders, credits: 1_000},
	"free storage by loops and runs":        {attack: storeForFree, check: storageIsBounded},
	"inputs with 32,000 faults":             {attack: sendFaults, check: faultsAreCounted},
	"slow receiver of callbacks":            {attack: receiveSlowly, check: callbacksOvertake, credits: 1_000},
	"trees of runs that are canceled":       {attack: cancelTrees, check: treesAreFinal},
}

const (
	hostileDescriptors = 512
	hostileMemory      = 512 << 20 // bytes of RSS
	hostileSlowdown    = 3         // of a well-behaved workspace's p95
	hostileTime        = 20 * time.Second
)

// All attackers together neither slow down a well-behaved workspace nor exhaust the process's memory
// or its operations listener.
func TestHostileTenantsTogether(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/web/server.TestUnauthenticatedBytesAreLimitedByAddressAndInTotal",
		"internal/program/app.TestSilentConnectionsDoNotBlockAPIOrOperations", "internal/web/server.TestSlowRunReadersHoldOneWindowEach",
		"internal/workflow/run.TestFreeStorageOfOneTriggerIsBounded", "internal/workflow.TestInputCheckStopsAfterHundredErrors",
		"internal/execution/callback.TestASlowReceiverDoesNotDelayAnotherWorkspaceAtTheSameHost", "internal/workflow/run.TestCancelEndsTreeThatGrows") {
		return
	}
	s := newScene(t, shared)
	limited := filepath.Join(t.TempDir(), "limited")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", hostileDescriptors, program)
	if err := os.WriteFile(limited, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{})
	s.receiver.answer = slowly(released)
	h := &hostile{scene: s, process: s.join(s.launchOf(limited, "serve", "WEFT_DRAIN_DELAY=0s"))}
	worker := s.start("work")

	// The same service runs at the same time on the same machine without attackers. Its slowdown
	// shows the load of the machine.
	untouched := &hostile{scene: newScene(t, shared)}
	untouched.process = untouched.start("serve")
	untouched.start("work")

	alone, _ := wellBehaved(t, hostileTime/2, h, untouched)
	worked := cpuTime(t, h.process) + cpuTime(t, worker)
	hostiles := h.attackers()
	attacked, meanwhile := h.attackedBy(t, hostiles, untouched)
	worked = cpuTime(t, h.process) + cpuTime(t, worker) - worked
	h.checkLimitsReached(t)
	for name, of := range hostiles {
		if check := attackers[name].check; check != nil {
			t.Run(name, func(t *testing.T) { check(t, of) })
		}
	}
	close(released)
	h.settles()
	s.finish(time.Minute)
	h.checkProcesses(t, worker, worked)
	figures.note(t, "p95 alone %v, under attack %v (%d calls), of the service without attackers meanwhile %v",
		p95(alone), p95(attacked), len(attacked), p95(meanwhile))
	if p95(attacked) > hostileSlowdown*max(p95(alone), p95(meanwhile)) {
		t.Errorf("a well-behaved workspace's p95 was %v alone and %v under attack, and %v meanwhile without attackers", p95(alone), p95(attacked), p95(meanwhile))
	}
}

// checkProcesses checks that no process exited, and how much memory and CPU time the attacks used.
func (h *hostile) checkProcesses(t *testing.T, worker *process, worked time.Duration) {
	t.Helper()
	for _, p := range []*process{h.process, worker} {
		if p.ended() {
			t.Fatalf("%s exited: %v", p.name, p.err)
		}
		peak := peakMemory(t, p)
		figures.note(t, "peak memory of %s: %d MiB", p.name, peak>>20)
		if peak >= hostileMemory {
			t.Errorf("%s used %d MiB of memory", p.name, peak>>20)
		}
	}
	figures.note(t, "CPU time under attack: %v of %v", worked, hostileTime)
	if worked > hostileTime {
		t.Errorf("the attacks used %v of CPU time in %v, more than one core", worked, hostileTime)
	}
}

// attackers creates a workspace for each attacker.
func (h *hostile) attackers() map[string]*hostile {
	h.t.Helper()
	all := map[string]*hostile{}
	for name, a := range attackers {
		all[name] = &hostile{scene: h.scene, process: h.process, evil: h.newTenantWith(name, credit.Credits(a.credits))}
	}
	return all
}

// attackedBy runs all attackers. It returns the durations of the well-behaved workspace's calls
// during the attack, to this service and to the service without attackers.
func (h *hostile) attackedBy(t *testing.T, hostiles map[string]*hostile, untouched *hostile) (attacked, meanwhile []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for name, of := range hostiles {
		all.Go(func() { attackers[name].attack(ctx, of) })
	}
	attacked, meanwhile = wellBehaved(t, hostileTime, h, untouched)
	cancel()
	all.Wait()
	return attacked, meanwhile
}

// wellBehaved executes components in two services concurrently.
func wellBehaved(t *testing.T, length time.Duration, first, second *hostile) (tookFirst, tookSecond []time.Duration) {
	t.Helper()
	var both sync.WaitGroup
	both.Go(func() { tookFirst = first.wellBehaved(t, length) })
	both.Go(func() { tookSecond = second.wellBehaved(t, length) })
	both.Wait()
	return tookFirst, tookSecond
}

// wellBehaved executes components with callbacks for a time and returns how long each call took.
// Every call must succeed, and so must every request to the operations listener.
func (h *hostile) wellBehaved(t *testing.T, length time.Duration) (took []time.Duration) {
	t.Helper()
	_, ops := h.process.addresses()
	during(t.Context(), length, 50*time.Millisecond, func() {
		began := time.Now()
		_, err := h.submit(t.Context(), h.process, order{module: "RANDOM_UUID", wait: 10 * time.Second, callback: true})
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

// checkLimitsReached checks that the attacks reached the limits. An attack that reaches no limit
// proves nothing.
func (h *hostile) checkLimitsReached(t *testing.T) {
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
			t.Errorf("no attack reached the limit counted by %s", bound)
		}
	}
}

// peakMemory returns the peak resident memory of a process in bytes.
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

// cpuTime returns the CPU time that a process has used.
func cpuTime(t *testing.T, p *process) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks int64 // ticks of 10 ms, in user and kernel mode
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// swarm runs n copies of act repeatedly until ctx is done. Each copy connects from one of the given
// number of addresses in 127.0.<network>.0/24, closes its connection after act, and pauses before
// the next repetition.
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

// largeBodies sends most of a body of 1 MiB with an unknown key.
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
	h.swarm(ctx, 2, 20, 600, 2*time.Second, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
}

// slowReaders requests a record of a mebibyte and reads only its first byte.
func slowReaders(ctx context.Context, h *hostile) {
	wanted := api.ExecuteComponentRequest{
		Module: "JSON_STRINGIFY", Config: json.RawMessage(`{}`), WaitForMs: new(int32(10_000)),
		Input: json.RawMessage(`{"value":"` + strings.Repeat("a", 1_000_000) + `"}`),
	}
	record, _, err := h.client(h.process, h.evil).Execute(ctx, wanted, http.Header{})
	if err != nil {
		h.t.Errorf("create a large record: %v", err)
		return
	}
	target := "/v1/sdk/components/executions/" + record.ID.String()
	h.swarm(ctx, 3, 4, 60, 500*time.Millisecond, func(conn net.Conn) { h.readSlowly(ctx, conn, target) })
}

// readSlowly sends a signed GET and holds the connection until the server closes it or ctx is done.
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
