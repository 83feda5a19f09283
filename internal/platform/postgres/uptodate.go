package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// current is the condition that the schema is the schema of this binary, or a later schema that
// was only expanded. It covers both Weft's schema and River's.
const current = `ARRAY(SELECT number || ' ' || checksum FROM schema_migrations
		WHERE number <= cardinality($1::text[]) ORDER BY number) = $1
	AND NOT EXISTS (SELECT FROM schema_migrations WHERE number > cardinality($1::text[]) AND NOT expand)
	AND ARRAY(SELECT version FROM river.river_migration WHERE line = 'main') @> $2::bigint[]`

// complete is the condition, in addition to current, that Migrate has nothing to do: every index
// is complete, River's unused indexes are dropped, and the rights are set.
const complete = `NOT EXISTS (SELECT FROM pg_index w JOIN pg_class c ON c.oid = w.indexrelid
		WHERE NOT w.indisvalid AND c.relkind = 'I' AND c.relnamespace = current_schema()::regnamespace)
	AND to_regclass('river.river_job_args_index') IS NULL AND to_regclass('river.river_job_metadata_index') IS NULL
	AND ` + riverRightsSet + ` AND ` + databaseRightsSet

// versions are the migrations of this binary, as they are recorded in the database.
type versions struct {
	own   []string // number and checksum, in order
	river []int64
}

var allVersions = sync.OnceValues(func() (m versions, err error) {
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

// upToDate reports whether the schema is this binary's, or a later schema that was only
// expanded.
func upToDate(ctx context.Context, conn querier) bool { return schemaMatches(ctx, conn, current) }

// nothingToMigrate reports whether Migrate has nothing to do.
func nothingToMigrate(ctx context.Context, conn querier) bool {
	return schemaMatches(ctx, conn, current+" AND "+complete)
}

func schemaMatches(ctx context.Context, conn querier, condition string) bool {
	want, err := allVersions()
	return err == nil && holds(ctx, conn, condition, want.own, want.river)
}

// holds reports whether a condition is true in the database. An error counts as false: most
// often a table doesn't exist yet, and the steps of the migration report the cause. One query is
// much cheaper than all steps.
func holds(ctx context.Context, conn querier, condition string, args ...any) bool {
	var yes bool
	err := conn.QueryRow(ctx, "SELECT "+condition, args...).Scan(&yes)
	return err == nil && yes
}

// SchemaVersion returns the numbers of the last migrations that this binary has: Weft's own, and
// River's.
func SchemaVersion() (own, river int, err error) {
	all, err := allVersions()
	if err != nil {
		return 0, 0, err
	}
	return len(all.own), int(slices.Max(all.river)), nil
}
