package conformance

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var memberCases = []Case{
	{Part: "D9.2.members", Name: "members/200 inviting, joining, changing, removing", Run: joinAndLeave, Needs: owner},
	{Part: "D9.2.members", Name: "members/403 what a role does not reach", Run: roles, Needs: owner},
	{Part: "D9.2.members", Name: "members/409 and 404 what cannot be", Run: memberConflicts, Needs: owner},
	{Part: "D9.2.members", Name: "invitations/404 a token that is no more", Run: spentTokens, Needs: owner},
	{Part: "D9.2.members", Name: "invitations/401 another's account", Run: joinAnother, Needs: owner},
	{Part: "D9.2.members", Name: "invitations/409 an unverified account joins one workspace", Run: joinTwo, Needs: []probe.Need{probe.NeedOwner, probe.NeedWorkspace}},
	{Part: "D9.2.members", Name: "invitations/429 attempts to accept", Run: acceptFlood, Needs: []probe.Need{probe.NeedForwarded}},
}

const (
	password   = "a long enough password"
	acceptance = "/v1/invitations/accept"
)

// someone returns a new e-mail address.
func someone() string { return strings.ToLower(unique()) + "@conformance.example" }

// within sends a request about the workspace with the token of a session.
func within(t *probe.Trial, token, method, path string, body any) probe.Answer {
	request := probe.Request{
		Method: method, Path: probe.Workspace(t.Target().WorkspaceID) + path, Bearer: token,
		Header: http.Header{"Prefer": {"handling=strict"}},
	}
	if body != nil {
		request.Body = t.JSON(body)
	}
	answer := t.Do(request)
	if body != nil && answer.Status == http.StatusOK {
		t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	}
	return answer
}

func invite(t *probe.Trial, token, email, role string) api.CreatedInvitation {
	answer := within(t, token, http.MethodPost, "/invitations", map[string]string{"email": email, "role": role})
	made := probe.Decode[api.CreatedInvitation](t, answer)
	t.Equal("Cache-Control", answer.Header.Get("Cache-Control"), "no-store")
	t.Equal("email", made.Email, strings.ToLower(email))
	// Behind a proxy, the deployment may have another host name than the one in the request.
	t.Check(strings.HasPrefix(made.URL, "http") && strings.HasSuffix(made.URL, "/settings/invitations#token="+made.Token), "url %s", made.URL)
	return made
}

func accept(t *probe.Trial, token, name, password string) probe.Answer {
	return t.Do(probe.Request{
		Method: http.MethodPost, Path: acceptance, Unsigned: true, Header: http.Header{"Prefer": {"handling=strict"}},
		Body: t.JSON(map[string]string{"token": token, "name": name, "password": password}),
	})
}

// member creates a member and returns their session and ID. The member is removed after the
// trial.
func member(t *probe.Trial, ownerToken, role string) (token, id string) {
	session := probe.Decode[api.Session](t, accept(t, invite(t, ownerToken, someone(), role).Token, "Ada", password))
	dismiss(t, ownerToken, session.User.ID.String())
	return session.Token, session.User.ID.String()
}

// dismiss removes a member after the trial.
func dismiss(t *probe.Trial, ownerToken, id string) {
	path := probe.Workspace(t.Target().WorkspaceID) + "/members/" + id
	t.Cleanup(func() {
		_, _ = t.Try(t.Context(), probe.Request{Method: http.MethodDelete, Path: path, Bearer: ownerToken, Unchecked: true})
	})
}

