package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
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
			err = contract.Together(err, checkCursor(operation.ID, callOf(r.Context()).owner(), query.Get(name)))
		case "from":
			if !faulty(err, "/query/to") {
				err = contract.Together(err, billing.CheckDays(day(query, "from"), day(query, "to")))
			}
		}
	}
	return err
}

// positions has the number of bytes of a position in each list, by the operation that returns the
// list. The position in listComponents is a name.
var positions = map[string]int{
	"listApiKeys": 16, "listAuditEvents": 16, "listCallbackAttempts": 4, "listComponentExecutions": 16,
	"listEnvironmentVariables": 16, "listHooks": 16, "listInvitations": 16, "listLedger": 16, "listMembers": 24, "listRunEvents": 8,
	"listRunStages": 16, "listSchedules": 16, "listWorkflowRuns": 16, "listWorkflows": 16, "listWorkspaceEnvironmentVariables": 16,
	"listWorkspaces": 16,
}

// checkCursor returns INVALID_INPUT if text is not a cursor of the owner's list that the operation
// returns.
func checkCursor(operation string, ownerID uuid.UUID, text string) error {
	if err := cursor.NewScope(operation, ownerID).Check(text); err != nil {
		return err
	}
	var err error
	if operation == "listComponents" {
		_, err = cursor.DecodeName(text)
	} else {
		_, err = cursor.Decode(text, positions[operation])
	}
	return err
}

// bind returns the cursor of the next page, bound to the list and its owner if BindCursors is set.
func (s *Server) bind(ctx context.Context, next *string) *string {
	if next == nil || !s.BindCursors {
		return next
	}
	call := callOf(ctx)
	return cursor.NewScope(call.operation.ID, call.owner()).Bind(*next)
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
