package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// wrongQueries has two faulty values of each query parameter of the lists, except of the cursor.
var wrongQueries = map[string]string{
	"limit=0": "/query/limit", "limit=101": "/query/limit", "limit=x": "/query/limit",
	"status=NONE": "/query/status", "workflowId=1": "/query/workflowId", "after=-1": "/query/after", "from=1": "/query/from", "to=1": "/query/to",
	"from=2026-02-01&to=2026-01-01": "/query/from", "trigger=CRON": "/query/trigger", "createdAfter=1": "/query/createdAfter", "createdBefore=1": "/query/createdBefore",
	"createdAfter=2026-01-01T00:00:00Z&createdBefore=2026-01-01T00:00:00Z": "/query/createdAfter", "cursor=zz": "/query/cursor", "cursor=!": "/query/cursor", "cursor=": "/query/cursor",
}

func TestAllFaultsOfAQueryAreReportedTogether(t *testing.T) {
	document, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	pairs := 0
	for _, o := range document.Operations {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), callKey{}, &call{}), o.Method, "/", nil)
		for parameter := range strings.SplitSeq(o.Path, "/") {
			r.SetPathValue(strings.Trim(parameter, "{}"), executionID)
		}
		for first, at := range wrongQueries {
			for second, other := range wrongQueries {
				if at >= other || !knows(o.Parameters(), first) || !knows(o.Parameters(), second) || at == "/query/from" && other == "/query/to" || at == "/query/createdAfter" && other == "/query/createdBefore" {
					continue
				}
				pairs++
				query, err := url.ParseQuery(first + "&" + second)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := pointersOf(checkParameters(r, o, query, nil)), []string{at, other}; !slices.Equal(got, want) {
					t.Errorf("%s %s&%s: faults at %v, want %v", o.ID, first, second, got, want)
				}
			}
		}
	}
	if pairs < 200 {
		t.Errorf("only %d pairs were checked", pairs)
	}
}

func TestFaultsOfACursorAreInTheResponse(t *testing.T) {
	s := start(t)
	got := s.do(t, "GET", "/v1/sdk/components/executions?limit=0&cursor=zz", "")
	if problem := got.problem(t); got.status != 400 || len(problem.Errors) != 2 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Every list with a cursor knows the size of its positions.
func TestEveryListChecksItsCursor(t *testing.T) {
	document, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range document.Operations {
		if !slices.Contains(o.Parameters(), "cursor") {
			continue
		}
		if checkCursor(o, uuid.Max, url.Values{"cursor": {*cursor.Encode(nil)}}) == nil {
			t.Errorf("%s: accepted a cursor without a position", o.ID)
		}
	}
}

func TestAllFaultsOfACallbackAreReportedTogether(t *testing.T) {
	s := &Server{Deps: Deps{Guard: new(egress.Guard)}}
	ctx := context.WithValue(t.Context(), callKey{}, &call{})
	headers := map[string]string{"Host": "a"}
	for name, c := range map[string]struct {
		url  *string
		want []string
	}{
		"without a URL":     {nil, []string{"/callbackHeaders", "/callbackHeaders/Host", "/callbackSecret", "/maxCredits"}},
		"with a broken URL": {new("ftp://a"), []string{"/callbackHeaders/Host", "/callbackSecret", "/callbackUrl", "/maxCredits"}},
	} {
		_, err := s.submitParams(ctx, &api.ExecuteComponentRequest{MaxCredits: new(json.Number("0.0000001")), CallbackSecret: new(""), CallbackHeaders: headers, CallbackURL: c.url})
		if got := pointersOf(err); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %v, want %v", name, got, c.want)
		}
	}
}

// pointersOf returns where err has faults.
func pointersOf(err error) (pointers []string) {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		for _, d := range e.Details {
			pointers = append(pointers, d.Pointer)
		}
	}
	return slices.Compact(pointers)
}

// knows reports whether an operation has the parameters of a query.
func knows(names []string, query string) bool {
	for part := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(part, "="); !slices.Contains(names, name) {
			return false
		}
	}
	return true
}
