package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// as returns the definition of a component of a workflow.
func (s step) as(id string) string {
	return fmt.Sprintf(`{"id":%q,"module":%q,"input":%s,"config":%s}`, id, s.module, s.input, s.config)
}

// row returns a workflow of three components in sequence.
func row(s step) string {
	return fmt.Sprintf(`{"name":"row","components":[%s,%s,%s],
	"sequenceEdges":[{"id":"e1","from":"a","to":"b"},{"id":"e2","from":"b","to":"c"}],"dataConnections":[]}`, s.as("a"), s.as("b"), s.as("c"))
}

// forEach returns a workflow that executes a component for each item.
func forEach(s step) string {
	return fmt.Sprintf(`{"name":"loop","components":[{"id":"start","module":"ON_API_CALLED"},{"id":"each","module":"FOR_EACH","config":{"concurrency":100}},%s],
	"sequenceEdges":[{"id":"e1","from":"start","to":"each"},{"id":"e2","from":"each","to":"body","port":"each"}],
	"dataConnections":[{"id":"d1","from":{"componentId":"start","output":"items"},"to":{"componentId":"each","input":"items"}}]}`, s.as("body"))
}

// trigger saves a workflow and returns the request that starts a run of it.
func (d *deployment) trigger(ctx context.Context, definition, body string) (*call, error) {
	ids, err := d.submit(ctx, 1, d.call(http.MethodPost, "/v1/sdk/workflows", definition))
	if err != nil {
		return nil, fmt.Errorf("save a workflow: %w", err)
	}
	return d.call(http.MethodPost, "/v1/sdk/workflows/"+ids[0], body), nil
}

// rowCompleted checks that the response contains a completed run and its three stages.
func rowCompleted(answer []byte) error {
	if bytes.Count(answer, []byte(`"status":"COMPLETED"`)) != 4 {
		return fmt.Errorf("a run did not complete: %s", answer)
	}
	return nil
}

// rowLoad saves a workflow and returns a load: one client runs it and waits for the results.
func (r *rig) rowLoad(ctx context.Context, d *deployment, s func(*upstream) step) (load, error) {
	request, err := d.trigger(ctx, row(s(r.upstream)), `{"waitForMs":15000}`)
	if err != nil {
		return nil, err
	}
	return r.repeatOne(ctx, 1, request, rowCompleted), nil
}

// rowLatency returns the measurement of a workflow of three components in sequence.
func rowLatency(s func(*upstream) step) func(*rig, context.Context) ([]series, error) {
	return onSingleProcess(func(r *rig, ctx context.Context, d *deployment) ([]series, error) {
		run, err := r.rowLoad(ctx, d, s)
		if err != nil {
			return nil, err
		}
		return r.compare(r.commits(ctx, 1, false), run, sample.p50)
	})
}

// loopRate returns the measurement of a workflow that executes a component for each of 1,000 items.
func loopRate(s func(*upstream) step) func(*rig, context.Context) ([]series, error) {
	return onSingleProcess(func(r *rig, ctx context.Context, d *deployment) ([]series, error) {
		run, err := d.loop(ctx, forEach(s(r.upstream)), 1000)
		if err != nil {
			return nil, err
		}
		return r.compare(r.commits(ctx, 64, true), run, sample.rate)
	})
}

// loop saves a workflow and returns a load: one run of it over items. The load uses the times that
// the service recorded for the run. Nothing watches the run, so nothing else is measured.
func (d *deployment) loop(ctx context.Context, definition string, items int) (load, error) {
	request, err := d.trigger(ctx, definition, `{"input":{"items":[`+strings.Join(slices.Repeat([]string{"0"}, items), ",")+`]}}`)
	if err != nil {
		return nil, err
	}
	return func() (sample, error) {
		answer, err := once(ctx, request)
		if err != nil {
			return sample{}, err
		}
		var begun struct{ RunID string }
		if err := json.Unmarshal(answer, &begun); err != nil {
			return sample{}, fmt.Errorf("read the response to a trigger: %w", err)
		}
		took, err := d.runTime(ctx, begun.RunID, items)
		return sample{count: items, elapsed: took}, err
	}, nil
}

// runTime waits for a run over items and returns the time from its trigger to its end.
func (d *deployment) runTime(ctx context.Context, runID string, items int) (time.Duration, error) {
	err := d.until(ctx, "a run to finish", "SELECT finished_at IS NOT NULL FROM workflow_runs WHERE id = $1", runID)
	if err != nil {
		return 0, err
	}
	var state string
	var stages, failed int
	var seconds float64
	err = d.pool.QueryRow(ctx, `SELECT status, stage_count, failed_count, extract(epoch FROM finished_at - created_at)::float8
		FROM workflow_runs WHERE id = $1`, runID).Scan(&state, &stages, &failed, &seconds)
	if err != nil {
		return 0, fmt.Errorf("read how long a run took: %w", err)
	}
	if state != "COMPLETED" || stages < items || failed > 0 {
		return 0, fmt.Errorf("a run over %d items is %s with %d stages, %d failed", items, state, stages, failed)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
