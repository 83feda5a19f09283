package main

import "math"

// Better is the direction in which a figure improves.
type Better string

const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Verdicts on a figure.
const (
	MeetsGoal  = "goal"
	MeetsFirst = "first"
	Misses     = "misses first"
)

// noisy is the spread of the floor beyond which a figure cannot be judged.
const noisy = 0.15

// Figure is what is measured, and the required values.
type Figure struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`            // of floor and runs
	Floor  string  `json:"floor,omitempty"` // what the figure is divided by; "": the figure is judged without a floor
	Better Better  `json:"better"`
	First  float64 `json:"first"`
	Goal   float64 `json:"goal"`
}

// series holds the runs of a figure.
type series struct {
	floor, ours []float64
	note        string
}

// Result is a measured figure: the raw runs and the values derived from them.
type Result struct {
	Figure
	FloorRuns []float64 `json:"floorRuns,omitempty"`
	OurRuns   []float64 `json:"ourRuns"`
	Value     *float64  `json:"value"` // the ratio, or the median of OurRuns without a floor
	Spread    float64   `json:"spread"`
	Noisy     bool      `json:"noisy"`
	Verdict   string    `json:"verdict"`
	Note      string    `json:"note,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// result derives the result of a figure from its runs.
func (f Figure) result(s series) Result {
	r := Result{Figure: f, FloorRuns: s.floor, OurRuns: s.ours, Note: s.note}
	value := median(s.ours)
	if f.Floor != "" {
		value = ratio(s.floor, s.ours)
		r.Spread = spread(s.floor)
	}
	r.Noisy = r.Spread > noisy
	if math.IsNaN(value) || math.IsInf(value, 0) {
		r.Error = "nothing was measured"
		return r
	}
	r.Value = &value
	r.Verdict = f.verdict(value)
	return r
}

func (f Figure) verdict(value float64) string {
	meets := func(bound float64) bool {
		if f.Better == Lower {
			return value <= bound
		}
		return value >= bound
	}
	switch {
	case meets(f.Goal):
		return MeetsGoal
	case meets(f.First):
		return MeetsFirst
	}
	return Misses
}
