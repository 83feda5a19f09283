package retention_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/platform/retention"
)

// Under load, some transaction holds each table at any time, for longer than the first attempts
// wait. Without the partition, the rows of the week would be in the default partition.
func TestThePartitionOfThisWeekIsCreatedUnderLoad(t *testing.T) {
	b := open(t)
	tables := slices.Clone(weekly)
	slices.Reverse(tables)
	for i, table := range tables {
		tables[i] = partitionOf(table, b.week)
	}
	b.exec(t, "DROP TABLE "+strings.Join(tables, ", "))
	b.exec(t, "DELETE FROM partition_weeks WHERE week = $1", b.week)

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	started := make(chan struct{}, 3)
	for range cap(started) {
		load.Go(func() {
			for first := true; ctx.Err() == nil; first = false {
				_ = pgx.BeginFunc(ctx, b.owner, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "LOCK TABLE component_executions, callbacks, workflow_runs IN ROW EXCLUSIVE MODE")
					if first {
						started <- struct{}{}
					}
					if err == nil {
						_, err = tx.Exec(ctx, "SELECT pg_sleep(0.15)")
					}
					return err
				})
			}
		})
	}
	for range cap(started) {
		<-started
	}
	var log bytes.Buffer
	keeper := retention.NewKeeper(b.system, 0, nil, slog.New(slog.NewTextHandler(&log, nil)))
	attempts := 1
	for ; !b.exists(t, partition(b.week)); attempts++ {
		if attempts > 15 { // one per second, for up to 0.8 s
			t.Fatalf("not created after %d attempts; the log:\n%s", attempts, &log)
		}
		_, _ = keeper.Keep(t.Context())
	}
	for _, want := range []string{"tables are in use", "created the partitions of a week"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
}

func (b *books) exists(t *testing.T, table string) bool {
	t.Helper()
	return b.count(t, "pg_class WHERE relname = $1", table) > 0
}
