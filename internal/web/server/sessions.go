package server

import (
	"context"
	"net/http"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
)

// signedIn is a session that has begun, as an answer: with its cookie.
type signedIn struct {
	session api.Session
	cookie  *http.Cookie
}

// VisitCreateSessionResponse writes the session and sets the cookie.
func (a signedIn) VisitCreateSessionResponse(w http.ResponseWriter) error {
	http.SetCookie(w, a.cookie) // alone: the contract has no other
	return writeJSON(w, a.session)
}

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
func (s *Server) welcome(ctx context.Context, visit visit, session person.Session) (signedIn, error) {
	current, err := s.people.Current(ctx, session.Person, session.ExpiresAt)
	return signedIn{
		session: api.Session{Token: session.Token, ExpiresAt: current.ExpiresAt, User: current.User, Workspaces: current.Workspaces},
		cookie:  person.Cookie(session.Token, visit.secure),
	}, err
}

// GetCurrentSession says who is signed in.
func (s *Server) GetCurrentSession(ctx context.Context, _ api.GetCurrentSessionRequestObject) (api.GetCurrentSessionResponseObject, error) {
	member := callOf(ctx).member
	current, err := s.people.Current(ctx, member.Person, member.ExpiresAt)
	return api.GetCurrentSession200JSONResponse(current), err
}

// signedOut is a session that has ended, as an answer: without its cookie.
type signedOut struct {
	session api.CurrentSession
	cookie  *http.Cookie
}

// VisitDeleteCurrentSessionResponse writes the session and removes the cookie.
func (a signedOut) VisitDeleteCurrentSessionResponse(w http.ResponseWriter) error {
	http.SetCookie(w, a.cookie)
	return writeJSON(w, a.session)
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
	return signedOut{session: current, cookie: person.Cookie("", call.visit.secure)}, nil
}