func joinAndLeave(t *probe.Trial) {
	boss, email := t.SignIn(), someone()
	made := invite(t, boss, upper(email), "editor")
	find := func() *api.Invitation {
		page := probe.Decode[api.InvitationPage](t, within(t, boss, http.MethodGet, "/invitations?limit=100", nil))
		t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
		i := slices.IndexFunc(page.Data, func(i api.Invitation) bool { return i.ID == made.ID })
		t.Check(i >= 0, "the invitation is not in the list")
		return &page.Data[i]
	}
	listed := find()
	t.Equal("expiresAt", listed.ExpiresAt, made.ExpiresAt)
	t.Equal("createdAt", listed.CreatedAt, made.CreatedAt)
	t.Equal("role", listed.Role, made.Role)
	t.Check(listed.Email == email && listed.AcceptedAt == nil && listed.RevokedAt == nil && made.AcceptedAt == nil && made.RevokedAt == nil, "it is not open: %v", listed)
	answer := accept(t, made.Token, "Ada Lovelace", password)
	t.Check(strings.HasPrefix(strings.TrimPrefix(answer.Header.Get("Set-Cookie"), "__Host-"), "weft_session="), "no cookie was set")
	t.Equal("Cache-Control", answer.Header.Get("Cache-Control"), "no-store")
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	session := probe.Decode[api.Session](t, answer)
	t.Equal("user", [2]string{session.User.Email, session.User.Name}, [2]string{email, "Ada Lovelace"})
	t.Equal("roles", session.Workspaces[0].Role, api.RoleEditor)
	t.Check(session.Workspaces[0].ID.String() == t.Target().WorkspaceID && session.Workspaces[0].Name != "", "workspaces %v", session.Workspaces)
	t.Equal("the session", probe.Decode[api.CurrentSession](t, t.Do(probe.Request{Path: probe.Current, Bearer: session.Token})).ExpiresAt, session.ExpiresAt)
	t.Check(find().AcceptedAt != nil, "the invitation is still open")

	page := probe.Decode[api.MemberPage](t, within(t, boss, http.MethodGet, "/members?limit=100", nil))
	t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
	at := slices.IndexFunc(page.Data, func(m api.Member) bool { return m.UserID == session.User.ID })
	t.Check(at >= 0, "the member is not in the list")
	want := page.Data[at]
	t.Equal("emailVerified of a person who came by a link", want.EmailVerified, false)
	t.Equal("member", [3]string{want.Email, want.Name, string(want.Role)}, [3]string{email, "Ada Lovelace", "editor"})
	path := "/members/" + session.User.ID.String()
	want.Role = api.RoleViewer
	t.Equal("the changed member", probe.Decode[api.Member](t, within(t, boss, http.MethodPut, path, map[string]string{"role": "viewer"})), want)
	t.Equal("their own role", probe.Decode[api.Workspace](t, within(t, session.Token, http.MethodGet, "", nil)).Role, api.RoleViewer)
	t.Equal("the removed member", probe.Decode[api.Member](t, within(t, boss, http.MethodDelete, path, nil)), want)
	t.Problem(within(t, session.Token, http.MethodGet, "", nil), http.StatusNotFound, "NOT_FOUND")
	t.Problem(within(t, boss, http.MethodDelete, path, nil), http.StatusNotFound, "NOT_FOUND")

	over := invite(t, boss, someone(), "viewer")
	revoked := probe.Decode[api.Invitation](t, within(t, boss, http.MethodDelete, "/invitations/"+over.ID.String(), nil))
	t.Check(revoked.ID == over.ID && revoked.RevokedAt != nil && revoked.AcceptedAt == nil && revoked.Email == over.Email &&
		revoked.Role == over.Role && revoked.ExpiresAt == over.ExpiresAt && revoked.CreatedAt == over.CreatedAt, "revoked: %v", revoked)
	t.Equal("again", probe.Decode[api.Invitation](t, within(t, boss, http.MethodDelete, "/invitations/"+over.ID.String(), nil)), revoked)
}

func roles(t *probe.Trial) {
	boss := t.SignIn()
	rank := map[string]int{"owner": 3, "admin": 2, "editor": 1, "viewer": 0}
	for _, role := range []string{"viewer", "editor", "admin"} {
		token, _ := member(t, boss, role)
		for _, operation := range peoples(t) {
			if operation.Role() == "" {
				continue
			}
			request := to(operation, t.Target().WorkspaceID)
			request.Bearer = token
			answer := t.Do(request)
			refused := answer.Status == http.StatusForbidden
			t.Equal(role+" is refused "+operation.ID, refused, rank[role] < rank[operation.Role()])
			if refused {
				t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusForbidden, "FORBIDDEN")), "role_not_allowed")
			}
		}
	}
	admin, _ := member(t, boss, "admin")
	me := probe.Decode[api.CurrentSession](t, t.Do(probe.Request{Path: probe.Current, Bearer: boss})).User.ID.String()
	_, viewer := member(t, boss, "viewer")
	toOwner := invite(t, boss, someone(), "owner")
	for _, answer := range []probe.Answer{
		within(t, admin, http.MethodPost, "/invitations", map[string]string{"email": someone(), "role": "owner"}),
		within(t, admin, http.MethodPut, "/members/"+viewer, map[string]string{"role": "owner"}),
		within(t, admin, http.MethodPut, "/members/"+me, map[string]string{"role": "viewer"}),
		within(t, admin, http.MethodDelete, "/members/"+me, nil),
		within(t, admin, http.MethodDelete, "/invitations/"+toOwner.ID.String(), nil),
	} {
		t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusForbidden, "FORBIDDEN")), "role_not_allowed")
	}
	t.Equal("an admin changes a viewer", within(t, admin, http.MethodPut, "/members/"+viewer, map[string]string{"role": "editor"}).Status, http.StatusOK)
}

