package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// step is the execution of a component, alone or in a workflow.
type step struct{ module, input, config string }

// noEffect returns a step of a component that calls nothing.
func noEffect(*upstream) step { return step{"RANDOM_UUID", "{}", "{}"} }

// apiCall returns a step that calls the upstream.
func apiCall(u *upstream) step {
	return step{"API_CALL", `{"headers":{}}`, `{"method":"GET","apiUrl":"http://` + u.addr + `/now"}`}
}

// newUpstream serves the service that API_CALL calls: it responds immediately.
func newUpstream() (*upstream, error) {
	u := &upstream{}
	var err error
	u.server, u.addr, err = serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`) // fails only if the client has disconnected
	}))
	return u, err
}

// upstream is the running service that API_CALL calls.
type upstream struct {
	server *http.Server
	addr   string
}

// direct returns a request to the upstream.
func (u *upstream) direct() *call { return &call{method: http.MethodGet, target: "/now", host: u.addr} }

// inline returns a request that executes a component and waits for its result.
func (d *deployment) inline(s step) *call { return d.execute(s, `,"waitForMs":15000`) }

// completed checks that the response contains the result.
func completed(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"completed":true`)) || !bytes.Contains(answer, []byte(`"status":"COMPLETED"`)) {
		return fmt.Errorf("an inline execution did not complete: %s", answer)
	}
	return nil
}

// onSingleProcess returns a measurement of a Weft in a single process.
func onSingleProcess(measure func(r *rig, ctx context.Context, d *deployment) ([]series, error)) func(*rig, context.Context) ([]series, error) {
	return func(r *rig, ctx context.Context) ([]series, error) {
		d, err := r.singleProcess(ctx)
		if err != nil {
			return nil, err
		}
		return measure(r, ctx, d)
	}
}

func (r *rig) inlineLatency(ctx context.Context, d *deployment) ([]series, error) {
	return r.compare(r.commits(ctx, 1, false), r.inlineLoad(ctx, d, 1, noEffect), sample.p50)
}

// apiCallLatency measures what Weft adds to a call: the time of the call's upstream is subtracted.
func (r *rig) apiCallLatency(ctx context.Context, d *deployment) ([]series, error) {
	direct := r.repeatOne(ctx, 1, r.upstream.direct(), nil).measure(sample.p50)
	whole := r.inlineLoad(ctx, d, 1, apiCall).measure(sample.p50)
	s, err := alternate(r.Runs, r.commits(ctx, 1, false).measure(sample.p50), func() (float64, error) {
		upstream, err := direct()
		if err != nil {
			return 0, err
		}
		all, err := whole()
		return all - upstream, err
	})
	return []series{s}, err
}

// inlineRate returns the measurement of how many inline executions 64 clients complete.
func inlineRate(s func(*upstream) step) func(*rig, context.Context) ([]series, error) {
	return onSingleProcess(func(r *rig, ctx context.Context, d *deployment) ([]series, error) {
		return r.compare(r.commits(ctx, 64, true), r.inlineLoad(ctx, d, 64, s), sample.rate)
	})
}

func (r *rig) inlineLoad(ctx context.Context, d *deployment, clients int, s func(*upstream) step) load {
	return r.repeatOne(ctx, clients, d.inline(s(r.upstream)), completed)
}

// submitRate waits after each run until all accepted executions have finished, so that they don't
// disturb the next measurement. Their processor time counts, their time does not.
func (r *rig) submitRate(ctx context.Context, d *deployment) ([]series, error) {
	submit := r.repeatOne(ctx, 64, d.execute(noEffect(nil), ""), nil)
	return r.compare(r.commits(ctx, 64, false), func() (sample, error) {
		s, err := submit()
		if err != nil {
			return s, err
		}
		return s, d.settled(ctx)
	}, sample.rate)
}

func (r *rig) readRate(ctx context.Context, d *deployment) ([]series, error) {
	read, err := r.reading(ctx, d)
	if err != nil {
		return nil, err
	}
	return r.compare(r.echoes(ctx, 64), read, sample.rate)
}

// reading returns a load that reads executions one after the other, so that caching one row does
// not help.
func (r *rig) reading(ctx context.Context, d *deployment) (load, error) {
	ids, err := d.submit(ctx, 1000, d.inline(noEffect(nil)))
	if err != nil {
		return nil, err
	}
	requests := make([]*call, len(ids))
	for i, id := range ids {
		requests[i] = d.call("GET", "/v1/sdk/components/executions/"+id, "")
	}
	return r.repeat(ctx, d.addr, 64, func(n int) *call { return requests[n%len(requests)] }, nil), nil
}
