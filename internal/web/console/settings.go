package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/web/contract"
)

// How much of a list a page shows.
const (
	shownRows   = 100
	shownEvents = 10
)

// settingsPage is all that the page of a workspace shows.
type settingsPage struct {
	User        api.User
	Role        person.Role
	Manages     bool // makes keys and members
	Workspace   api.Workspace
	Others      []api.Membership // the person's workspaces, this one among them
	Credits     api.Credits
	Members     api.MemberPage
	Invitations api.InvitationPage // that are open
	Active      api.APIKeyPage     // keys that work
	Newest      api.APIKeyPage     // keys, those that have ended among them
	Roles       []person.Role      // that the person may give

	Events []api.AuditEvent // the latest, for those who may see them

	refusal
	shown
}

// refusal is what a form met.
type refusal struct {
	At    string // the form, or a section
	Fault string
	Typed url.Values
}

// Met is what is wrong with what stands there.
func (r refusal) Met(at string) string {
	if r.At != at {
		return ""
	}
	return r.Fault
}

// Given is what was typed into a field of the form that was refused.
func (r refusal) Given(form, field string) string {
	if r.At != form {
		return ""
	}
	return r.Typed.Get(field)
}

// shown is what is shown this once.
type shown struct {
	Key         *auth.Created
	Credentials string // the file that holds the key
	Link        string // of an invitation
	For         string // whom it is for
	Mailed      bool   // the service sent them another link
}

// member is the visitor as a member of the workspace of the path, with the scope
// that goes with it.
func (c *console) member(r *http.Request) (context.Context, visitor, error) {
	id, err := uuid.Parse(r.PathValue("workspaceId"))
	if err != nil {
		id = uuid.Max // of no workspace
	}
	v, err := c.visitor(r, &id)
	if fault.CodeOf(err) == fault.NotFound {
		err = fault.New(fault.NotFound, "There is no workspace at this address, or you do not belong to it any more.")
	}
	return audit.By(postgres.Scope(r.Context(), id), v.actor()), v, err
}

// actor is the visitor in the audit log.
func (v visitor) actor() audit.Actor { return audit.Actor{Kind: audit.User, ID: v.ID} }

// settings is the page of a workspace.
func (c *console) settings(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := c.member(r)
	if err != nil {
		return err
	}
	return c.show(ctx, w, http.StatusOK, v, refusal{}, shown{})
}

// show writes the page of a workspace, with what a form met or what is shown this
// once.
func (c *console) show(ctx context.Context, w http.ResponseWriter, status int, v visitor, met refusal, once shown) error {
	p := settingsPage{Role: v.Role, Manages: v.Role.Reaches(person.Admin), refusal: met, shown: once, Roles: person.Roles()}
	if v.Role != person.Owner {
		p.Roles = p.Roles[1:]
	}
	current, err := c.People.Current(ctx, v.Person, v.ExpiresAt)
	if err != nil {
		return err
	}
	p.User, p.Others = current.User, current.Workspaces
	if p.Workspace, err = c.Workspaces.Get(ctx, v.WorkspaceID, string(v.Role)); err != nil {
		return err
	}
	if p.Credits, err = c.Credits.Credits(ctx, v.WorkspaceID); err != nil {
		return err
	}
	if p.Members, err = c.People.Members(ctx, v.WorkspaceID, person.Page{Limit: shownRows}); err != nil {
		return err
	}
	if p.Invitations, err = c.People.OpenInvitations(ctx, v.WorkspaceID, person.Page{Limit: shownRows}); err != nil {
		return err
	}
	if p.Active, err = c.Keys.ActivePage(ctx, v.WorkspaceID, shownRows, ""); err != nil {
		return err
	}
	if p.Newest, err = c.Keys.Page(ctx, v.WorkspaceID, shownRows, ""); err != nil {
		return err
	}
	if v.Role.Reaches(person.Admin) {
		events, err := c.Audit.List(ctx, v.WorkspaceID, shownEvents, "")
		if err != nil {
			return err
		}
		p.Events = events.Data
	}
	c.render(w, status, "settings", p)
	return nil
}

// NewID is the id of what a form on the page will make.
func (p settingsPage) NewID() (uuid.UUID, error) { return uuid.NewV7() }

// Rows is how high the field of a key's workflows is.
func (p settingsPage) Rows() int { return min(10, 1+strings.Count(p.Given("new", "workflows"), "\n")) }

// Ended are those of the newest keys that work no more.
func (p settingsPage) Ended() (keys []api.APIKey) {
	for _, key := range p.Newest.Data {
		if key.RevokedAt != nil || key.ExpiresAt != nil && past(key.ExpiresAt.Std()) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Touchable says whether the person may change somebody of that role: owners only
// owners may.
func (p settingsPage) Touchable(role api.Role) bool {
	return p.Manages && (role != api.RoleOwner || p.Role == person.Owner)
}

// pathID is an id of the path. NOT_FOUND for what is none.
func pathID(r *http.Request, name string) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue(name))
	if err != nil {
		return id, contract.Missing(name)
	}
	return id, nil
}
