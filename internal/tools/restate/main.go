// Command restate is the service of the benchmark's comparison with Restate: a handler with one
// durable step, which returns a UUID. Its only argument is the address on which it listens.
//
// It is a separate module, because nothing else of Weft needs Restate's SDK.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/uuid"
	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bench := restate.NewService("bench").Handler("uuid", restate.NewServiceHandler(durableUUID))
	quiet := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	if err := server.NewRestate().WithLogger(quiet, true).Bind(bench).Start(ctx, os.Args[1]); err != nil {
		log.Print(err)
	}
}

// durableUUID returns a UUID that Restate stores before it is returned.
func durableUUID(ctx restate.Context, _ restate.Void) (string, error) {
	return restate.Run(ctx, func(restate.RunContext) (string, error) { return uuid.NewString(), nil }, restate.WithName("uuid"))
}
