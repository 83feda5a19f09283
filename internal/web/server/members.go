package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
)

// page returns the page that the parameters of a list request.
func page(size *api.Limit, cursor *api.Cursor) person.Page {
	return person.Page{Limit: limit(size), Cursor: value(cursor)}
}

// ListMembers returns one page of the members.
func (s *Server) ListMembers(ctx context.Context, request api.ListMembersRequestObject) (api.ListMembersResponseObject, error) {
	members, err := s.People.Members(ctx, callOf(ctx).member.WorkspaceID, page(request.Params.Limit, request.Params.Cursor))
	members.NextCursor = s.bind(ctx, members.NextCursor)
	return api.ListMembers200JSONResponse(members), err
}

// UpdateMember changes the role of a member.
func (s *Server) UpdateMember(ctx context.Context, request api.UpdateMemberRequestObject) (api.UpdateMemberResponseObject, error) {
	member, err := s.People.SetRole(ctx, callOf(ctx).member, request.UserID, person.Role(request.Body.Role))
	return api.UpdateMember200JSONResponse(member), err
}

// RemoveMember removes a member from the workspace.
func (s *Server) RemoveMember(ctx context.Context, request api.RemoveMemberRequestObject) (api.RemoveMemberResponseObject, error) {
	member, err := s.People.Remove(ctx, callOf(ctx).member, request.UserID)
	return api.RemoveMember200JSONResponse(member), err
}

// ListInvitations returns one page of the invitations.
func (s *Server) ListInvitations(ctx context.Context, request api.ListInvitationsRequestObject) (api.ListInvitationsResponseObject, error) {
	invitations, err := s.People.Invitations(ctx, callOf(ctx).member.WorkspaceID, page(request.Params.Limit, request.Params.Cursor))
	invitations.NextCursor = s.bind(ctx, invitations.NextCursor)
	return api.ListInvitations200JSONResponse(invitations), err
}

// CreateInvitation creates an invitation. Only this response contains its token and link.
func (s *Server) CreateInvitation(ctx context.Context, request api.CreateInvitationRequestObject) (api.CreateInvitationResponseObject, error) {
	call := callOf(ctx)
	made, err := s.People.Invite(ctx, call.member, request.Body.Email, person.Role(request.Body.Role))
	return api.CreateInvitation200JSONResponse{
		ID: made.ID, Email: made.Email, Role: made.Role, CreatedAt: made.CreatedAt, ExpiresAt: made.ExpiresAt,
		Token: made.Token, URL: person.InvitationURL(call.visit.origin, made), Mailed: made.Mailed,
	}, err
}

// RevokeInvitation revokes an invitation.
func (s *Server) RevokeInvitation(ctx context.Context, request api.RevokeInvitationRequestObject) (api.RevokeInvitationResponseObject, error) {
	invitation, err := s.People.RevokeInvitation(ctx, callOf(ctx).member, request.InvitationID)
	return api.RevokeInvitation200JSONResponse(invitation), err
}

// AcceptInvitation makes the holder of the token a member and signs them in.
func (s *Server) AcceptInvitation(ctx context.Context, request api.AcceptInvitationRequestObject) (api.AcceptInvitationResponseObject, error) {
	visit := callOf(ctx).visit
	session, err := s.People.Accept(ctx, person.Acceptance{
		Token: request.Body.Token, Name: request.Body.Name, Password: request.Body.Password, Client: visit.client,
	})
	if err != nil {
		return nil, err
	}
	return s.signedIn(ctx, visit, session)
}
