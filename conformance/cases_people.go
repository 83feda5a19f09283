package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var owner = []probe.Need{probe.NeedOwner}

var peopleCases = []Case{
	{Part: "D9.2.sessions", Name: "people/200 signing in, being known, signing out", Run: signInAndOut, Needs: owner},
	{Part: "D9.2.cookie", Name: "people/200 the cookie of a session", Run: sessionCookie, Needs: owner},
	{Part: "D9.2.sessions", Name: "people/401 an unknown address and a wrong password are one answer", Run: wrongCredentials, Needs: owner},
	{Part: "D9.2.sessions", Name: "people/200 the workspaces of a person", Run: ownWorkspaces, Needs: owner},
}

// cookie returns the Cookie header of a browser with a session, over HTTPS or HTTP.
func cookie(token string) http.Header {
	return http.Header{"Cookie": {"weft_session=" + token + "; __Host-weft_session=" + token}}
}

func signInAndOut(t *probe.Trial) {
	target := t.Target()
	entry := t.Entry(upper(target.AdminEmail), target.AdminPassword)
	entry.Header = http.Header{"Prefer": {"handling=strict"}}
	answer := t.Do(entry)
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	t.Equal("Cache-Control", answer.Header.Get("Cache-Control"), "no-store")
	session := probe.Decode[api.Session](t, answer)
	t.Equal("email", session.User.Email, target.AdminEmail)
	t.Check(time.Until(session.ExpiresAt.Std()) > 13*24*time.Hour, "the session ends at %v", session.ExpiresAt)
	t.Check(slices.ContainsFunc(session.Workspaces, func(m api.Membership) bool {
		return m.ID.String() == target.WorkspaceID && m.Role == api.RoleOwner
	}), "the workspace is not among %v", session.Workspaces)
	for _, request := range []probe.Request{
		{Path: probe.Current, Bearer: session.Token},
		{Path: probe.Current, Unsigned: true, Header: cookie(session.Token)},
		{Path: probe.Current, Unsigned: true, Header: http.Header{"Authorization": {"bearer  " + session.Token}}},
	} {
		answer := t.Do(request)
		t.Equal("Cache-Control", answer.Header.Get("Cache-Control"), "no-store")
		current := probe.Decode[api.CurrentSession](t, answer)
		t.Equal("user", current.User, session.User)
		t.Equal("expiresAt", current.ExpiresAt, session.ExpiresAt)
		t.Equal("workspaces", current.Workspaces, session.Workspaces)
	}
	other := t.SignIn()
	out := probe.Decode[api.CurrentSession](t, t.Do(probe.Request{Method: http.MethodDelete, Path: probe.Current, Bearer: session.Token}))
	t.Equal("user", out.User, session.User)
	t.Equal("expiresAt", out.ExpiresAt, session.ExpiresAt)
	t.Equal("workspaces", out.Workspaces, session.Workspaces)
	notSignedIn(t, probe.Request{Path: probe.Current, Bearer: session.Token}, "invalid_session")
	t.Equal("another session of the same person", t.Do(probe.Request{Path: probe.Current, Bearer: other}).Status, http.StatusOK)
}

// notSignedIn sends a request that must be rejected as unauthenticated.
func notSignedIn(t *probe.Trial, r probe.Request, reason string) {
	answer := t.Do(r)
	p := t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")
	t.Equal("reason of "+r.Path, probe.Reason(p), reason)
	t.Equal("WWW-Authenticate", answer.Header.Get("WWW-Authenticate"), "Bearer")
	t.Equal("Cache-Control", answer.Header.Get("Cache-Control"), "no-store")
}

func sessionCookie(t *probe.Trial) {
	target := t.Target()
	entry := t.Entry(target.AdminEmail, target.AdminPassword)
	answer := t.Do(entry)
	token := probe.Decode[api.Session](t, answer).Token
	set := (&http.Response{Header: answer.Header}).Cookies()[0]
	t.Equal("the cookie's value", set.Value, token)
	t.Check(set.HttpOnly && set.SameSite == http.SameSiteLaxMode && set.Path == "/" && set.MaxAge == 14*24*3600, "cookie %v", set)
	t.Equal("Secure", set.Secure, strings.HasPrefix(target.BaseURL, "https://"))
	if target.Forwarded {
		entry.Header = http.Header{"X-Forwarded-Proto": {"https"}}
		set = (&http.Response{Header: t.Do(entry).Header}).Cookies()[0]
		t.Check(set.Secure && set.Name == "__Host-weft_session" && set.Path == "/" && set.Domain == "", "over https the cookie is %v", set)
		plain := http.Header{"X-Forwarded-Proto": {"https"}, "Cookie": {"weft_session=" + set.Value}}
		notSignedIn(t, probe.Request{Path: probe.Current, Unsigned: true, Header: plain}, "missing_session")
	}
	answer = t.Do(probe.Request{Method: http.MethodDelete, Path: probe.Current, Unsigned: true, Header: cookie(token)})
	set = (&http.Response{Header: answer.Header}).Cookies()[0]
	t.Check(set.Value == "" && set.MaxAge < 0, "signing out leaves the cookie %v", set)
	notSignedIn(t, probe.Request{Path: probe.Current, Unsigned: true, Header: cookie(token)}, "invalid_session")
}

func wrongCredentials(t *probe.Trial) {
	email := t.Target().AdminEmail
	var texts []string
	for _, entry := range []probe.Request{
		t.Entry(email, "not the password"), t.Entry("nobody@conformance.example", "not the password"), t.Entry("no address", "x"),
	} {
		answer := t.Do(entry)
		if strings.Contains(string(entry.Body), "no address") {
			t.Equal("pointers", probe.Pointers(t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")), []string{"/email"})
			continue
		}
		p := t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")
		t.Equal("reason", probe.Reason(p), "invalid_credentials")
		t.Equal("WWW-Authenticate", answer.Header.Get("WWW-Authenticate"), "Bearer")
		t.Check(answer.Header.Get("Set-Cookie") == "", "a cookie was set")
		texts = append(texts, p.Detail)
	}
	t.Equal("the text for an unknown address", texts[1], texts[0])
}

func ownWorkspaces(t *probe.Trial) {
	token, id := t.SignIn(), t.Target().WorkspaceID
	get := func(path string) probe.Answer { return t.Do(probe.Request{Path: path, Bearer: token}) }
	page := probe.Decode[api.WorkspacePage](t, get(probe.Workspaces))
	at := slices.IndexFunc(page.Data, func(w api.Workspace) bool { return w.ID.String() == id })
	t.Check(at >= 0, "the workspace is not in the list")
	one := probe.Decode[api.Workspace](t, get(probe.Workspace(id)))
	t.Equal("the workspace of the list", page.Data[at], one)
	t.Equal("role", one.Role, api.RoleOwner)
	t.Check(one.Name != "" && one.Plan.Valid(), "workspace %v", one)
	for _, query := range []string{"?cursor=x", "?cursor=AAAA", "?limit=0"} {
		t.Problem(get(probe.Workspaces+query), http.StatusBadRequest, "INVALID_INPUT")
	}
	t.Equal("limit=1", len(probe.Decode[api.WorkspacePage](t, get(probe.Workspaces+"?limit=1")).Data), 1)
}
