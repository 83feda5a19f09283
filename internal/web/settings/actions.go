package settings

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/web/page"
)

// action is what a form does, like the operation of the API.
type action struct {
	operation string      // operationId in the contract
	role      person.Role // minimum role, as in the contract
	section   string      // of the page, to return to
	form      string      // form that shows the error and keeps what was typed
	do        func(s *site, ctx context.Context, r *http.Request, v page.Visitor) (shown, error)
}

// actions maps the part of the path after the workspace's path to the action of a form.
var actions = map[string]action{
	"invitations":                       {"createInvitation", person.Admin, "members", "invite", invite},
	"invitations/{invitationId}/revoke": {"revokeInvitation", person.Admin, "members", "members", disinvite},
	"members/{userId}/role":             {"updateMember", person.Admin, "members", "members", setRole},
	"members/{userId}/remove":           {"removeMember", person.Admin, "members", "members", remove},
	"api-keys":                          {"createApiKey", person.Admin, "keys", "new", createKey},
	"api-keys/{keyId}/rotate":           {"rotateApiKey", person.Admin, "keys", "keys", rotateKey},
	"api-keys/{keyId}/revoke":           {"revokeApiKey", person.Admin, "keys", "keys", revokeKey},
}

// act returns the handler of a form. If the result of the action is shown only once, the handler
// responds with the page. Otherwise it redirects to the page. Resubmitting a form has no effect,
// because the form contains the ID of the resource to create.
func (s *site) act(a action) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, v, err := s.Member(r)
		if err != nil {
			return err
		}
		var once shown
		if !v.Role.Reaches(a.role) {
			err = person.NotAllowed(a.role)
		} else {
			once, err = a.do(s, ctx, r, v)
		}
		if err != nil {
			return s.refuse(ctx, w, r, a, v, err)
		}
		if once != (shown{}) {
			if err := s.show(ctx, w, http.StatusOK, v, refusal{}, once); err != nil {
				// The resource exists and can't be shown again, so show it without the rest of
				// the page.
				s.Log.WarnContext(ctx, "page shown without its lists", "error", err)
				s.Render(w, http.StatusOK, "once", settingsPage{Workspace: api.Workspace{ID: v.WorkspaceID}, shown: once})
			}
			return nil
		}
		return page.SeeOther(w, r, "/settings/workspaces/"+v.WorkspaceID.String()+"#"+a.section)
	}
}

// refuse shows the page with the error next to the form, and with the values that the user typed.
// It writes denied actions to the audit log.
func (s *site) refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, a action, v page.Visitor, err error) error {
	met := refusal{At: a.form, Typed: r.PostForm}
	if !v.Role.Reaches(person.Admin) {
		met.At = a.section // the form isn't shown for this role
	}
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		switch failure.Code {
		case fault.Forbidden:
			s.Audit.Deny(ctx, v.WorkspaceID, v.Actor(), a.operation, failure.Reason)
		case fault.Conflict:
			if failure.Reason == "already_made" {
				met.Typed = nil // already created: sending the values again would create another
			}
		}
	}
	var status int
	status, met.Text = s.Explain(ctx, w.Header(), err)
	return s.show(ctx, w, status, v, met, shown{})
}

// back redirects a GET of a form's address to the page with the form.
func back(w http.ResponseWriter, r *http.Request) error {
	return page.SeeOther(w, r, "/settings/workspaces/"+url.PathEscape(r.PathValue("workspaceId")))
}

// role returns the role in a form, or INVALID_INPUT.
func role(r *http.Request) (person.Role, error) {
	for _, role := range person.Roles() {
		if r.PostFormValue("role") == string(role) {
			return role, nil
		}
	}
	return "", fault.Invalid("/role", "Unknown role. Select one from the list.")
}