func memberConflicts(t *probe.Trial) {
	boss := t.SignIn()
	me := probe.Decode[api.CurrentSession](t, t.Do(probe.Request{Path: probe.Current, Bearer: boss})).User.ID.String()
	conflicts := func(answer probe.Answer, reason string) {
		t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusConflict, "CONFLICT")), reason)
	}
	conflicts(within(t, boss, http.MethodDelete, "/members/"+me, nil), "last_owner")
	conflicts(within(t, boss, http.MethodPut, "/members/"+me, map[string]string{"role": "admin"}), "last_owner")
	conflicts(within(t, boss, http.MethodPost, "/invitations", map[string]string{"email": t.Target().AdminEmail, "role": "viewer"}), "already_member")
	made := invite(t, boss, someone(), "viewer")
	session := probe.Decode[api.Session](t, accept(t, made.Token, "Ada", password))
	dismiss(t, boss, session.User.ID.String())
	conflicts(within(t, boss, http.MethodDelete, "/invitations/"+made.ID.String(), nil), "invitation_accepted")
	for _, id := range []string{"0193f1c0-0000-7000-8000-000000000009", "x"} {
		for _, answer := range []probe.Answer{
			within(t, boss, http.MethodPut, "/members/"+id, map[string]string{"role": "viewer"}),
			within(t, boss, http.MethodDelete, "/members/"+id, nil),
			within(t, boss, http.MethodDelete, "/invitations/"+id, nil),
		} {
			t.Problem(answer, http.StatusNotFound, "NOT_FOUND")
		}
	}
	for _, body := range []map[string]string{{"email": someone()}, {"email": someone(), "role": "king"}, {"role": "viewer"}, {"email": "a b@c", "role": "viewer"}} {
		t.Problem(within(t, boss, http.MethodPost, "/invitations", body), http.StatusBadRequest, "INVALID_INPUT")
	}
	for _, path := range []string{"/members?cursor=x", "/invitations?cursor=x", "/members?limit=101"} {
		t.Problem(within(t, boss, http.MethodGet, path, nil), http.StatusBadRequest, "INVALID_INPUT")
	}
	seen := map[string]bool{}
	for query := "?limit=1"; query != ""; {
		page := probe.Decode[api.MemberPage](t, within(t, boss, http.MethodGet, "/members"+query, nil))
		t.Check(len(page.Data) == 1 && !seen[page.Data[0].Email], "page %v", page.Data)
		seen[page.Data[0].Email] = true
		if query = ""; page.NextCursor != nil {
			query = "?limit=1&cursor=" + *page.NextCursor
		}
	}
	t.Check(seen[t.Target().AdminEmail], "the pages leave the owner out")
}

func spentTokens(t *probe.Trial) {
	boss, email := t.SignIn(), someone()
	gone := func(token string) {
		t.Problem(accept(t, token, "Ada", password), http.StatusNotFound, "NOT_FOUND")
	}
	gone(unique())
	first := invite(t, boss, email, "viewer")
	second := invite(t, boss, email, "viewer")
	gone(first.Token) // the second invitation replaced the first
	within(t, boss, http.MethodDelete, "/invitations/"+second.ID.String(), nil)
	gone(second.Token)
	third := invite(t, boss, email, "viewer")
	for _, bad := range []probe.Answer{accept(t, third.Token, "Ada", "too short"), accept(t, third.Token, "", password)} {
		t.Problem(bad, http.StatusBadRequest, "INVALID_INPUT")
	}
	session := probe.Decode[api.Session](t, accept(t, third.Token, "Ada", password))
	dismiss(t, boss, session.User.ID.String())
	gone(third.Token)
}

func joinAnother(t *probe.Trial) {
	made := invite(t, t.SignInAs(t.Target().Credentials), someone(), "viewer")
	first := probe.Decode[api.Session](t, accept(t, made.Token, "Ada", password))
	boss := t.SignIn()
	id := first.User.ID.String()
	t.Equal("removed", within(t, boss, http.MethodDelete, "/members/"+id, nil).Status, http.StatusOK)
	again := invite(t, boss, made.Email, "editor")
	answer := accept(t, again.Token, "Eve", "another long password")
	t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")), "invalid_credentials")
	session := probe.Decode[api.Session](t, accept(t, again.Token, "Eve", password))
	t.Equal("user", session.User, first.User)
	t.Equal("removed", within(t, boss, http.MethodDelete, "/members/"+id, nil).Status, http.StatusOK)
}

func joinTwo(t *probe.Trial) {
	foreign, boss, email := *customer(t, "starter").As, t.SignIn(), someone()
	session := probe.Decode[api.Session](t, accept(t, invite(t, boss, email, "viewer").Token, "Ada", password))
	dismiss(t, boss, session.User.ID.String())
	other := t.SignInAs(foreign)
	answer := t.Do(probe.Request{
		Method: http.MethodPost, Path: probe.Workspace(foreign.WorkspaceID) + "/invitations", Bearer: other,
		Body: t.JSON(map[string]string{"email": email, "role": "viewer"}),
	})
	made := probe.Decode[api.CreatedInvitation](t, answer)
	refused := t.Problem(accept(t, made.Token, "Ada", password), http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(refused), "email_not_verified")
	_, _ = t.Try(t.Context(), probe.Request{
		Method: http.MethodDelete, Path: probe.Workspace(foreign.WorkspaceID) + "/invitations/" + made.ID.String(), Bearer: other, Unchecked: true,
	})
}

func acceptFlood(t *probe.Trial) {
	wrong := probe.Request{
		Method: http.MethodPost, Path: acceptance, Unsigned: true,
		Body: t.JSON(map[string]string{"token": "none", "name": "Ada", "password": password}),
	}
	flood(t, wrong)
	limited(t, wrong, wrong, "sign_in_attempts", signInPause)
}
