package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
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
	asWeft  = "weft"  // weft, with its arguments
	asFloor = "floor" // the server that Weft is compared with, at ADDR/KEY
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
	}
	return measure(ctx, args)
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
	only := flags.String("only", "", "figures to measure, such as `P1,P2`, instead of all")
	flags.StringVar(&o.Against, "against", "", "compare with `restate`, which npm installs, instead of measuring the figures")
	flags.IntVar(&o.Runs, "runs", 3, "`number` of runs of floor and Weft each")
	seconds := flags.Float64("seconds", 3, "length of a run under load")
	flags.StringVar(&o.DatabaseURL, "database-url", "", "`URL` of a PostgreSQL in which databases may be created (default a private one)")
	to := flags.String("json", "", "`file` for the versions, the settings and all runs")
	_ = flags.Parse(args) // exits
	if o.Length = time.Duration(*seconds * float64(time.Second)); *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if flags.NArg() > 0 || o.Against != "" && *only != "" {
		return errors.New("use --only or --against, and no arguments")
	}
	report, err := Run(ctx, o)
	if err != nil || *to == "" {
		return err
	}
	return report.WriteJSON(*to)
}
