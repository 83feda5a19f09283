package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	r := Figure{ID: "P15", Unit: "commits", Better: Lower, First: 50, Goal: 10}.result(series{ours: []float64{30, 20, 40}})
	if r.Value == nil || *r.Value != 30 || r.Verdict != MeetsFirst || r.Noisy {
		t.Errorf("unexpected result %+v", r)
	}
}

func TestAFloorSpreadOver15PercentIsNoisy(t *testing.T) {
	f := Figure{ID: "P1", Floor: "one commit", Better: Lower, First: 18, Goal: 5}
	if r := f.result(series{floor: []float64{1, 1.14}, ours: []float64{4, 4}}); r.Noisy {
		t.Errorf("a spread of %.3f is noisy", r.Spread)
	}
	if r := f.result(series{floor: []float64{1, 1.2}, ours: []float64{4, 4}}); !r.Noisy {
		t.Errorf("a spread of %.3f is not noisy", r.Spread)
	}
}

func TestMissingMeasurementIsReported(t *testing.T) {
	r := Figure{ID: "P1", Floor: "one commit", Better: Lower}.result(series{})
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
	r := newReport(Options{Runs: 2, Length: time.Second})
	r.PostgreSQL = "15.1"
	r.Figures = []Result{
		Figure{ID: "P1", Name: "inline, 1 client: p50", Unit: "ms", Floor: "one commit", Better: Lower, First: 18, Goal: 5}.
			result(series{[]float64{0.3, 0.4}, []float64{1.2, 1.6}, "a note"}),
		Figure{ID: "P15", Name: "commits", Unit: "commits", Better: Lower, First: 80, Goal: 40}.result(series{ours: []float64{50}}),
		{Figure: Figure{ID: "P5"}, Error: "no receiver\nand more"},
	}
	r.finish(r.StartedAt.Add(time.Minute))
	var out bytes.Buffer
	r.Print(&out)
	for _, want := range []string{
		"PostgreSQL 15.1",
		"P1 inline, 1 client: p50 0.35 ms 1.4 ms 4 <= 18 <= 5 goal (noisy: floor spread 29 %)",
		"P15 commits 50 commits <= 80 commits <= 40 commits first",
		"P5 not measured: no receiver",
		"P1: a note", "too noisy to judge",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestReportContainsItsRuns(t *testing.T) {
	r := newReport(Options{Runs: 2, Length: time.Second})
	r.Figures = []Result{Figure{ID: "P1", Floor: "x", Better: Lower}.result(series{floor: []float64{1, 2}, ours: []float64{3, 4}})}
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
	good := Options{Runs: 1, Length: time.Second}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no runs":        func(o *Options) { o.Runs = 0 },
		"no time":        func(o *Options) { o.Length = 0 },
		"too long":       func(o *Options) { o.Length = time.Minute },
		"unknown figure": func(o *Options) { o.Only = []string{"P99"} },
		"unknown system": func(o *Options) { o.Against = "cron" },
		"a figure of Weft alone against another system": func(o *Options) { o.Against, o.Only = "restate", []string{"P1"} },
	} {
		o := good
		change(&o)
		if o.Check() == nil {
			t.Errorf("%s: the options were accepted", name)
		}
	}
	good.Only = []string{"P6", "P1", "P17b", "P17"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

func TestOptionsSelectTheFigures(t *testing.T) {
	selected := func(o Options) string {
		var ids []string
		for _, m := range o.table() {
			if o.wants(m) {
				for _, f := range m.figures {
					ids = append(ids, f.ID)
				}
			}
		}
		slices.Sort(ids)
		return strings.Join(ids, " ")
	}
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{}, "P1 P10 P15 P17a P17b P1b P2 P2b P3 P5 P6 P6b P7 P7c P8"},
		{Options{Only: []string{"P1", "P8", "P17b"}}, "P1 P17a P17b P8"},
		{Options{Against: "restate"}, "R1 R2"},
	} {
		if got := selected(c.options); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.options, got, c.want)
		}
	}
}

func TestFailedMeasurementIsReportedForEachFigure(t *testing.T) {
	m := measurement{figures: []Figure{{ID: "P17a"}, {ID: "P17b"}}, measure: func(*rig, context.Context) ([]series, error) {
		return nil, errors.New("broken")
	}}
	results := m.results(t.Context(), nil)
	if len(results) != 2 || results[0].ID != "P17a" || results[1].ID != "P17b" || results[0].Error != "broken" || results[1].Error != "broken" {
		t.Errorf("unexpected results %+v", results)
	}
}

func TestFirstIsNotStricterThanTheGoal(t *testing.T) {
	for _, m := range slices.Concat(measurements, restateMeasurements) {
		for _, f := range m.figures {
			if f.verdict(f.Goal) != MeetsGoal || f.Better == Lower && f.First < f.Goal || f.Better == Higher && f.First > f.Goal {
				t.Errorf("%s: first %v, goal %v, better: %s", f.ID, f.First, f.Goal, f.Better)
			}
		}
	}
}

func TestContributingListsTheFigures(t *testing.T) {
	guide, err := os.ReadFile("../../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	table := "| Figure | What | Divided by | Goal |\n|---|---|---|---|\n"
	for _, m := range measurements {
		for _, f := range m.figures {
			sign, unit := "&ge;", ""
			if f.Better == Lower {
				sign = "&le;"
			}
			if f.Floor == "" {
				unit = " " + f.Unit
			}
			table += fmt.Sprintf("| %s | %s | %s | %s %s%s |\n", f.ID, f.Name, f.Floor, sign, number(f.Goal), unit)
		}
	}
	if !strings.Contains(string(guide), table) {
		t.Errorf("CONTRIBUTING.md lacks the table of figures:\n%s", table)
	}
}

func TestComparisonSaysWhatIsNotInstalled(t *testing.T) {
	t.Setenv("PATH", "")
	if _, err := new(rig).startRestate(t.Context()); err == nil || !strings.Contains(err.Error(), "build the service of Restate") {
		t.Errorf("unexpected error %v", err)
	}
}

func TestPinnedVersionOfRestateIsThatOfItsPackages(t *testing.T) {
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := restatePackages.ReadFile("restate/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if want := `restate-server-linux-x64": "` + restateVersion + `"`; !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", name, want)
		}
	}
}
