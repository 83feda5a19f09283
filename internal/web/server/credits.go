package server

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// GetWorkspaceOfKey returns the workspace and the key that signed the request.
func (s *Server) GetWorkspaceOfKey(ctx context.Context, _ api.GetWorkspaceOfKeyRequestObject) (api.GetWorkspaceOfKeyResponseObject, error) {
	principal := callOf(ctx).principal
	credits, err := s.Credits.Credits(ctx, principal.WorkspaceID)
	if err != nil {
		return nil, err
	}
	name, label, err := s.Workspaces.OfKey(ctx, principal.WorkspaceID, principal.KeyID)
	if err != nil {
		return nil, err
	}
	allowed := principal.Workflows
	if allowed == nil {
		allowed = []uuid.UUID{}
	}
	return api.GetWorkspaceOfKey200JSONResponse{
		ID: principal.WorkspaceID, Name: name, Plan: credits.Plan, Credits: credits,
		APIKey: api.CallingAPIKey{ID: principal.KeyID, Label: label, AllowedWorkflowIds: allowed},
	}, nil
}

// GetCredits returns the credits of a workspace.
func (s *Server) GetCredits(ctx context.Context, request api.GetCreditsRequestObject) (api.GetCreditsResponseObject, error) {
	credits, err := s.Credits.Credits(ctx, request.WorkspaceID)
	return api.GetCredits200JSONResponse(credits), err
}

// ListLedger returns one page of the ledger, or the whole ledger as a CSV file if the client
// accepts only CSV.
func (s *Server) ListLedger(ctx context.Context, request api.ListLedgerRequestObject) (api.ListLedgerResponseObject, error) {
	statement := billing.Statement{WorkspaceID: request.WorkspaceID}
	if from := request.Params.From; from != nil {
		statement.From = &from.Time
	}
	if to := request.Params.To; to != nil {
		statement.To = &to.Time
	}
	if callOf(ctx).media != ledgerFileMedia {
		page, err := s.Credits.Page(ctx, statement, limit(request.Params.Limit), value(request.Params.Cursor))
		page.NextCursor = s.bind(ctx, page.NextCursor)
		return api.ListLedger200JSONResponse(page), err
	}
	file, err := s.Credits.File(ctx, statement)
	if err != nil {
		return nil, err
	}
	write := func(w http.ResponseWriter) error {
		parts := protocol.Parts(ctx, w)
		defer parts.Finish()
		return file.Write(parts.Context, w, parts.Next)
	}
	return response(write).with("Content-Type", ledgerFileMedia+"; charset=utf-8").with("Content-Disposition", `attachment; filename="ledger.csv"`), nil
}

const ledgerFileMedia = "text/csv"
