package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// completeIndexes builds the indexes that a migration declared only for a partitioned table. It
// builds them in one partition after the other, without blocking writes. Inside a migration, an
// index build would block writes to the table until the build is done. Partitions that are
// created in the meantime already have the indexes. Interrupted builds are repeated.
func completeIndexes(ctx context.Context, conn *pgx.Conn) error {
	type index struct{ Whole, Name, Partition, Definition string }
	rows, err := conn.Query(ctx, `SELECT w.indexrelid::regclass::text,
			quote_ident(p.relname || '_' || split_part(c.relname, '_', 1)), p.oid::regclass::text,
			substring(pg_get_indexdef(w.indexrelid) FROM ' USING .*')
		FROM pg_index w
		JOIN pg_class c ON c.oid = w.indexrelid AND c.relkind = 'I'
		JOIN pg_inherits t ON t.inhparent = w.indrelid
		JOIN pg_class p ON p.oid = t.inhrelid
		WHERE NOT w.indisvalid AND c.relnamespace = current_schema()::regnamespace
		  AND NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid
		                  WHERE i.inhparent = w.indexrelid AND x.indrelid = p.oid)
		ORDER BY 1, 2`)
	if err != nil {
		return fmt.Errorf("list the indexes to build: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return fmt.Errorf("list the indexes to build: %w", err)
	}
	for _, m := range missing {
		err := build(ctx, conn, "DROP INDEX CONCURRENTLY IF EXISTS "+m.Name, // left by an interrupted build
			"CREATE INDEX CONCURRENTLY "+m.Name+" ON "+m.Partition+m.Definition)
		if err == nil {
			err = withLockTimeout(ctx, conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "ALTER INDEX "+m.Whole+" ATTACH PARTITION "+m.Name)
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("build the index %s: %w", m.Name, err)
		}
	}
	return nil
}

func build(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
