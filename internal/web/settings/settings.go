package settings

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/web/protocol"
	"github.com/weft-automation/weft/internal/workflow"
)

// How many rows of a list a page shows.
const (
	shownRows   = 100
	shownEvents = 10
)

// settingsPage is the data of a workspace's page.
type settingsPage struct {
	page.Frame
	Manages     bool // may manage keys and members
	Workspace   api.Workspace
	Credits     api.Credits
	Members     api.MemberPage
	Invitations api.InvitationPage // open invitations
	Active      api.APIKeyPage     // active keys
	Newest      api.APIKeyPage     // newest keys, including revoked and expired ones
	Workflows   api.WorkflowPage   // newest workflows that aren't archived
	Roles       []person.Role      // that the person may assign

	Events []api.AuditEvent // the latest; empty if the role may not see them

	refusal
	shown
}

// refusal is the error of a form that was rejected, and what was typed into it.
type refusal struct {
	At    string // the form, or a section
	Text  string
	Typed url.Values
}

// FaultAt returns the error of the form or section, or "".
func (r refusal) FaultAt(at string) string {
	if r.At != at {
		return ""
	}
	return r.Text
}

// TypedIn returns what was typed into a field of the form, if it was rejected.
func (r refusal) TypedIn(form, field string) string {
	if r.At != form {
		return ""
	}
	return r.Typed.Get(field)
}

// shown is what the page shows only once, in the response to a form.
type shown struct {
	Key         *auth.Created
	Credentials string // credentials file with the key
	Link        string // of an invitation
	For         string // e-mail address of the invited person
	Mailed      bool   // the service sent an e-mail with another link
}

// settings shows the page of a workspace.
func (s *site) settings(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := s.Member(r)
	if err != nil {
		return err
	}
	return s.show(ctx, w, http.StatusOK, v, refusal{}, shown{})
}

// show renders the page of a workspace, with the error of a form or what is shown only once.
func (s *site) show(ctx context.Context, w http.ResponseWriter, status int, v page.Visitor, rejected refusal, once shown) error {
	p := settingsPage{Manages: v.Role.Reaches(person.Admin), refusal: rejected, shown: once, Roles: person.Roles()}
	if v.Role != person.Owner {
		p.Roles = p.Roles[1:]
	}
	var err error
	if p.Frame, err = s.Frame(ctx, v, "settings", "Settings"); err != nil {
		return err
	}
	if p.Workspace, err = s.Workspaces.Get(ctx, v.WorkspaceID, string(v.Role)); err != nil {
		return err
	}
	if p.Credits, err = s.Credits.Credits(ctx, v.WorkspaceID); err != nil {
		return err
	}
	if p.Members, err = s.People.Members(ctx, v.WorkspaceID, person.Page{Limit: shownRows}); err != nil {
		return err
	}
	if p.Invitations, err = s.People.OpenInvitations(ctx, v.WorkspaceID, person.Page{Limit: shownRows}); err != nil {
		return err
	}
	if p.Active, err = s.Keys.ActivePage(ctx, v.WorkspaceID, shownRows, ""); err != nil {
		return err
	}
	if p.Newest, err = s.Keys.Page(ctx, v.WorkspaceID, shownRows, ""); err != nil {
		return err
	}
	if p.Workflows, err = s.Workflows.List(ctx, v.WorkspaceID, workflow.ListParams{Limit: shownRows}); err != nil {
		return err
	}
	if v.Role.Reaches(person.Admin) {
		events, err := s.Audit.List(ctx, v.WorkspaceID, shownEvents, "")
		if err != nil {
			return err
		}
		p.Events = events.Data
	}
	s.Render(w, status, "settings", p)
	return nil
}

// NewID returns the ID of the resource that a form on the page will create. It makes
// resubmitting the form harmless.
func (p settingsPage) NewID() (uuid.UUID, error) { return uuid7.New() }

// Selected reports whether the workflow was selected in a rejected form for a new key.
func (p settingsPage) Selected(id uuid.UUID) bool {
	return p.At == "new" && slices.Contains(p.Typed["workflow"], id.String())
}

// WorkflowNames returns the names of workflows, separated by commas. It returns the ID of a
// workflow that is not on the page, such as an archived one.
func (p settingsPage) WorkflowNames(ids []uuid.UUID) string {
	var names []string
	for _, id := range ids {
		name := id.String()
		for _, w := range p.Workflows.Data {
			if w.ID == id {
				name = w.Name
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Ended returns the revoked and expired keys among the newest.
func (p settingsPage) Ended() (keys []api.APIKey) {
	for _, key := range p.Newest.Data {
		if key.RevokedAt != nil || key.ExpiresAt != nil && !key.ExpiresAt.Std().After(time.Now()) {
			keys = append(keys, key)
		}
	}
	return keys
}

// LastOwner reports whether the member is the only owner of the workspace.
func (p settingsPage) LastOwner(m api.Member) bool {
	owners := 0
	for _, one := range p.Members.Data {
		if one.Role == api.RoleOwner {
			owners++
		}
	}
	return m.Role == api.RoleOwner && owners == 1 && !p.Members.HasMore
}

// LastKey reports whether no other key stays active if the key is revoked. Keys that expire, such
// as a key that was rotated, don't stay active.
func (p settingsPage) LastKey(key api.APIKey) bool {
	for _, other := range p.Active.Data {
		if other.ID != key.ID && other.ExpiresAt == nil {
			return false
		}
	}
	return !p.Active.HasMore && (key.ExpiresAt == nil || len(p.Active.Data) == 1)
}

// MayChange reports whether the person may change a member with that role. Only owners may
// change owners.
func (p settingsPage) MayChange(role api.Role) bool {
	return p.Manages && (role != api.RoleOwner || p.Role == person.Owner)
}

// pathID returns the ID in a path parameter. It returns NOT_FOUND if it is malformed.
func pathID(r *http.Request, name string) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue(name))
	if err != nil {
		return id, contract.Missing(name)
	}
	return id, nil
}

// statement sends the whole ledger of a workspace as a CSV file, to any member. The page can't
// link to the API instead, because for a link browsers don't send Accept: text/csv.
func (s *site) statement(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := s.Member(r)
	if err != nil {
		return err
	}
	file, err := s.Credits.File(ctx, billing.Statement{WorkspaceID: v.WorkspaceID})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="ledger.csv"`)
	parts := protocol.Parts(ctx, w)
	defer parts.Finish()
	if err := file.Write(parts.Context, w, parts.Next); err != nil {
		s.Log.WarnContext(ctx, "statement cut off", "error", err)
		panic(http.ErrAbortHandler) // so that the client notices that it is incomplete
	}
	return nil
}

// actionText returns the action of an audit event as a phrase.
func actionText(action string) string {
	text := strings.NewReplacer(".", " ", "_", " ").Replace(action)
	if rest, ok := strings.CutPrefix(text, "api key"); ok {
		return "API key" + rest
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// subject returns the name of an audit event's subject, or else its ID or reference.
func subject(event api.AuditEvent) string {
	var named struct{ Label, Email, Name, Reference string }
	_ = json.Unmarshal(event.Details, &named) // other details contain no name
	for _, name := range []string{named.Label, named.Email, named.Name} {
		if name != "" {
			return name
		}
	}
	if event.Subject != nil {
		return event.Subject.ID
	}
	return named.Reference
}
