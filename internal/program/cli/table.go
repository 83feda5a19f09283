package cli

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
)

// table writes aligned columns.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer, columns ...any) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(columns...)
	return t
}

// row writes one line. Flush reports the errors of all lines.
func (t table) row(cells ...any) {
	_, _ = fmt.Fprintf(t, strings.TrimSuffix(strings.Repeat("%v\t", len(cells)), "\t")+"\n", cells...)
}

// printList prints up to limit items of a list of the service, a row for each, and whether there are more.
func printList[T any](s *session, t target, path string, filter url.Values, limit int, columns []any, row func(T) []any) error {
	all, more, err := list[T](s, t, path, filter, limit)
	if err != nil {
		return err
	}
	lines := newTable(s.stdout, columns...)
	for _, one := range all {
		lines.row(row(one)...)
	}
	s.noteMore(more)
	return lines.Flush()
}
