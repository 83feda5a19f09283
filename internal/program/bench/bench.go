// Package bench measures Weft in relation to its machine: what the machine can do (the floors), what
// Weft does on it at the same time, and the ratio of the two, the only meaningful figure on a shared
// machine.
//
// It measures the real service over HTTP, in separate processes. It reads the database only for
// commit times and the number of commits. It only reports figures. A low figure never fails a
// build. Invariant: Floor and service are measured alternately, by the same load generator, against
// the same PostgreSQL.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options are the settings of a benchmark. The zero value is not usable: Program and Out must be set.
type Options struct {
	Program []string // command line that runs weft, with which the benchmark starts its processes

	Only   []string      // IDs such as P1; empty: all figures
	Runs   int           // number of runs, for the floor and for Weft
	Length time.Duration // duration of a run under load

	DatabaseURL string // a PostgreSQL whose role may create databases; "": starts a private one
	Rows        int    // finished executions in the database for P11
	Profile     string // folder for CPU profiles of the service; "": no profiles

	Out      io.Writer // receives the table
	Progress io.Writer // receives progress messages
}

// figures are measured in this order, so that adjacent figures can share processes.
var figures = []struct {
	id      string
	measure func(*rig, context.Context) ([]Result, error)
}{
	{"P1", (*rig).inlineLatency},
	{"P2", (*rig).inlineRate},
	{"P15", (*rig).inlineCommits},
	{"P3", (*rig).submitRate},
	{"P10", (*rig).readRate},
	{"P9", (*rig).eventDelay},
	{"P16", (*rig).callbackDelay},
	{"P6", (*rig).runLatency},
	{"P7", (*rig).loopRate},
	{"P4", (*rig).drainRate},
	{"P5", (*rig).callbackRate},
	{"P13", (*rig).twoWorkers},
	{"P8", (*rig).streamMemory},
	{"P11", (*rig).history},
	{"P12", (*rig).idle},
}

// Check returns an error if the options are invalid.
func (o Options) Check() error {
	if o.Runs < 1 || o.Runs > 100 {
		return errors.New("--runs must be from 1 to 100")
	}
	if o.Length <= 0 || o.Length > 20*time.Second {
		return errors.New("--seconds must be above 0 and at most 20") // signed requests are reused for a second, and gated calls time out after 120 s
	}
	if o.Rows < 1000 {
		return errors.New("--rows must be at least 1000")
	}
	for _, id := range o.Only {
		if !known(id) {
			return fmt.Errorf("unknown figure %s", id)
		}
	}
	return nil
}

func known(id string) bool {
	for _, figure := range figures {
		if figure.id == id {
			return true
		}
	}
	return false
}

func (o Options) wants(id string) bool { return len(o.Only) == 0 || slices.Contains(o.Only, id) }

// Run measures the figures and prints the table. A figure that cannot be measured is in the report
// with its error. Run returns an error if ctx is done or the measurements cannot be set up.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.Check(); err != nil {
		return Report{}, err
	}
	r, err := newRig(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer r.close()
	report := newReport(o)
	report.PostgreSQL = r.version
	if len(o.Only) == 0 {
		if report.Floors, err = r.floors(ctx); err != nil {
			return report, err
		}
	}
	for _, figure := range figures {
		if !o.wants(figure.id) {
			continue
		}
		r.logf("%s ...", figure.id)
		began := time.Now()
		results, err := figure.measure(r, ctx)
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		if err != nil {
			results = append(results, Result{Figure: Figure{ID: figure.id}, Error: err.Error()})
		}
		for _, result := range results {
			r.logf("  %s", strings.Join(result.cells(), "  "))
		}
		r.logf("%s took %s", figure.id, time.Since(began).Round(time.Second))
		report.Figures = append(report.Figures, results...)
	}
	report.finish(time.Now())
	report.Print(o.Out)
	return report, nil
}

// logf prints a progress message.
func (r *rig) logf(format string, args ...any) {
	fmt.Fprintln(r.Progress, strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}
