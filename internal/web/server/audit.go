package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
)

// ListAuditEvents returns one page of the workspace's audit log.
func (s *Server) ListAuditEvents(ctx context.Context, request api.ListAuditEventsRequestObject) (api.ListAuditEventsResponseObject, error) {
	page, err := s.Audit.List(ctx, callOf(ctx).member.WorkspaceID, limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListAuditEvents200JSONResponse(page), err
}
