package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
)

// CreateSession signs somebody in.
func (s *Server) CreateSession(ctx context.Context, request api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	visit := callOf(ctx).visit
	session, err := s.people.SignIn(ctx, person.Credentials{
		Email: request.Body.Email, Password: request.Body.Password, Client: visit.client, Device: visit.device,
	})
	if err != nil {
		return nil, err
	}
	return s.welcome(ctx, visit, session)
}

// welcome is the answer to who has just signed in.
func (s *Server) welcome(ctx context.Context, visit visit, session person.Session) (response, error) {
	current, err := s.people.Current(ctx, session.Person, session.ExpiresAt)
	signedIn := api.Session{Token: session.Token, ExpiresAt: current.ExpiresAt, User: current.User, Workspaces: current.Workspaces}
	return jsonResponse(signedIn).with("Set-Cookie", person.Cookie(session.Token, visit.secure).String()), err // alone: the contract has no other
}

// GetCurrentSession says who is signed in.
func (s *Server) GetCurrentSession(ctx context.Context, _ api.GetCurrentSessionRequestObject) (api.GetCurrentSessionResponseObject, error) {
	member := callOf(ctx).member
	current, err := s.people.Current(ctx, member.Person, member.ExpiresAt)
	return api.GetCurrentSession200JSONResponse(current), err
}

// DeleteCurrentSession signs the person of the session out.
func (s *Server) DeleteCurrentSession(ctx context.Context, _ api.DeleteCurrentSessionRequestObject) (api.DeleteCurrentSessionResponseObject, error) {
	call := callOf(ctx)
	current, err := s.people.Current(ctx, call.member.Person, call.member.ExpiresAt)
	if err != nil {
		return nil, err
	}
	if err := s.people.SignOut(ctx, call.visit.token); err != nil {
		return nil, err
	}
	return jsonResponse(current).with("Set-Cookie", person.Cookie("", call.visit.secure).String()), nil
}
