package main

import (
	"context"
	"fmt"
	"io"
	"syscall"
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
func streams() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 1000
	}
	return int(min(10_000, files.Max-500)) // the Go runtime raises the soft limit to the hard limit
}

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
