package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// closedServer returns the address of the database at dsn on a port at which nothing listens, and
// a function that starts a relay to the server there.
func closedServer(t *testing.T, dsn string) (address string, open func()) {
	t.Helper()
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := held.Addr().String()
	held.Close()
	relayed, err := url.Parse(pgtest.NewPooler(t, dsn, pgtest.PoolSessions).DSN)
	if err != nil {
		t.Fatal(err)
	}
	backend := relayed.Host
	relayed.Host = port
	return relayed.String(), func() {
		listener, err := net.Listen("tcp", port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go relay(listener, backend)
	}
}

// relay forwards connections to backend.
func relay(listener net.Listener, backend string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", backend)
			if err != nil {
				return
			}
			defer server.Close()
			go func() { defer server.Close(); _, _ = io.Copy(server, client) }()
			_, _ = io.Copy(client, server)
		}()
	}
}

// freeAddr returns an address at which nothing listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// statusOf returns the status with which the URL answers, or 0 if it doesn't.
func statusOf(t *testing.T, url string) int {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func TestAProcessWaitsForADatabaseThatIsDown(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]bool{"serve": false, "work": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ring, err := keyring(goodKey, "")
			if err != nil {
				t.Fatal(err)
			}
			dsn, open := closedServer(t, pgtest.DSN(t))
			cfg := Config{DatabaseURL: dsn, Keyring: ring, Addr: freeAddr(t), OpsAddr: freeAddr(t), Work: work, Workers: 2}
			log := &logBook{}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- Run(ctx, cfg, telemetry.NewLogger(log, slog.LevelInfo)) }()
			status := func(addr, path string, want int) {
				t.Helper()
				waittest.Until(t, "an answer of "+path, func() bool {
					select {
					case err := <-ended:
						t.Fatalf("the process ended instead of waiting: %v", err)
					default:
					}
					return statusOf(t, "http://"+addr+path) == want
				})
			}
			for _, addr := range []string{cfg.Addr, cfg.OpsAddr} {
				status(addr, "/healthz", http.StatusOK)
				status(addr, "/readyz", http.StatusServiceUnavailable)
			}
			status(cfg.Addr, "/v1/system", http.StatusServiceUnavailable)
			if n := strings.Count(log.String(), "waiting for the database"); n != 1 {
				t.Errorf("logged %d times that the process waits, want once", n)
			}
			open()
			status(cfg.Addr, "/readyz", http.StatusOK)
			status(cfg.OpsAddr, "/readyz", http.StatusOK)
			stop()
			if err := waittest.Receive(t, "the end of the process", ended); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAProcessThatWaitsForItsDatabaseCanBeStopped(t *testing.T) {
	t.Parallel()
	dsn, _ := closedServer(t, pgtest.DSN(t))
	log := &logBook{}
	logger := telemetry.NewLogger(log, slog.LevelInfo)
	ring, err := keyring(goodKey, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(context.Context) error{
		"serve": func(ctx context.Context) error {
			return Run(ctx, Config{DatabaseURL: dsn, Keyring: ring, Addr: "127.0.0.1:0", Workers: 2}, logger)
		},
		"dev": func(ctx context.Context) error {
			return Dev(ctx, DevConfig{DatabaseURL: dsn, DataDir: filepath.Join(t.TempDir(), ".weft"), Addr: "127.0.0.1:0", Stdout: log, Log: logger})
		},
	} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		before := strings.Count(log.String(), "waiting for the database")
		go func() { ended <- run(ctx) }()
		waittest.Until(t, name+" to wait", func() bool {
			select {
			case err := <-ended:
				t.Fatalf("%s ended instead of waiting: %v", name, err)
			default:
			}
			return strings.Count(log.String(), "waiting for the database") > before
		})
		stop()
		if err := waittest.Receive(t, "the end of "+name, ended); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
