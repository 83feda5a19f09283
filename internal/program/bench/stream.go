package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/local/client"
)

// openStream opens an event stream and returns its reader.
func openStream(ctx context.Context, c *call) (*wire, io.Reader, error) {
	w, err := dial(ctx, c.host)
	if err != nil {
		return nil, nil, err
	}
	h, err := w.send(c.request())
	if err == nil && h.status != http.StatusOK {
		err = fmt.Errorf("status %d of a stream", h.status)
	}
	if err != nil {
		return nil, nil, errors.Join(err, w.conn.Close())
	}
	if h.chunked {
		return w, httputil.NewChunkedReader(w.in), nil
	}
	return w, w.in, nil
}

// idleStreams opens n streams, reads the first event of each and leaves them open.
func idleStreams(ctx context.Context, n int, each func(index int) *call) ([]*wire, error) {
	const openers = 32
	wires := make([]*wire, n)
	err := times(ctx, openers, n, func(ctx context.Context, _, index int) error {
		w, in, err := openStream(ctx, each(index))
		if err != nil {
			return err
		}
		wires[index] = w
		for _, err := range client.ReadEvents(in) {
			w.in = nil // nothing more is read: the socket buffer takes the pings
			return err
		}
		return io.ErrUnexpectedEOF
	})
	return wires, err
}

func closeStreams(wires []*wire) {
	for _, w := range wires {
		if w != nil {
			_ = w.conn.Close()
		}
	}
}

func (d *deployment) stream(id string) *call {
	return d.call("GET", "/v1/sdk/components/executions/"+id+"/stream", "")
}

// streamMemory measures memory, which is not noisy but never shrinks, so each run uses a new process.
func (r *rig) streamMemory(ctx context.Context) ([]Result, error) {
	r.stopServices()
	steps := []int{1000, min(10_000, openFiles()-500)}
	floor, ours := make([][]float64, len(steps)), make([][]float64, len(steps))
	for range min(r.Runs, 3) {
		f, err := r.floorStreams(ctx, steps)
		if err != nil {
			return nil, err
		}
		o, err := r.ourStreams(ctx, steps)
		if err != nil {
			return nil, err
		}
		for i := range steps {
			floor[i], ours[i] = append(floor[i], f[i]), append(ours[i], o[i])
		}
	}
	var results []Result
	for i, n := range steps {
		results = append(results, Figure{
			ID: "P8" + string(rune('a'+i)), Name: fmt.Sprintf("an idle stream of %d: resident KiB", n), Unit: "KiB", Floor: "a stream of a plain handler",
			Better: Lower, First: 1.5, Goal: 0.4,
		}.result(floor[i], ours[i]))
	}
	return results, nil
}

func (r *rig) floorStreams(ctx context.Context, steps []int) ([]float64, error) {
	f, err := r.startFloor(ctx)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	request := &call{signer: f.signer, method: "GET", target: "/stream", host: f.addr}
	return perStream(ctx, f.process, steps, func(int) *call { return request })
}

func (r *rig) ourStreams(ctx context.Context, steps []int) ([]float64, error) {
	d, err := r.startServer(ctx) // without workers, executions stay as they were accepted
	if err != nil {
		return nil, err
	}
	defer d.stop()
	ids, err := d.submit(ctx, 1000, d.execute("RANDOM_UUID", "{}", "{}", ""))
	if err != nil {
		return nil, err
	}
	return perStream(ctx, d.api, steps, func(index int) *call { return d.stream(ids[index%len(ids)]) })
}

// perStream opens streams step by step and returns the KiB that each uses, relative to the memory
// before the first.
func perStream(ctx context.Context, p *process, steps []int, each func(index int) *call) ([]float64, error) {
	// The first few streams allocate what all share.
	warm, err := idleStreams(ctx, 50, each)
	defer func() { closeStreams(warm) }()
	if err != nil {
		return nil, err
	}
	before, err := settledMemory(ctx, p)
	if err != nil {
		return nil, err
	}
	var costs []float64
	opened := 0
	for _, n := range steps {
		wires, err := idleStreams(ctx, n-opened, each)
		warm = append(warm, wires...)
		if err != nil {
			return nil, err
		}
		opened = n
		after, err := settledMemory(ctx, p)
		if err != nil {
			return nil, err
		}
		costs = append(costs, (after-before)/float64(n)/1024)
	}
	return costs, nil
}

