// Command weft is the whole of Weft: the service, its tools and its client.
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
	// Our own log is structured and goes elsewhere. What is left here is net/http
	// quoting what a receiver or an upstream sent without being asked: that is
	// never kept (conformance/RELIABILITY.md, CB-17).
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; from then on a second one has its
	// usual effect, at once.
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
