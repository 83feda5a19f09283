package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// current is what one statement asks to tell that the schema is this binary's, or a
// later one that was only expanded: ours and River's.
const current = `ARRAY(SELECT number || ' ' || checksum FROM schema_migrations
		WHERE number <= cardinality($1::text[]) ORDER BY number) = $1
	AND NOT EXISTS (SELECT FROM schema_migrations WHERE number > cardinality($1::text[]) AND NOT expand)
	AND ARRAY(SELECT version FROM river.river_migration WHERE line = 'main') @> $2::bigint[]`

// tended is what it asks besides to tell that Migrate has nothing left to do: every
// index is complete, the queue is trimmed, and rights are set.
const tended = `NOT EXISTS (SELECT FROM pg_index w JOIN pg_class c ON c.oid = w.indexrelid
		WHERE NOT w.indisvalid AND c.relkind = 'I' AND c.relnamespace = current_schema()::regnamespace)
	AND to_regclass('river.river_job_args_index') IS NULL AND to_regclass('river.river_job_metadata_index') IS NULL
	AND ` + riverRightsSet + ` AND ` + databaseRightsSet

// marks are what this binary's migrations leave in the database.
type marks struct {
	own   []string // number and checksum, in order
	river []int64
}

var marksOfAll = sync.OnceValues(func() (m marks, err error) {
	own, err := embedded()
	if err != nil {
		return m, err
	}
	migrator, err := riverMigrator(nil)
	if err != nil {
		return m, err
	}
	for _, one := range own {
		m.own = append(m.own, fmt.Sprintf("%d %s", one.number, one.checksum()))
	}
	for _, version := range migrator.AllVersions() {
		m.river = append(m.river, int64(version.Version))
	}
	return m, nil
})

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// upToDate reports whether the schema is this binary's, or was only expanded since.
func upToDate(ctx context.Context, conn querier) bool { return showsMarks(ctx, conn, current) }

// settled reports whether Migrate has nothing to do.
func settled(ctx context.Context, conn querier) bool {
	return showsMarks(ctx, conn, current+" AND "+tended)
}

func showsMarks(ctx context.Context, conn querier, condition string) bool {
	want, err := marksOfAll()
	return err == nil && shows(ctx, conn, condition, want.own, want.river)
}

// shows reports whether the database shows a condition at one look, which costs far less
// than to go from step to step. Whatever keeps it from telling means no: most often
// something is not there yet, and the steps tell what.
func shows(ctx context.Context, conn querier, condition string, args ...any) bool {
	var yes bool
	err := conn.QueryRow(ctx, "SELECT "+condition, args...).Scan(&yes)
	return err == nil && yes
}
