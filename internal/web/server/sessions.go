package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
)

// CreateSession signs a person in with their e-mail address and password.
func (s *Server) CreateSession(ctx context.Context, request api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	visit := callOf(ctx).visit
	session, err := s.People.SignIn(ctx, person.Credentials{
		Email: request.Body.Email, Password: request.Body.Password, Client: visit.client, Device: visit.device,
	})
	if err != nil {
		return nil, err
	}
	return s.signedIn(ctx, visit, session)
}

// signedIn returns the response for a new session, with its cookie.
func (s *Server) signedIn(ctx context.Context, visit visit, session person.Session) (response, error) {
	current, err := s.People.Current(ctx, session.Person, session.ExpiresAt)
	body := api.Session{Token: session.Token, ExpiresAt: current.ExpiresAt, User: current.User, Workspaces: current.Workspaces}
	return jsonResponse(body).with("Set-Cookie", person.Cookie(session.Token, visit.secure).String()), err
}

// GetCurrentSession returns the signed-in person, the expiry of the session and their workspaces.
func (s *Server) GetCurrentSession(ctx context.Context, _ api.GetCurrentSessionRequestObject) (api.GetCurrentSessionResponseObject, error) {
	member := callOf(ctx).member
	current, err := s.People.Current(ctx, member.Person, member.ExpiresAt)
	return api.GetCurrentSession200JSONResponse(current), err
}

// DeleteCurrentSession deletes the session and its cookie.
func (s *Server) DeleteCurrentSession(ctx context.Context, _ api.DeleteCurrentSessionRequestObject) (api.DeleteCurrentSessionResponseObject, error) {
	call := callOf(ctx)
	current, err := s.People.Current(ctx, call.member.Person, call.member.ExpiresAt)
	if err != nil {
		return nil, err
	}
	if err := s.People.SignOut(ctx, call.visit.token); err != nil {
		return nil, err
	}
	return jsonResponse(current).with("Set-Cookie", person.Cookie("", call.visit.secure).String()), nil
}
