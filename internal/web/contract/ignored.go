package contract

import (
	"net/url"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// The bounds of a list of what was ignored.
const (
	maxIgnored      = 20
	maxIgnoredBytes = 1000
)

// moreIgnored ends a list that leaves some names out.
const moreIgnored = "more"

// Ignored collects the query parameters and fields of a request that the contract does not
// know. The zero value is empty; it can hold a bounded number of names.
type Ignored struct {
	list  strings.Builder
	names int
	full  bool
}

// String returns the list as the header Weft-Ignored has it, or "" if it is empty. It returns
// "" for nil, too.
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

// field adds the field that the tokens lead to.
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

// add adds an escaped name, which needs no escape of a quoted string.
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
