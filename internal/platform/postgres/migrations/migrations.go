// Package migrations holds the schema's migrations, as files only, so that a change to them
// recompiles nothing else.
//
// The one invariant: a released migration never changes.
package migrations

import "embed"

// Files are the migrations, `0001_name.sql` and on without a gap.
//
//go:embed *.sql
var Files embed.FS
