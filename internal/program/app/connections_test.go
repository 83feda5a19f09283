package app

import (
	"context"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestDescriptorLimitLeavesAReserve(t *testing.T) {
	for _, c := range []struct {
		descriptors uint64
		workers     int
		want        int
	}{
		{256, 100, 128}, {1024, 100, 632}, {4096, 100, 3072}, {65536, 100, mostConnections}, {4096, 1500, 2048}, {1 << 62, 100, mostConnections},
	} {
		if got := connectionsFor(c.descriptors, c.workers); got != c.want {
			t.Errorf("%d descriptors and %d workers: %d connections, want %d", c.descriptors, c.workers, got, c.want)
		}
	}
}

func TestTooManyConnectionsForTheDescriptorLimitPreventStart(t *testing.T) {
	a := &App{cfg: Config{Connections: 1 << 40}}
	if _, err := a.connections(nil); err == nil || !strings.Contains(err.Error(), "WEFT_CONNECTIONS") {
		t.Errorf("got %v", err)
	}
}

// Silent connections from several addresses use up the connections of the API's listener. The API
// still serves new clients, and the operations listener responds.
func TestSilentConnectionsDoNotBlockAPIOrOperations(t *testing.T) {
	w := startWhole(t, func(c *Config) { c.Connections = 24 })
	api := strings.TrimPrefix(w.app.URL(), "http://")
	for i := range 120 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%6))}}
		conn, err := dialer.DialContext(t.Context(), "tcp", api)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	for _, url := range []string{w.app.URL() + "/healthz", w.app.OpsURL() + "/healthz"} {
		request, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
		answer, err := fresh.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", url, answer.StatusCode)
		}
	}
}

func TestALowDescriptorLimitBlamesOnlyWhatWasSet(t *testing.T) {
	for _, c := range []struct {
		connections int
		descriptors uint64
		want        string // "": no error
	}{
		{0, 64, "the file descriptor limit of 64 is too low: Weft needs at least 193"},
		{10, 64, "the file descriptor limit of 64 is too low: Weft needs at least 193"},
		{500, 512, "WEFT_CONNECTIONS: the file descriptor limit of 512 allows at most 320 connections"},
		{0, 256, ""}, {320, 512, ""},
	} {
		err := Config{Connections: c.connections}.fit(c.descriptors)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%d connections with %d descriptors: %v, want %q", c.connections, c.descriptors, err, c.want)
		}
	}
}

func TestBufferMemoryFitsIntoTheMemoryLimit(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ configured, limit, want int64 }{
		{0, math.MaxInt64, 128}, {512 * mib, math.MaxInt64, 512},
		{0, 1024 * mib, 128}, {0, 240 * mib, 80}, {512 * mib, 240 * mib, 80}, {72 * mib, 240 * mib, 72}, {0, 115 * mib, 64},
	} {
		if got := bufferMemory(c.configured, c.limit); got != c.want*mib {
			t.Errorf("%d MiB configured, limit %d MiB: %d MiB, want %d", c.configured/mib, c.limit/mib, got/mib, c.want)
		}
	}
}
