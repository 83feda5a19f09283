package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
)

// frame is what surrounds every page of the console.
type frame struct {
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
func (f frame) Base() string { return base(f.Workspace.ID) }

func base(workspaceID uuid.UUID) string { return "/console/" + workspaceID.String() }

// frame returns the frame of a page for a member of a workspace.
func (c *console) frame(ctx context.Context, v visitor, section, title string) (f frame, err error) {
	current, err := c.People.Current(ctx, v.Person, v.ExpiresAt)
	if err != nil {
		return f, err
	}
	f = frame{
		Title: title, Section: section, User: current.User, Role: v.Role, Workspaces: current.Workspaces, Edits: v.Role.Reaches(person.Editor),
	}
	for _, one := range current.Workspaces {
		if one.ID == v.WorkspaceID {
			f.Workspace = one
		}
	}
	return f, nil
}

// home redirects to the runs of the person's first workspace, or to the sign-in form.
func (c *console) home(w http.ResponseWriter, r *http.Request) error {
	v, err := c.visitor(r, nil)
	if err != nil {
		return seeOther(w, r, "/settings")
	}
	current, err := c.People.Current(r.Context(), v.Person, v.ExpiresAt)
	if err != nil || len(current.Workspaces) == 0 {
		return seeOther(w, r, "/settings")
	}
	return seeOther(w, r, base(current.Workspaces[0].ID)+"/runs")
}

// toRuns redirects to the runs of the workspace in the path.
func (c *console) toRuns(w http.ResponseWriter, r *http.Request) error {
	return seeOther(w, r, "/console/"+url.PathEscape(r.PathValue("workspaceId"))+"/runs")
}

// everyWorkflow lets a person use all workflows of the workspace. Only keys can be restricted.
type everyWorkflow struct{}

// MayUse returns true.
func (everyWorkflow) MayUse(uuid.UUID) bool { return true }
