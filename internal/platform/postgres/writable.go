package postgres

import (
	"context"
	"errors"
)

// CheckWritable says whether the database answers and takes writes.
func CheckWritable(ctx context.Context, db DB) error {
	var readOnly bool
	err := db.QueryRow(ctx, "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean").Scan(&readOnly)
	if err == nil && readOnly {
		return errors.New("the database is read-only")
	}
	return err
}
