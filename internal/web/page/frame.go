package page

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// Frame is what surrounds every page of the console.
type Frame struct {
	Title      string
	Section    string // of the navigation
	User       api.User
	Role       person.Role
	Workspace  api.Membership
	Workspaces []api.Membership // of the person
	Edits      bool             // may trigger, signal and cancel
	Follow     string           // address of the event stream whose events reload the page; may be empty
	Fault      string           // error of a form; may be empty
}

// Base returns the path of the workspace in the console.
func (f Frame) Base() string { return Base(f.Workspace.ID) }

// Base returns the path of a workspace in the console.
func Base(workspaceID uuid.UUID) string { return "/console/" + workspaceID.String() }

// Frame returns the frame of a page for a member of a workspace.
func (s *Site) Frame(ctx context.Context, v Visitor, section, title string) (f Frame, err error) {
	current, err := s.People.Current(ctx, v.Person, v.ExpiresAt)
	if err != nil {
		return f, err
	}
	f = Frame{
		Title: title, Section: section, User: current.User, Role: v.Role, Workspaces: current.Workspaces, Edits: v.Role.Reaches(person.Editor),
	}
	for _, one := range current.Workspaces {
		if one.ID == v.WorkspaceID {
			f.Workspace = one
		}
	}
	return f, nil
}

// Member returns the visitor as a member of the workspace in the path, and a context that is
// limited to that workspace.
func (s *Site) Member(r *http.Request) (context.Context, Visitor, error) {
	id, err := uuid.Parse(r.PathValue("workspaceId"))
	if err != nil {
		id = uuid.Max // matches no workspace
	}
	v, err := s.Visitor(r, &id)
	if fault.CodeOf(err) == fault.NotFound {
		err = fault.New(fault.NotFound, "There is no workspace at this address, or you are no longer a member of it.")
	}
	ctx := audit.By(postgres.Scope(r.Context(), id), v.Actor())
	if !v.Role.Reaches(person.Editor) {
		ctx = vault.Withhold(ctx)
	}
	return ctx, v, err
}

// Actor returns the visitor for the audit log.
func (v Visitor) Actor() audit.Actor { return audit.Actor{Kind: audit.User, ID: v.ID} }

// Forget deletes the session cookie.
func (s *Site) Forget(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, person.Cookie("", s.Proxies.Secure(r)))
}