// settledMemory returns the resident memory some seconds after the last request.
func settledMemory(ctx context.Context, p *process) (float64, error) {
	if err := pause(ctx, 11*time.Second); err != nil {
		return 0, err
	}
	return p.resident()
}

// eventDelay measures executions that finish one by one while 1,000 other streams are open.
func (r *rig) eventDelay(ctx context.Context) ([]Result, error) {
	d, err := r.singleProcess(ctx)
	if err != nil {
		return nil, err
	}
	u, err := newUpstream()
	if err != nil {
		return nil, err
	}
	defer u.close()
	var p99, calm []float64
	samples := 0
	for run := range r.Runs + 1 {
		// The latency of single commits on the same machine puts the p99 into perspective.
		floor, err := r.commits(ctx, 1, false)
		if err != nil {
			return nil, err
		}
		delays, err := r.eventDelays(ctx, d, u, strconv.Itoa(run))
		if err != nil {
			return nil, err
		}
		if run > 0 {
			p99 = append(p99, milliseconds(percentile(delays, 0.99)))
			calm = append(calm, milliseconds(percentile(floor.sorted, 0.99)))
			samples += len(delays)
		}
	}
	return []Result{Figure{
		ID: "P9", Name: "commit of the final state to the event, 1,000 streams open: p99", Unit: "ms",
		Better: Lower, First: 50, Goal: 10,
	}.result(nil, p99).with(fmt.Sprintf("%d events; p99 of one commit in the same minutes: %s ms", samples, number(median(calm))))}, nil
}

func (r *rig) eventDelays(ctx context.Context, d *deployment, u *upstream, run string) ([]time.Duration, error) {
	const held, open = 20, 1000
	ids, err := d.submit(ctx, held, d.gated(u, "held-"+run))
	if err != nil {
		return nil, err
	}
	wires, err := idleStreams(ctx, open, func(index int) *call { return d.stream(ids[index%held]) })
	defer closeStreams(wires)
	defer u.open("held-" + run)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	arrived := map[string]time.Time{}
	const clients = 4
	counts := make([]int, clients)
	_, err = closedLoop(ctx, clients, r.Length, func(ctx context.Context, client int) error {
		counts[client]++
		key := fmt.Sprintf("%s-%d-%d", run, client, counts[client])
		made, err := d.submit(ctx, 1, d.gated(u, key))
		if err != nil {
			return err
		}
		at, err := d.follow(ctx, made[0], func() { u.open(key) })
		mu.Lock()
		defer mu.Unlock()
		arrived[made[0]] = at
		return err
	})
	if err != nil {
		return nil, err
	}
	followed := make([]string, 0, len(arrived))
	for id := range arrived {
		followed = append(followed, id)
	}
	return d.sinceCommit(ctx, followed, func(id string) time.Time { return arrived[id] })
}

// gated returns a request for an execution that completes once the gate is opened.
func (d *deployment) gated(u *upstream, key string) *call {
	return d.execute("API_CALL", `{"headers":{}}`, `{"method":"GET","timeoutMs":120000,"apiUrl":"`+u.gateURL(key)+`"}`, "")
}

// follow reads a stream to its final event and returns the time at which that event arrived. It
// calls begun after the first event.
func (d *deployment) follow(ctx context.Context, id string, begun func()) (time.Time, error) {
	w, in, err := openStream(ctx, d.stream(id))
	if err != nil {
		return time.Time{}, err
	}
	defer w.conn.Close()
	first := true
	for event, err := range client.ReadEvents(in) {
		if err != nil {
			return time.Time{}, err
		}
		if event.Name == "" { // decisions 4.5: only the final event has no name
			return time.Now(), nil
		}
		if first {
			first = false
			begun()
		}
	}
	return time.Time{}, io.ErrUnexpectedEOF
}
