package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/auth"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/person"
)

// action is what a form does, as the operation of the API does it.
type action struct {
	operation string      // of the contract
	role      person.Role // the least that may, as the contract has it
	section   string      // of the page, to come back to
	do        func(c *console, ctx context.Context, r *http.Request, v visitor) (shown, error)
}

// actions are the forms of a workspace's page, by what follows its path.
var actions = map[string]action{
	"invitations":                       {"createInvitation", person.Admin, "members", invite},
	"invitations/{invitationId}/revoke": {"revokeInvitation", person.Admin, "members", disinvite},
	"members/{userId}/role":             {"updateMember", person.Admin, "members", setRole},
	"members/{userId}/remove":           {"removeMember", person.Admin, "members", remove},
	"api-keys":                          {"createApiKey", person.Admin, "keys", createKey},
	"api-keys/{keyId}/rotate":           {"rotateApiKey", person.Admin, "keys", rotateKey},
	"api-keys/{keyId}/revoke":           {"revokeApiKey", person.Admin, "keys", revokeKey},
}

// act does what a form asks. What has something to show this once shows it; all
// else leads back to the page, so that reloading does nothing twice.
func (c *console) act(a action) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, v, err := c.member(r)
		if err != nil {
			return err
		}
		var once shown
		if !v.Role.Reaches(a.role) {
			err = person.NotAllowed(a.role)
		} else {
			once, err = a.do(c, ctx, r, v)
		}
		if err != nil {
			if denied, ok := errors.AsType[*fault.Error](err); ok && denied.Code == fault.Forbidden {
				c.Audit.Deny(ctx, v.WorkspaceID, v.actor(), a.operation, denied.Reason)
			}
			status, message := c.explain(ctx, w.Header(), err)
			return c.show(ctx, w, status, v, message, shown{})
		}
		if once != (shown{}) {
			if err := c.show(ctx, w, http.StatusOK, v, "", once); err != nil {
				// It is made, and can be shown here only: without the rest of the page.
				c.Log.WarnContext(ctx, "a page shows only what it shows once", "error", err)
				c.render(w, http.StatusOK, "once", settingsPage{Workspace: api.Workspace{ID: v.WorkspaceID}, shown: once})
			}
			return nil
		}
		return seeOther(w, r, "/settings/workspaces/"+v.WorkspaceID.String()+"#"+a.section)
	}
}

// role is the role that a form gives.
func role(r *http.Request) (person.Role, error) {
	for _, role := range person.Roles() {
		if r.PostFormValue("role") == string(role) {
			return role, nil
		}
	}
	return "", fault.Invalid("/role", "There is no such role.")
}

func invite(c *console, ctx context.Context, r *http.Request, v visitor) (shown, error) {
	role, err := role(r)
	if err != nil {
		return shown{}, err
	}
	made, err := c.People.Invite(ctx, v.Member, r.PostFormValue("email"), role)
	if err != nil {
		return shown{}, err
	}
	return shown{Link: person.InvitationURL(c.Proxies.Origin(r), made), For: made.Email}, nil
}

func disinvite(c *console, ctx context.Context, r *http.Request, v visitor) (shown, error) {
	id, err := pathID(r, "invitationId")
	if err == nil {
		_, err = c.People.Disinvite(ctx, v.Member, id)
	}
	return shown{}, err
}

func setRole(c *console, ctx context.Context, r *http.Request, v visitor) (shown, error) {
	id, err := pathID(r, "userId")
	if err != nil {
		return shown{}, err
	}
	role, err := role(r)
	if err == nil {
		_, err = c.People.SetRole(ctx, v.Member, id, role)
	}
	return shown{}, err
}

func remove(c *console, ctx context.Context, r *http.Request, v visitor) (shown, error) {
	id, err := pathID(r, "userId")
	if err == nil {
		_, err = c.People.Remove(ctx, v.Member, id)
	}
	return shown{}, err
}

// createKey takes the workflows one in a line, or none for all.
func createKey(c *console, ctx context.Context, r *http.Request, v visitor) (shown, error) {
	var workflows []uuid.UUID
	for _, text := range strings.Fields(r.PostFormValue("workflows")) {
		id, err := uuid.Parse(text)
		if err != nil {
			return shown{}, fault.Invalid("/allowedWorkflowIds", "A workflow is named by its id, one in each line.")
		}
		workflows = append(workflows, id)
	}
	made, err := c.Keys.Create(ctx, auth.CreateParams{
		WorkspaceID: v.WorkspaceID, Label: r.PostFormValue("label"), AllowedWorkflowIDs: workflows, CreatedBy: &v.ID,
	})
	if err != nil {
		return shown{}, err
	}
	return shown{Key: &made}, nil
}

func rotateKey(c *console, ctx context.Context, r *http.Request, v visitor) (shown, error) {
	id, err := pathID(r, "keyId")
	if err != nil {
		return shown{}, err
	}
	hours, err := strconv.Atoi(r.PostFormValue("hours"))
	if err != nil || hours < 0 || hours > 168 {
		return shown{}, fault.Invalid("/overlapSeconds", "The old key can go on for 0 to 168 hours.")
	}
	made, err := c.Keys.Rotate(ctx, auth.RotateParams{
		WorkspaceID: v.WorkspaceID, KeyID: id, Overlap: time.Duration(hours) * time.Hour, By: &v.ID,
	})
	if err != nil {
		return shown{}, err
	}
	return shown{Key: &made}, nil
}

func revokeKey(c *console, ctx context.Context, r *http.Request, v visitor) (shown, error) {
	id, err := pathID(r, "keyId")
	if err == nil {
		_, err = c.Keys.Revoke(ctx, v.WorkspaceID, id)
	}
	return shown{}, err
}
