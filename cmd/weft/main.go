// Command weft is the whole of Weft: the service, its tools and its client.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weft-automation/weft/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; from then on a second one has its
	// usual effect, at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, cli.Process{
		Args:    os.Args[1:],
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
	}))
}
