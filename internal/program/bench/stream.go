package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/local/client"
)

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

func (d *deployment) stream(id string) *call {
	return d.call("GET", "/v1/sdk/components/executions/"+id+"/stream", "")
}

// streamMemory measures memory, which is not noisy but never shrinks, so each run uses new processes.
func (r *rig) streamMemory(ctx context.Context) ([]series, error) {
	r.stopServices()
	s := series{note: fmt.Sprintf("%d streams", streams())}
	for range r.Runs {
		floor, err := r.floorStreams(ctx)
		if err != nil {
			return nil, err
		}
		ours, err := r.ourStreams(ctx)
		if err != nil {
			return nil, err
		}
		s.floor, s.ours = append(s.floor, floor), append(s.ours, ours)
	}
	return []series{s}, nil
}

// streams returns how many streams are opened: as many as one process can open, at most 10,000.
func streams() int { return min(10_000, openFiles()-500) }

func (r *rig) floorStreams(ctx context.Context) (float64, error) {
	f, err := r.startFloor(ctx)
	if err != nil {
		return 0, err
	}
	defer f.stop()
	request := &call{signer: f.signer, method: "GET", target: "/stream", host: f.addr}
	return perStream(ctx, f.process, func(int) *call { return request })
}

func (r *rig) ourStreams(ctx context.Context) (float64, error) {
	d, err := r.startServer(ctx) // without workers, executions stay as they were accepted
	if err != nil {
		return 0, err
	}
	defer d.stop()
	ids, err := d.submit(ctx, 1000, d.execute(noEffect(nil), ""))
	if err != nil {
		return 0, err
	}
	return perStream(ctx, d.api, func(index int) *call { return d.stream(ids[index%len(ids)]) })
}

// perStream opens streams and returns the KiB that each uses, relative to the memory before the
// first.
func perStream(ctx context.Context, p *process, each func(index int) *call) (float64, error) {
	// The first few streams allocate what all share.
	warm, err := idleStreams(ctx, 50, each)
	defer closeAll(warm)
	if err != nil {
		return 0, err
	}
	before, err := settledMemory(ctx, p)
	if err != nil {
		return 0, err
	}
	wires, err := idleStreams(ctx, streams(), each)
	defer closeAll(wires)
	if err != nil {
		return 0, err
	}
	after, err := settledMemory(ctx, p)
	return (after - before) / float64(streams()) / 1024, err
}

// settledMemory returns the resident memory some seconds after the last request.
func settledMemory(ctx context.Context, p *process) (float64, error) {
	if err := pause(ctx, 11*time.Second); err != nil {
		return 0, err
	}
	status, err := p.status()
	return float64(status.VmRSS), err
}

// eventDelay measures executions that finish one by one while 1,000 other streams are open.
func (r *rig) eventDelay(ctx context.Context, d *deployment) ([]series, error) {
	run, samples := 0, 0
	s, err := alternate(r.Runs, r.commits(ctx, 1, false).measure(sample.p99), func() (float64, error) {
		run++
		delays, err := r.eventDelays(ctx, d, strconv.Itoa(run))
		samples += len(delays)
		return milliseconds(percentile(delays, 0.99)), err
	})
	if err != nil {
		return nil, err
	}
	// The latency of single commits on the same machine puts the p99 into perspective.
	s.note = fmt.Sprintf("%d events; p99 of one commit in the same minutes: %s ms", samples, number(median(s.floor)))
	return []series{{ours: s.ours, note: s.note}}, nil
}

func (r *rig) eventDelays(ctx context.Context, d *deployment, run string) ([]time.Duration, error) {
	const held, open = 20, 1000
	u := r.upstream
	ids, err := d.submit(ctx, held, d.gated(u, "held-"+run))
	if err != nil {
		return nil, err
	}
	wires, err := idleStreams(ctx, open, func(index int) *call { return d.stream(ids[index%held]) })
	defer closeAll(wires)
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
	return d.execute(u.apiCall("/gate/"+key), "")
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
