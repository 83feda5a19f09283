package cli

import (
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/weft-automation/weft/internal/program/bench"
)

// benchCommand runs the benchmark. The exit code is 1 only if nothing could be measured. It does
// not depend on the figures.
type benchCommand struct {
	All         bool     `xor:"figures" help:"Measure all figures, also those that take long."`
	Only        []string `xor:"figures" placeholder:"P1,P2" help:"Figures to measure, instead of the default ones."`
	Against     string   `xor:"figures" placeholder:"restate" help:"Compare with Restate, which npm installs, instead of measuring the figures."`
	Runs        int      `default:"3" help:"Runs of floor and ours each (${default})."`
	Seconds     float64  `default:"3" help:"Length of a run under load (${default})."`
	DatabaseURL string   `name:"database-url" placeholder:"URL" help:"A PostgreSQL in which databases may be made; a private one unless given."`
	JSON        string   `name:"json" placeholder:"FILE" help:"Write versions, settings and all runs to a file."`
	Rows        int      `default:"5000000" help:"Finished executions in the database for P11 (${default})."`
	Profile     string   `placeholder:"DIR" help:"Write CPU profiles of the service's processes; costs some per cent."`
	ServeFloor  string   `name:"serve-floor" hidden:"" placeholder:"ADDR/KEY" help:"Be the server that Weft is compared with."`
}

// Run measures and prints the table.
func (c *benchCommand) Run(s *session) error {
	if c.ServeFloor != "" {
		return bench.ServeFloor(s.ctx, c.ServeFloor)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	report, err := bench.Run(s.ctx, bench.Options{
		Program: []string{program}, All: c.All, Only: c.Only, Against: c.Against,
		Runs: c.Runs, Length: time.Duration(c.Seconds * float64(time.Second)),
		DatabaseURL: c.DatabaseURL, Rows: c.Rows, Profile: c.Profile, Out: s.stdout, Progress: s.stderr,
	})
	if err != nil {
		return err
	}
	if c.JSON != "" {
		return report.WriteJSON(c.JSON)
	}
	return nil
}

// profiledCommand runs another command under the CPU profiler. The benchmark uses it to profile the
// service, which has no endpoint for that.
type profiledCommand struct {
	File    string   `arg:""`
	Command []string `arg:"" passthrough:""`
}

// Run runs the other command.
func (c *profiledCommand) Run(s *session) error {
	file, err := os.Create(c.File)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	code := Run(s.ctx, Process{Args: c.Command, Environ: s.environ, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr})
	if code != 0 {
		return errQuiet
	}
	return nil
}
