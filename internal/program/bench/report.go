package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of a benchmark.
type Report struct {
	StartedAt  time.Time `json:"startedAt"`
	TookS      float64   `json:"tookSeconds"`
	Weft       string    `json:"weft"`
	Go         string    `json:"go"`
	PostgreSQL string    `json:"postgresql"`
	OS         string    `json:"os"`
	Cores      int       `json:"cores"`
	Only       []string  `json:"only,omitempty"`
	Against    string    `json:"against,omitempty"`
	Runs       int       `json:"runs"`
	Seconds    float64   `json:"seconds"`
	Private    bool      `json:"privateDatabase"`
	Figures    []Result  `json:"figures"`
	Noisy      bool      `json:"noisy"`
}

func newReport(o Options) Report {
	r := Report{
		StartedAt: time.Now().UTC(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(),
		Only:  o.Only, Against: o.Against, Runs: o.Runs, Seconds: o.Length.Seconds(), Private: o.DatabaseURL == "",
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Weft = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				r.Weft += " " + setting.Value
			}
		}
	}
	return r
}

func (r *Report) finish(now time.Time) {
	r.TookS = now.Sub(r.StartedAt).Seconds()
	for _, result := range r.Figures {
		r.Noisy = r.Noisy || result.Noisy
	}
}

// WriteJSON writes the report to a file.
func (r Report) WriteJSON(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// Print writes the report as text.
func (r Report) Print(w io.Writer) {
	fmt.Fprintf(w, "\nWeft %s, %s, PostgreSQL %s, %s, %d cores\n", r.Weft, r.Go, r.PostgreSQL, r.OS, r.Cores)
	fmt.Fprintf(w, "%d runs of %gs each, floor and Weft alternately\n", r.Runs, r.Seconds)
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tWHAT\tFLOOR\tOURS\tRATIO\tFIRST\tGOAL\tVERDICT")
	for _, result := range r.Figures {
		fmt.Fprintln(t, strings.Join(result.cells(), "\t"))
	}
	t.Flush()
	r.printNotes(w)
}

func (r Report) printNotes(w io.Writer) {
	fmt.Fprintln(w)
	fmt.Fprintln(w, "Ratios are the median over pairs of adjacent runs; floor and Weft are each the median of their runs.")
	for _, result := range r.Figures {
		if result.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", result.ID, result.Note)
		}
	}
	if r.Noisy {
		fmt.Fprintf(w, "The machine was too noisy to judge the figures marked as noisy: the spread of their floor exceeded %.0f %%.\n", 100*noisy)
	}
}

// cells returns the columns of a line of the table.
func (r Result) cells() []string {
	if r.Error != "" {
		return []string{r.ID, r.Name, "", "", "", "", "", "not measured: " + firstLine(r.Error)}
	}
	sign := ">= "
	if r.Better == Lower {
		sign = "<= "
	}
	floor, quotient, unit := "", "", ""
	if r.Floor != "" {
		floor, quotient = number(median(r.FloorRuns))+" "+r.Unit, number(*r.Value)
	} else {
		unit = " " + r.Unit
	}
	verdict := r.Verdict
	if r.Noisy {
		verdict += fmt.Sprintf(" (noisy: floor spread %.0f %%)", 100*r.Spread)
	}
	return []string{
		r.ID, r.Name, floor, number(median(r.OurRuns)) + " " + r.Unit, quotient,
		sign + number(r.First) + unit, sign + number(r.Goal) + unit, verdict,
	}
}

// number formats a value with three significant digits and without an exponent.
func number(v float64) string {
	if v >= 100 || v <= -100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(threeDigits(v), 'f', -1, 64)
}

// threeDigits rounds to three significant digits.
func threeDigits(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
