package bench

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

// row is a workflow of three components in sequence.
const row = `{"name":"row","components":[{"id":"a","module":"RANDOM_UUID"},{"id":"b","module":"RANDOM_UUID"},{"id":"c","module":"RANDOM_UUID"}],
	"sequenceEdges":[{"id":"e1","from":"a","to":"b"},{"id":"e2","from":"b","to":"c"}],"dataConnections":[]}`

// loop is a workflow that executes a no-op component for each item.
const loop = `{"name":"loop","components":[{"id":"start","module":"ON_API_CALLED"},{"id":"each","module":"FOR_EACH","config":{"concurrency":100}},{"id":"body","module":"RANDOM_UUID"}],
	"sequenceEdges":[{"id":"e1","from":"start","to":"each"},{"id":"e2","from":"each","to":"body","port":"each"}],
	"dataConnections":[{"id":"d1","from":{"componentId":"start","output":"items"},"to":{"componentId":"each","input":"items"}}]}`

// trigger saves a workflow and returns the request that starts a run of it.
func (d *deployment) trigger(ctx context.Context, definition, body string) (*call, error) {
	ids, err := d.submit(ctx, 1, d.call(http.MethodPost, "/v1/sdk/workflows", definition))
	if err != nil {
		return nil, fmt.Errorf("save a workflow: %w", err)
	}
	return d.call(http.MethodPost, "/v1/sdk/workflows/"+ids[0], body), nil
}

func (r *rig) runLatency(ctx context.Context) ([]Result, error) {
	d, err := r.singleProcess(ctx)
	if err != nil {
		return nil, err
	}
	request, err := d.trigger(ctx, row, `{"waitForMs":15000}`)
	if err != nil {
		return nil, err
	}
	final := func(answer []byte) error {
		if bytes.Count(answer, []byte(`"status":"COMPLETED"`)) != 4 { // the run and its stages
			return fmt.Errorf("a run did not complete: %s", answer)
		}
		return nil
	}
	cost := &meter{rig: r, d: d}
	floor, ours, err := alternate(r.Runs, p50Of(func() (sample, error) { return r.commits(ctx, 1, false) }),
		p50Of(cost.around(func() (sample, error) {
			return r.load(ctx, d.addr, 1, func(int) *call { return request }, final)
		})))
	if err != nil {
		return nil, err
	}
	return []Result{Figure{
		ID: "P6", Name: "workflow of 3 components in a row, 1 client: p50", Unit: "ms", Floor: "one commit, p50",
		Better: Lower, First: 45, Goal: 12,
	}.result(floor, ours).with(cost.String())}, nil
}

// Numbers of items in the loops of P7.
const (
	someItems = 1_000
	manyItems = 10_000
)

// loopRate uses the times that the service recorded for its runs. Nothing watches the runs, so
// nothing else is measured.
func (r *rig) loopRate(ctx context.Context) ([]Result, error) {
	d, err := r.singleProcess(ctx)
	if err != nil {
		return nil, err
	}
	var requests [2]*call
	for i, items := range []int{someItems, manyItems} {
		body := `{"input":{"items":[` + strings.Join(slices.Repeat([]string{"0"}, items), ",") + `]}}`
		if requests[i], err = d.trigger(ctx, loop, body); err != nil {
			return nil, err
		}
	}
	cost := &meter{rig: r, d: d}
	looped := func(request *call, items int) func() (sample, error) {
		return func() (sample, error) {
			took, err := d.runToEnd(ctx, request, items)
			return sample{count: items, elapsed: took}, err
		}
	}
	some := cost.around(looped(requests[0], someItems))
	floor, ours, err := alternate(r.Runs, rateOf(func() (sample, error) { return r.commits(ctx, 64, true) }), rateOf(some))
	if err != nil {
		return nil, err
	}
	results := []Result{Figure{
		ID: "P7a", Name: "FOR_EACH over 1,000 items of a no-op body", Unit: "items/s", Floor: "two commits at 64",
		Better: Higher, First: 0.08, Goal: 0.60,
	}.result(floor, ours).with(cost.String())}
	few, many, err := alternate(min(r.Runs, 3), perItem(some), perItem(looped(requests[1], manyItems)))
	if err != nil {
		return results, err
	}
	return append(results, Figure{
		ID: "P7b", Name: "FOR_EACH over 10,000 items: time of each", Unit: "ms", Floor: "of each of 1,000",
		Better: Lower, First: 1.2, Goal: 1.2,
	}.result(few, many)), nil
}

// perItem returns the average duration of the operations of a run.
func perItem(measure func() (sample, error)) func() (float64, error) {
	return func() (float64, error) {
		s, err := measure()
		return milliseconds(s.elapsed) / float64(s.count), err
	}
}

// runToEnd runs a loop and returns the time from its trigger to its end.
func (d *deployment) runToEnd(ctx context.Context, request *call, items int) (time.Duration, error) {
	wires, err := dialAll(ctx, d.addr, 1)
	if err != nil {
		return 0, err
	}
	defer closeAll(wires)
	answer, err := wires[0].do(request.request())
	if err != nil {
		return 0, err
	}
	var begun struct{ RunID string }
	if err := json.Unmarshal(answer, &begun); err != nil {
		return 0, fmt.Errorf("read the response to a trigger: %w", err)
	}
	err = d.until(ctx, "a run to finish", "SELECT finished_at IS NOT NULL FROM workflow_runs WHERE id = $1", begun.RunID)
	if err != nil {
		return 0, err
	}
	var state string
	var stages int
	var seconds float64
	err = d.pool.QueryRow(ctx, `SELECT status, stage_count, extract(epoch FROM finished_at - created_at)::float8
		FROM workflow_runs WHERE id = $1`, begun.RunID).Scan(&state, &stages, &seconds)
	if err != nil {
		return 0, fmt.Errorf("read how long a run took: %w", err)
	}
	if state != "COMPLETED" || stages < items {
		return 0, fmt.Errorf("a run over %d items is %s with %d stages", items, state, stages)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