func invite(s *site, ctx context.Context, r *http.Request, v page.Visitor) (shown, error) {
	role, err := role(r)
	if err != nil {
		return shown{}, err
	}
	id := page.FormID(r)
	if id == uuid.Nil {
		if id, err = uuid7.New(); err != nil {
			return shown{}, err
		}
	}
	made, err := s.People.InviteAs(ctx, v.Member, id, r.PostFormValue("email"), role)
	if err != nil {
		return shown{}, err
	}
	return shown{Link: person.InvitationURL(s.Proxies.Origin(r), made), For: made.Email, Mailed: made.Mailed}, nil
}

func disinvite(s *site, ctx context.Context, r *http.Request, v page.Visitor) (shown, error) {
	id, err := pathID(r, "invitationId")
	if err == nil {
		_, err = s.People.RevokeInvitation(ctx, v.Member, id)
	}
	return shown{}, err
}

func setRole(s *site, ctx context.Context, r *http.Request, v page.Visitor) (shown, error) {
	id, err := pathID(r, "userId")
	if err != nil {
		return shown{}, err
	}
	role, err := role(r)
	if err == nil {
		_, err = s.People.SetRole(ctx, v.Member, id, role)
	}
	return shown{}, err
}

func remove(s *site, ctx context.Context, r *http.Request, v page.Visitor) (shown, error) {
	id, err := pathID(r, "userId")
	if err == nil {
		_, err = s.People.Remove(ctx, v.Member, id)
	}
	return shown{}, err
}

// createKey creates a key for the workflows that are selected in its form. If none is selected, the
// key is unrestricted.
func createKey(s *site, ctx context.Context, r *http.Request, v page.Visitor) (shown, error) {
	label := r.PostFormValue("label") // parses the form
	var workflows []uuid.UUID
	for _, selected := range r.PostForm["workflow"] {
		id, err := uuid.Parse(selected)
		if err != nil {
			return shown{}, fault.Invalid("/allowedWorkflowIds", "Unknown workflow. Select workflows from the list.")
		}
		workflows = append(workflows, id)
	}
	made, err := s.Keys.Create(ctx, auth.CreateParams{
		ID: page.FormID(r), WorkspaceID: v.WorkspaceID, Label: label, AllowedWorkflowIDs: workflows, CreatedBy: &v.ID, May: v.MayManage,
	})
	if err != nil {
		return shown{}, err
	}
	return s.shownKey(r, v, made)
}

// shownKey returns a new key and its credentials file, to show once.
func (s *site) shownKey(r *http.Request, v page.Visitor, made auth.Created) (shown, error) {
	file, err := json.MarshalIndent(struct {
		BaseURL     string    `json:"baseUrl"`
		WorkspaceID uuid.UUID `json:"workspaceId"`
		APIKey      string    `json:"apiKey"`
		APISecret   string    `json:"apiSecret"`
	}{s.Proxies.Origin(r), v.WorkspaceID, made.APIKey, made.APISecret}, "", "  ")
	return shown{Key: &made, Credentials: string(file)}, err
}

func rotateKey(s *site, ctx context.Context, r *http.Request, v page.Visitor) (shown, error) {
	id, err := pathID(r, "keyId")
	if err != nil {
		return shown{}, err
	}
	hours, err := strconv.Atoi(r.PostFormValue("hours"))
	if err != nil || hours < 0 || hours > 168 {
		return shown{}, fault.Invalid("/overlapSeconds", "The old key can remain valid for 0 to 168 hours.")
	}
	made, err := s.Keys.Rotate(ctx, auth.RotateParams{
		ID: page.FormID(r), WorkspaceID: v.WorkspaceID, KeyID: id, Overlap: time.Duration(hours) * time.Hour, By: &v.ID, May: v.MayManage,
	})
	if err != nil {
		return shown{}, err
	}
	return s.shownKey(r, v, made)
}

func revokeKey(s *site, ctx context.Context, r *http.Request, v page.Visitor) (shown, error) {
	id, err := pathID(r, "keyId")
	if err == nil {
		_, err = s.Keys.Revoke(ctx, v.WorkspaceID, id)
	}
	return shown{}, err
}
