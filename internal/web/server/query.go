package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/web/contract"
)

// checkParameters checks the parameters of a request. It returns the errors of
// Operation.CheckParameters, together with the faults that the schema of a query parameter cannot
// express. Services check these again. If only services did, a request would get one fault at a time.
func checkParameters(r *http.Request, operation *contract.Operation, query url.Values, ignored *contract.Ignored) error {
	err := operation.CheckParameters(r.PathValue, query, r.Header, ignored)
	for _, name := range operation.Parameters() {
		if !query.Has(name) || faulty(err, "/query/"+name) {
			continue
		}
		switch name {
		case "cursor":
			err = contract.Together(err, checkCursor(operation, callOf(r.Context()).owner(), query))
		case "from":
			if !faulty(err, "/query/to") {
				err = contract.Together(err, billing.CheckDays(day(query, "from"), day(query, "to")))
			}
		case "createdAfter":
			if !faulty(err, "/query/createdBefore") {
				_, wrong := createdIn(query.Get(name), query.Get("createdBefore"))
				err = contract.Together(err, wrong)
			}
		}
	}
	return err
}

// positions has the number of bytes of a position in each list, by the operation that returns the
// list. The position in listComponents is a name.
var positions = map[string]int{
	"listApiKeys": 16, "listAuditEvents": 16, "listCallbackAttempts": 4, "listRunCallbackAttempts": 4, "listComponentExecutions": 16,
	"listEnvironmentVariables": 16, "listHooks": 16, "listInvitations": 16, "listLedger": 16, "listMembers": 24, "listRunEvents": 8,
	"listRunStages": 16, "listSchedules": 16, "listWorkflowRuns": 16, "listWorkflows": 16, "listWorkspaceEnvironmentVariables": 16,
	"listWorkspaces": 16,
}

// filters are the query parameters that select the items of a list, in the order of their names.
var filters = []string{"createdAfter", "createdBefore", "module", "status", "trigger", "workflowId"}

// newFilters are the filters that the previous release doesn't know, by their operations. A cursor of
// a request with one of them is always bound, because that release can't serve the request anyway.
var newFilters = map[string][]string{
	"listComponentExecutions": {"createdAfter", "createdBefore", "module", "status"},
	"listWorkflowRuns":        {"createdAfter", "createdBefore", "trigger"},
}

// cursorScope returns the scope of the cursors of a request: its list, owner and filters. It also
// reports whether these cursors are always bound.
func cursorScope(operation *contract.Operation, ownerID uuid.UUID, query url.Values) (scope cursor.Scope, bound bool) {
	list := operation.ID
	for _, name := range filters {
		if !query.Has(name) || !slices.Contains(operation.Parameters(), name) {
			continue
		}
		filter := query.Get(name)
		if at, err := timestamp.Parse(filter); err == nil {
			filter = at.UTC().Format(time.RFC3339Nano)
		}
		if name == "workflowId" {
			filter = strings.ToLower(filter)
		}
		list += "&" + name + "=" + filter
		bound = bound || slices.Contains(newFilters[operation.ID], name)
	}
	return cursor.NewScope(list, ownerID), bound
}

// checkCursor returns INVALID_INPUT if the cursor of the query is not a cursor of the owner's list
// that the operation returns, with the same filters.
func checkCursor(operation *contract.Operation, ownerID uuid.UUID, query url.Values) error {
	text := query.Get("cursor")
	scope, bound := cursorScope(operation, ownerID, query)
	check := scope.Check
	if bound {
		check = scope.CheckBound
	}
	if err := check(text); err != nil {
		return err
	}
	var err error
	if operation.ID == "listComponents" {
		_, err = cursor.DecodeName(text)
	} else {
		_, err = cursor.Decode(text, positions[operation.ID])
	}
	return err
}

// bind returns the cursor of the next page, bound to its scope if BindCursors is set or if the
// request has a new filter.
func (s *Server) bind(ctx context.Context, next *string) *string {
	if next == nil {
		return nil
	}
	call := callOf(ctx)
	scope, bound := cursorScope(call.operation, call.owner(), call.query)
	if bound || s.BindCursors {
		return scope.Bind(*next)
	}
	return next
}

// createdIn returns the period of the parameters createdAfter and createdBefore, which are empty if
// they are missing. It returns INVALID_INPUT for an invalid time and for an empty period.
func createdIn(after, before string) (period cursor.Created, err error) {
	for _, bound := range []struct {
		pointer, text string
		at            **time.Time
	}{{"/query/createdAfter", after, &period.After}, {"/query/createdBefore", before, &period.Before}} {
		if bound.text == "" {
			continue
		}
		at, err := timestamp.Parse(bound.text)
		if err != nil {
			return period, fault.InvalidAt(bound.pointer, "%s", err)
		}
		*bound.at = &at
	}
	return period, period.Check()
}

// faulty reports whether err has a fault at the pointer.
func faulty(err error, pointer string) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && slices.ContainsFunc(e.Details, func(d fault.Detail) bool { return d.Pointer == pointer })
}

// day returns the date in a query parameter, or nil if it is missing or malformed.
func day(query url.Values, name string) *time.Time {
	date, err := time.Parse(time.DateOnly, query.Get(name))
	if err != nil {
		return nil
	}
	return &date
}
