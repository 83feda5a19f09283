// Package migrations holds the schema's migrations. They have a separate package, so that
// changing them recompiles nothing else.
//
// A released migration never changes.
package migrations

import "embed"

// Files are the migrations, numbered from `0001_name.sql` without a gap.
//
//go:embed *.sql
var Files embed.FS
