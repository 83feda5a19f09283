// Command weft is all of Weft: the service, its tools and its client.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/weft-automation/weft/internal/program/cli"
)

func main() {
	// Weft's own log is structured and written elsewhere. The standard logger only gets what net/http
	// quotes of unsolicited data from receivers and upstreams, which must not be stored
	// (conformance/RELIABILITY.md, CB-17).
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal starts a graceful stop. After that, a second one kills the process as usual.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, cli.Process{
		Program: os.Args[0],
		Args:    os.Args[1:],
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
	}))
}
