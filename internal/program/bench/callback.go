package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/secret/signature"
)

// receiver receives callbacks. It responds immediately and records when each arrived.
type receiver struct {
	server *http.Server
	addr   string

	mu    sync.Mutex
	at    map[string]time.Time // last arrival by execution
	last  time.Time
	left  int
	ended chan struct{} // closed once left is 0; nil if no arrivals are expected
}

const callbackSecret = "a secret that signs the benchmark's callbacks"

func newReceiver() (*receiver, error) {
	v := &receiver{at: map[string]time.Time{}}
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
	v.at[q.Header.Get("X-Svc-Execution-Id")] = now
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

func (v *receiver) arrival(id string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at[id]
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

// callbackDelay submits one execution after the other and measures when its callback arrives.
func (r *rig) callbackDelay(ctx context.Context, d *deployment) ([]series, error) {
	v, err := newReceiver()
	if err != nil {
		return nil, err
	}
	defer v.close()
	request := d.withCallback(v)
	s, err := alternate(r.Runs, r.commits(ctx, 1, false).measure(sample.p50), func() (float64, error) {
		var ids []string
		_, err := closedLoop(ctx, 1, r.Length, func(ctx context.Context, _ int) error {
			arrived := v.expect(1)
			made, err := d.submit(ctx, 1, request)
			if err != nil {
				return err
			}
			ids = append(ids, made...)
			return await(ctx, arrived, "a callback")
		})
		if err != nil {
			return 0, err
		}
		delays, err := d.sinceCommit(ctx, ids, v.arrival)
		return milliseconds(percentile(delays, 0.50)), err
	})
	return []series{s}, err
}

// sinceCommit returns, sorted, the delays between the commit of each execution's final state and the
// time that at returns. If the server does not record commit times, it uses the start of the
// transaction.
func (d *deployment) sinceCommit(ctx context.Context, ids []string, at func(id string) time.Time) ([]time.Duration, error) {
	var kept string
	if err := d.pool.QueryRow(ctx, "SHOW track_commit_timestamp").Scan(&kept); err != nil {
		return nil, err
	}
	committed := "finished_at"
	if kept == "on" {
		committed = "pg_xact_commit_timestamp(xmin)"
	}
	rows, err := d.pool.Query(ctx, "SELECT id::text, "+committed+" FROM component_executions WHERE workspace_id = $1 AND id = ANY($2::uuid[]) AND finished_at IS NOT NULL",
		d.workspaceID, ids)
	if err != nil {
		return nil, fmt.Errorf("read commit times: %w", err)
	}
	defer rows.Close()
	delays := make([]time.Duration, 0, len(ids))
	for rows.Next() {
		var id string
		var commit time.Time
		if err := rows.Scan(&id, &commit); err != nil {
			return nil, fmt.Errorf("read commit times: %w", err)
		}
		delays = append(delays, at(id).Sub(commit))
	}
	slices.Sort(delays)
	return delays, rows.Err()
}
