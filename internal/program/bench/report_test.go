package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVerdictFollowsTheBounds(t *testing.T) {
	fewer := Figure{Better: Lower, First: 18, Goal: 5}
	more := Figure{Better: Higher, First: 0.08, Goal: 0.60}
	for _, c := range []struct {
		figure Figure
		value  float64
		want   string
	}{
		{fewer, 4, MeetsGoal}, {fewer, 5, MeetsGoal}, {fewer, 5.1, MeetsFirst}, {fewer, 18, MeetsFirst}, {fewer, 18.1, Misses},
		{more, 0.7, MeetsGoal}, {more, 0.60, MeetsGoal}, {more, 0.59, MeetsFirst}, {more, 0.08, MeetsFirst}, {more, 0.079, Misses},
	} {
		if got := c.figure.verdict(c.value); got != c.want {
			t.Errorf("better: %s, value %v: got %q, want %q", c.figure.Better, c.value, got, c.want)
		}
	}
}

func TestFigureWithoutAFloorIsJudgedByItsValue(t *testing.T) {
	r := Figure{ID: "P9", Unit: "ms", Better: Lower, First: 50, Goal: 10}.result(nil, []float64{30, 20, 40})
	if r.Value == nil || *r.Value != 30 || r.Verdict != MeetsFirst || r.Noisy {
		t.Errorf("unexpected result %+v", r)
	}
}

func TestAFloorSpreadOver15PercentIsNoisy(t *testing.T) {
	f := Figure{ID: "P1", Floor: "one commit", Better: Lower, First: 18, Goal: 5}
	if r := f.result([]float64{1, 1.14}, []float64{4, 4}); r.Noisy {
		t.Errorf("a spread of %.3f is noisy", r.Spread)
	}
	if r := f.result([]float64{1, 1.2}, []float64{4, 4}); !r.Noisy {
		t.Errorf("a spread of %.3f is not noisy", r.Spread)
	}
}

func TestMissingMeasurementIsReported(t *testing.T) {
	r := Figure{ID: "P1", Floor: "one commit", Better: Lower}.result(nil, nil)
	if r.Error == "" || r.Value != nil {
		t.Errorf("unexpected result %+v", r)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

func TestNumbersHaveThreeDigitsAndNoExponent(t *testing.T) {
	for v, want := range map[float64]string{
		12345.6: "12346", 100.4: "100", 45.67: "45.7", 0.1234: "0.123", 0.6: "0.6", 3: "3", 0: "0", 0.00001234: "0.0000123",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
}

func TestTableContainsAllOfAFigure(t *testing.T) {
	r := newReport(Options{Runs: 2, Length: time.Second, Rows: 1000})
	r.PostgreSQL = "15.1"
	r.Floors = []Floor{{Name: "one commit", Clients: 64, Rate: 18837, P50ms: 3}}
	r.Figures = []Result{
		Figure{ID: "P1", Name: "inline, 1 client: p50", Unit: "ms", Floor: "one commit", Better: Lower, First: 18, Goal: 5}.
			result([]float64{0.3, 0.4}, []float64{1.2, 1.6}).with("a note"),
		Figure{ID: "P12a", Name: "resident", Unit: "MiB", Better: Lower, First: 80, Goal: 40}.result(nil, []float64{50}),
		{Figure: Figure{ID: "P5"}, Error: "no receiver\nand more"},
	}
	r.finish(r.StartedAt.Add(time.Minute))
	var out bytes.Buffer
	r.Print(&out)
	for _, want := range []string{
		"PostgreSQL 15.1", "one commit 64 18837/s 3 ms",
		"P1 inline, 1 client: p50 0.35 ms 1.4 ms 4 <= 18 <= 5 goal (noisy: floor spread 29 %)",
		"P12a resident 50 MiB <= 80 MiB <= 40 MiB first",
		"P5 not measured: no receiver",
		"P1: a note", "too noisy to judge",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestReportContainsItsRuns(t *testing.T) {
	r := newReport(Options{Runs: 2, Length: time.Second, Rows: 1000})
	r.Figures = []Result{Figure{ID: "P1", Floor: "x", Better: Lower}.result([]float64{1, 2}, []float64{3, 4})}
	path := filepath.Join(t.TempDir(), "report.json")
	if err := r.WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Figures) != 1 || len(back.Figures[0].FloorRuns) != 2 || *back.Figures[0].Value != 2.5 || back.Cores < 1 || back.Go == "" {
		t.Errorf("unexpected report %s", data)
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	good := Options{Runs: 1, Length: time.Second, Rows: 1000}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no runs":        func(o *Options) { o.Runs = 0 },
		"no time":        func(o *Options) { o.Length = 0 },
		"too long":       func(o *Options) { o.Length = time.Minute },
		"few rows":       func(o *Options) { o.Rows = 10 },
		"unknown figure": func(o *Options) { o.Only = []string{"P99"} },
	} {
		o := good
		change(&o)
		if o.Check() == nil {
			t.Errorf("%s: the options were accepted", name)
		}
	}
	good.Only = []string{"P6", "P1"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}
