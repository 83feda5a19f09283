package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/weft-automation/weft/internal/program/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := act(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// The first arguments of the processes that the benchmark starts from its own program.
const (
	asWeft     = "weft"     // weft, with its arguments
	asFloor    = "floor"    // the server that Weft is compared with, at ADDR/KEY
	asProfiled = "profiled" // another of these under the CPU profiler, after the FILE of the profile
)

// act does what the arguments say: it runs the benchmark, or is one of its processes.
func act(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == asWeft:
		if code := cli.Run(ctx, cli.Process{Args: args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}); code != 0 {
			return fmt.Errorf("weft exited with %d", code)
		}
		return nil
	case len(args) > 1 && args[0] == asFloor:
		return ServeFloor(ctx, args[1])
	case len(args) > 2 && args[0] == asProfiled:
		return profiled(ctx, args[1], args[2:])
	}
	return measure(ctx, args)
}

// profiled runs other arguments and writes a CPU profile. The service has no endpoint for that.
func profiled(ctx context.Context, path string, args []string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return act(ctx, args)
}

// measure runs the benchmark. It returns an error only if nothing could be measured, whatever the
// figures are.
func measure(ctx context.Context, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	o := Options{Program: program, Out: os.Stdout, Progress: os.Stderr}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.BoolVar(&o.All, "all", false, "measure all figures, also those that take long")
	only := flags.String("only", "", "figures to measure, such as `P1,P2`, instead of the default ones")
	flags.StringVar(&o.Against, "against", "", "compare with `restate`, which npm installs, instead of measuring the figures")
	flags.IntVar(&o.Runs, "runs", 3, "`number` of runs of floor and Weft each")
	seconds := flags.Float64("seconds", 3, "length of a run under load")
	flags.StringVar(&o.DatabaseURL, "database-url", "", "`URL` of a PostgreSQL in which databases may be created (default a private one)")
	flags.IntVar(&o.Rows, "rows", 5_000_000, "finished executions in the database for P11")
	flags.StringVar(&o.Profile, "profile", "", "`folder` for CPU profiles of the service's processes")
	to := flags.String("json", "", "`file` for the versions, the settings and all runs")
	_ = flags.Parse(args) // exits
	if o.Length = time.Duration(*seconds * float64(time.Second)); *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if flags.NArg() > 0 || o.All && *only != "" || o.Against != "" && (o.All || *only != "") {
		return errors.New("use one of --all, --only and --against, and no arguments")
	}
	report, err := Run(ctx, o)
	if err != nil || *to == "" {
		return err
	}
	return report.WriteJSON(*to)
}
