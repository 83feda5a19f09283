// Package migrations holds the schema's changes, as files alone.
//
// A package of its own, so that another set of them compiles nothing else anew. The one
// invariant: what was released is never changed.
package migrations

import "embed"

// Files are the migrations, `0001_name.sql` and on without a gap.
//
//go:embed *.sql
var Files embed.FS
