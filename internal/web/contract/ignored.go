package contract

import (
	"net/url"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// The limits of a list of ignored names.
const (
	maxIgnored      = 20
	maxIgnoredBytes = 1000
)

// moreIgnored ends an incomplete list.
const moreIgnored = "more"

// Ignored collects the unknown query parameters and fields of a request, up to a limit. The
// zero value is an empty list.
type Ignored struct {
	list  strings.Builder
	names int
	full  bool
}

// String returns the value of the Weft-Ignored header, or "" if the list is nil or empty.
func (i *Ignored) String() string {
	if i == nil {
		return ""
	}
	return i.list.String()
}

// parameter adds a query parameter.
func (i *Ignored) parameter(name string) {
	if !i.full {
		i.add(url.PathEscape(name))
	}
}

// field adds a field by the tokens of its JSON Pointer.
func (i *Ignored) field(tokens []string) {
	if i.full {
		return
	}
	var pointer strings.Builder
	for _, name := range tokens {
		pointer.WriteString("/" + url.PathEscape(fault.EscapeToken(name)))
	}
	i.add(pointer.String())
}

// add adds a percent-encoded name, so it needs no further escaping in a quoted string.
func (i *Ignored) add(name string) {
	separator := ""
	if i.names > 0 {
		separator = ", "
	}
	quoted := separator + `"` + name + `"`
	if i.names == maxIgnored || i.list.Len()+len(quoted)+len(", "+moreIgnored) > maxIgnoredBytes {
		i.full = true
		i.list.WriteString(separator + moreIgnored)
		return
	}
	i.names++
	i.list.WriteString(quoted)
}
