package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
)

// CheckSignature explains whether the server would accept a signature, and if not, why.
func (s *Server) CheckSignature(ctx context.Context, request api.CheckSignatureRequestObject) (api.CheckSignatureResponseObject, error) {
	call := callOf(ctx)
	result, err := s.streams.verifier.Check(ctx, auth.Claim{
		SignatureCheckRequest: *request.Body, Sent: call.sent, Client: call.visit.client, Host: call.visit.host(),
	})
	return api.CheckSignature200JSONResponse(result), err
}
