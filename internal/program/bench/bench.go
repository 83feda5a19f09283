// Command bench measures Weft in relation to its machine: what the machine can do (the floors), what
// Weft does on it at the same time, and the ratio of the two, the only meaningful figure on a shared
// machine.
//
// It measures the real service over HTTP, in separate processes. It reads the database only for
// the times of runs and the number of commits. It only reports figures. A low figure never fails a
// build. Invariant: Floor and service are measured alternately, by the same load generator, against
// the same PostgreSQL. The same holds for the comparison with another system.
package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Options are the settings of a benchmark. The zero value is not usable: Program and Out must be set.
type Options struct {
	Program string // path of this program, from which the benchmark starts its processes

	Only    []string // IDs such as P1, instead of all figures
	Against string   // "restate": a comparison with this system, instead of the figures

	Runs   int           // number of runs, for the floor and for Weft
	Length time.Duration // duration of a run under load

	DatabaseURL string // a PostgreSQL whose role may create databases; "": starts a private one

	Out      io.Writer // receives the table
	Progress io.Writer // receives progress messages
}

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
	for _, m := range o.table() {
		if !o.wants(m) {
			continue
		}
		r.logf("%s ...", m.id)
		began := time.Now()
		results := m.results(ctx, r)
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		for _, result := range results {
			r.logf("  %s", strings.Join(result.cells(), "  "))
		}
		r.logf("%s took %s", m.id, time.Since(began).Round(time.Second))
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
