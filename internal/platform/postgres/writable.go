package postgres

import (
	"context"
	"errors"
)

// CheckWritable returns an error if the database doesn't respond or is read-only.
func CheckWritable(ctx context.Context, db DB) error {
	var readOnly bool
	err := db.QueryRow(ctx, "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean").Scan(&readOnly)
	if err == nil && readOnly {
		return errors.New("the database is read-only")
	}
	return err
}
