package callback

import (
	"context"
	"log/slog"
	"net/netip"
	"os"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// childDSN is an environment variable with the URL of a database. If it is set, this test binary
// runs as a worker on that database, in a process that a test can kill.
const childDSN = "CALLBACK_TEST_CHILD_DSN"

// runChild delivers callbacks from the queue until the process is killed.
func runChild(dsn string) {
	ctx := context.Background()
	pool, err := postgres.Open(ctx, dsn, "child", postgres.Owner, 4)
	if err != nil {
		panic(err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	workers := river.NewWorkers()
	worker := &Worker{}
	river.AddWorker(workers, worker)
	jobs, err := river.NewClient(riverpgxv5.New(pool), queueConfig(workers, log))
	if err != nil {
		panic(err)
	}
	worker.Deliverer = NewDeliverer(Deps{
		DB: pool, Jobs: jobs, Keyring: testKeyring(), Log: log,
		Guard: egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
	}, Settings{})
	if err := jobs.Start(ctx); err != nil {
		panic(err)
	}
	select {}
}
