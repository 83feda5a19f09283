package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/page"
)

// filter selects items of a list. Its values are those of the query.
type filter struct {
	base   string // path of the page
	values url.Values
}

// filterOf returns the named values in the query of a request.
func filterOf(r *http.Request, base string, names ...string) filter {
	f := filter{base: base, values: url.Values{}}
	for _, name := range names {
		if value := r.URL.Query().Get(name); value != "" {
			f.values.Set(name, value)
		}
	}
	return f
}

// Get returns a value, or "" for all.
func (f filter) Get(name string) string { return f.values.Get(name) }

// Any reports whether the filter leaves out items.
func (f filter) Any() bool { return len(f.values) > 0 }

// With returns the address of the first page with another value of a parameter.
func (f filter) With(name string, value any) string {
	return f.address(func(query url.Values) { query.Set(name, page.Word(value)) })
}

// Base returns the address of the list without a filter.
func (f filter) Base() string { return f.base }

// next returns the address of the next page, or "".
func (f filter) next(cursor *string) string {
	if cursor == nil {
		return ""
	}
	return f.address(func(query url.Values) { query.Set("cursor", *cursor) })
}

// address returns the address of the list after a change of the query. Empty values are left out.
func (f filter) address(change func(url.Values)) string {
	query := url.Values{}
	for name := range f.values {
		query.Set(name, f.values.Get(name))
	}
	change(query)
	for name := range query {
		if query.Get(name) == "" {
			query.Del(name)
		}
	}
	if len(query) == 0 {
		return f.base
	}
	return f.base + "?" + query.Encode()
}

// Periods returns the values of the parameter since, the shortest first.
func (filter) Periods() []string { return []string{"1h", "24h", "7d", "30d"} }

var periods = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}

// since returns the beginning of the period in the filter, or nil. It returns INVALID_INPUT for an
// unknown period.
func (f filter) since() (*time.Time, error) {
	name := f.Get("since")
	if name == "" {
		return nil, nil
	}
	period, ok := periods[name]
	if !ok {
		return nil, fault.New(fault.InvalidInput, "There is no period %q.", name)
	}
	return new(time.Now().Add(-period)), nil
}
