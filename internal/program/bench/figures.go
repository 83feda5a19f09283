package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// measurement is a measurement and the figures that it yields, in order.
type measurement struct {
	id      string // selects all of its figures
	figures []Figure
	measure func(*rig, context.Context) ([]series, error)
}

// one returns a measurement that yields one figure.
func one(f Figure, measure func(*rig, context.Context) ([]series, error)) measurement {
	return measurement{id: f.ID, figures: []Figure{f}, measure: measure}
}

// Baselines of several figures.
const (
	oneCommit = "one commit, p50"
	twoAt64   = "two commits at 64"
)

// measurements are done in this order, so that adjacent ones can share processes.
var measurements = []measurement{
	one(Figure{"P1", "no effect, inline, 1 client: p50", "ms", oneCommit, Lower, 8, 4}, onSingleProcess((*rig).inlineLatency)),
	one(Figure{"P1b", "API_CALL, inline, 1 client: p50, less the upstream's", "ms", oneCommit, Lower, 18, 7}, onSingleProcess((*rig).apiCallLatency)),
	one(Figure{"P2", "no effect, inline, 64 clients", "/s", twoAt64, Higher, 0.5, 0.8}, inlineRate(noEffect)),
	one(Figure{"P2b", "API_CALL, inline, 64 clients", "/s", twoAt64, Higher, 0.2, 0.4}, inlineRate(apiCall)),
	one(Figure{"P3", "submit without waiting, 64 clients", "/s", "one commit at 64", Higher, 0.15, 0.4}, onSingleProcess((*rig).submitRate)),
	one(Figure{"P6", "run of 3 components without effect, 1 client: p50", "ms", oneCommit, Lower, 22, 6}, rowLatency(noEffect)),
	one(Figure{"P6b", "run of 3 API_CALLs, 1 client: p50", "ms", oneCommit, Lower, 65, 20}, rowLatency(apiCall)),
	one(Figure{"P7", "FOR_EACH over 1,000 items, body without effect", "items/s", twoAt64, Higher, 1.5, 3}, loopRate(noEffect)),
	one(Figure{"P7c", "FOR_EACH over 1,000 items, body API_CALL", "items/s", twoAt64, Higher, 0.2, 0.5}, loopRate(apiCall)),
	one(Figure{"P10", "signed GET of an execution, 64 clients", "/s", "signed echo, no database", Higher, 0.3, 0.7}, onSingleProcess((*rig).readRate)),
	one(Figure{"P15", "commits for each inline execution, 64 clients", "commits", "", Lower, 0.1, 0.1}, onSingleProcess((*rig).inlineCommits)),
	{id: "P17", measure: onSingleProcess((*rig).commitsOfOneClient), figures: []Figure{
		{"P17a", "commits for each inline execution, 1 client", "commits", "", Lower, 1.1, 1.1},
		{"P17b", "commits for each run of 3 components, 1 client", "commits", "", Lower, 8, 2.2},
	}},
	one(Figure{"P5", "callbacks delivered, one worker process", "/s", "signed POSTs by Go's client", Higher, 0.15, 0.5}, (*rig).callbackRate),
	one(Figure{"P8", "an idle stream: resident KiB", "KiB", "a stream of a plain handler", Lower, 1.5, 0.4}, (*rig).streamMemory),
}

// Check returns an error if the options are invalid.
func (o Options) Check() error {
	if o.Runs < 1 || o.Runs > 100 {
		return errors.New("--runs must be from 1 to 100")
	}
	if o.Length <= 0 || o.Length > 20*time.Second {
		return errors.New("--seconds must be above 0 and at most 20") // signed requests are reused for a second, and gated calls time out after 120 s
	}
	if o.Against != "" && o.Against != againstRestate {
		return fmt.Errorf("--against: unknown system %q; use %s", o.Against, againstRestate)
	}
	for _, id := range o.Only {
		if !slices.ContainsFunc(o.table(), func(m measurement) bool { return m.has(id) }) {
			return fmt.Errorf("unknown figure %s", id)
		}
	}
	return nil
}

// table returns the measurements from which the options select.
func (o Options) table() []measurement {
	if o.Against == againstRestate {
		return restateMeasurements
	}
	return measurements
}

func (o Options) wants(m measurement) bool {
	return len(o.Only) == 0 || slices.ContainsFunc(o.Only, m.has)
}

// has reports whether id is that of the measurement or of one of its figures.
func (m measurement) has(id string) bool {
	return m.id == id || slices.ContainsFunc(m.figures, func(f Figure) bool { return f.ID == id })
}

// results measures the figures. A figure that cannot be measured is returned with the error.
func (m measurement) results(ctx context.Context, r *rig) []Result {
	runs, err := m.measure(r, ctx)
	results := make([]Result, len(m.figures))
	for i, f := range m.figures {
		if err != nil {
			results[i] = Result{Figure: f, Error: err.Error()}
		} else {
			results[i] = f.result(runs[i])
		}
	}
	return results
}
