package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// receiver receives callbacks. It responds immediately and records when each arrived.
type receiver struct {
	server *http.Server
	addr   string

	mu    sync.Mutex
	last  time.Time
	left  int
	ended chan struct{} // closed once left is 0; nil if no arrivals are expected
}

const callbackSecret = "a secret that signs the benchmark's callbacks"

func newReceiver() (*receiver, error) {
	v := &receiver{}
	var err error
	v.server, v.addr, err = serve(http.HandlerFunc(v.arrive))
	return v, err
}

// serve serves a handler on a new loopback address.
func serve(handler http.Handler) (*http.Server, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ErrorLog: nil}
	go func() { _ = server.Serve(listener) }() // returns once the server is closed
	return server, listener.Addr().String(), nil
}

func (v *receiver) close() { _ = v.server.Close() }

func (v *receiver) arrive(w http.ResponseWriter, q *http.Request) {
	now := time.Now()
	_, _ = io.Copy(io.Discard, q.Body) // an incomplete body counts as arrived
	w.WriteHeader(http.StatusNoContent)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = now
	if v.left--; v.left == 0 && v.ended != nil {
		close(v.ended)
		v.ended = nil
	}
}

// expect returns a channel that is closed at the n-th arrival from now on.
func (v *receiver) expect(n int) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left, v.ended = n, make(chan struct{})
	return v.ended
}

func (v *receiver) lastAt() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

// withCallback returns a request for an execution whose callback goes to the receiver.
func (d *deployment) withCallback(v *receiver) *call {
	return d.execute(noEffect(nil),
		fmt.Sprintf(`,"callbackUrl":"http://%s/callback","callbackSecret":%q`, v.addr, callbackSecret))
}

// posts returns a load: Go's HTTP client sends the same callback, signed and over kept connections.
func (r *rig) posts(ctx context.Context) load {
	const clients = 64
	return func() (sample, error) {
		v, err := newReceiver()
		if err != nil {
			return sample{}, err
		}
		defer v.close()
		transport := &http.Transport{MaxIdleConnsPerHost: clients}
		defer transport.CloseIdleConnections()
		return closedLoop(ctx, clients, r.Length, func(ctx context.Context, _ int) error { return v.post(ctx, transport) })
	}
}

// post sends a callback to the receiver.
func (v *receiver) post(ctx context.Context, transport *http.Transport) error {
	const id = "0199c0de-0000-7000-8000-000000000000"
	url := "http://" + v.addr + "/callback"
	body := []byte(`{"id":"` + id + `","module":"RANDOM_UUID","status":"COMPLETED","completed":true,` +
		`"output":{"uuid":"3b241101-e2bb-4255-8caf-4136c566a962"},"error":null,"totalUsage":1,"callback":{"url":"` + url + `",` +
		`"signed":true,"signatureAlgorithm":"hmac-sha256-v1","headerNames":[],"lastAttemptAt":null,"deliveredAt":null,"attemptCount":0,"lastError":null},` +
		`"createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:00.000Z"}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Svc-Execution-Id", id)
	request.Header.Set("X-Svc-Signature", signature.CallbackV1(callbackSecret, body))
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return err
}

// hold pauses the queue of callbacks. The returned function resumes it and returns the database's time just before.
func (d *deployment) hold(ctx context.Context) (release func() (time.Time, error), err error) {
	queue, err := river.NewClient(riverpgxv5.New(d.pool), &river.Config{Schema: postgres.RiverSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if err := queue.QueuePause(ctx, callback.Queue, nil); err != nil {
		return nil, fmt.Errorf("pause the queue: %w", err)
	}
	return func() (time.Time, error) {
		var now time.Time
		if err := d.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
			return now, err
		}
		if err := queue.QueueResume(ctx, callback.Queue, nil); err != nil {
			return now, fmt.Errorf("resume the queue: %w", err)
		}
		return now, nil
	}, nil
}

// replayed is the number of callbacks in a measurement of callbackRate.
const replayed = 5000

// callbackRate replays the callbacks of finished executions, so that only deliveries are measured.
func (r *rig) callbackRate(ctx context.Context) ([]series, error) {
	d, err := r.separateProcesses(ctx)
	if err != nil {
		return nil, err
	}
	receiver, err := newReceiver()
	if err != nil {
		return nil, err
	}
	defer receiver.close()
	delivered := receiver.expect(replayed)
	ids, err := d.submit(ctx, replayed, d.withCallback(receiver))
	if err != nil {
		return nil, err
	}
	if err := await(ctx, delivered, "the first deliveries"); err != nil {
		return nil, err
	}
	s, err := alternate(r.Runs, r.posts(ctx).measure(sample.rate), func() (float64, error) { return d.replay(ctx, ids, receiver) })
	return []series{s}, err
}

func (d *deployment) replay(ctx context.Context, ids []string, receiver *receiver) (float64, error) {
	// A delivery of the previous round that is not recorded yet would make a replay fail.
	err := d.until(ctx, "deliveries to be recorded", "SELECT NOT EXISTS (SELECT FROM callbacks WHERE state IN ('PENDING', 'QUEUED'))")
	if err != nil {
		return 0, err
	}
	release, err := d.hold(ctx)
	if err != nil {
		return 0, err
	}
	const clients = 64
	wires, err := dialAll(ctx, d.addr, clients)
	if err != nil {
		return 0, err
	}
	defer closeAll(wires)
	delivered := receiver.expect(len(ids))
	err = times(ctx, clients, len(ids), func(_ context.Context, client, index int) error {
		target := "/v1/sdk/components/executions/" + ids[index] + "/replay-callback?force=true"
		_, err := wires[client].do(d.call(http.MethodPost, target, "").request())
		return err
	})
	if err != nil {
		return 0, err
	}
	began, err := release()
	if err != nil {
		return 0, err
	}
	if err := await(ctx, delivered, "deliveries"); err != nil {
		return 0, err
	}
	return float64(len(ids)) / receiver.lastAt().Sub(began).Seconds(), nil
}

func await(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(2 * time.Minute):
		return fmt.Errorf("waited too long for %s", what)
	}
}
