package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var auditCases = []Case{
	{
		Part: "D9.2.audit", Name: "MT09 audit/200 who did what, newest first", Run: auditPages,
		Needs: []probe.Need{probe.NeedOwner, probe.NeedViewer, probe.NeedNear},
	},
	{Part: "D9.2.audit", Name: "MT09 audit/200 what was denied", Run: auditDenial, Needs: []probe.Need{probe.NeedOwner, probe.NeedViewer}},
}

// events returns a page of the audit log, read by the owner.
func events(t *probe.Trial, token, query string) api.AuditEventPage {
	return probe.Decode[api.AuditEventPage](t, t.Do(probe.Request{Path: probe.Workspace(t.Target().WorkspaceID) + "/audit-events" + query, Bearer: token}))
}

func auditPages(t *probe.Trial) {
	receiver := t.Receiver("", probe.Reply{Status: 410}, probe.Reply{Status: 204})
	id := gone(t, receiver, "")
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Execution(id) + "/replay-callback"})
	token := t.SignIn()
	page := events(t, token, "?limit=100")
	at := slices.IndexFunc(page.Data, func(e api.AuditEvent) bool { return e.Subject != nil && e.Subject.ID == id })
	t.Check(at >= 0, "the replay of %s is not on the page", id)
	event := page.Data[at]
	t.Equal("action", event.Action, "callback.replayed")
	t.Equal("subject", event.Subject.Kind, "execution")
	t.Check(event.Actor.Kind == api.AuditActorKindAPIKey && event.Actor.ID != nil && event.Actor.Name != nil && *event.Actor.Name != "", "actor %s", t.JSON(event.Actor))
	t.Check(event.RequestID != nil && *event.RequestID == answer.Header.Get("X-Request-Id"), "request %v", event.RequestID)
	age := time.Since(event.At.Std())
	t.Check(age > -10*time.Second, "it is %v old", age)
	t.Soon(age, time.Minute, "it is %v old", age)
	var details map[string]any
	t.NoError("details", json.Unmarshal(event.Details, &details))
	first := events(t, token, "?limit=1")
	t.Check(len(first.Data) == 1, "a page of one: %s", t.JSON(first))
	if first.HasMore {
		next := events(t, token, "?limit=1&cursor="+*first.NextCursor)
		t.Check(len(next.Data) == 1 && next.Data[0].ID.String() < first.Data[0].ID.String(), "the next page: %s", t.JSON(next))
	}
	for _, query := range []string{"?cursor=x", "?cursor=AAAA"} {
		request := probe.Request{Path: probe.Workspace(t.Target().WorkspaceID) + "/audit-events" + query, Bearer: token}
		t.Problem(t.Do(request), http.StatusBadRequest, "INVALID_INPUT")
	}
}

// auditDenial tries every operation that a viewer may not use. Denials are logged at a limited
// rate, so auditDenial repeats the requests that are missing in the log.
func auditDenial(t *probe.Trial) {
	viewer, owner := t.SignInAs(*t.Target().Viewer), t.SignIn()
	owed := slices.DeleteFunc(peoples(t), func(o *probe.Operation) bool { return o.Role() == "" || o.Role() == "viewer" })
	t.Check(len(owed) > 0, "viewers may do everything")
	t.Until("denials in the audit log", 45*time.Second, func() bool {
		refused := map[string]*probe.Operation{} // by the id of a request
		for _, operation := range owed {
			request := to(operation, t.Target().WorkspaceID)
			request.Bearer = viewer
			answer := t.Do(request)
			t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusForbidden, "FORBIDDEN")), "role_not_allowed")
			refused[answer.Header.Get("X-Request-Id")] = operation
		}
		for begun := time.Now(); len(refused) > 0 && time.Since(begun) < 4*time.Second; wait(t, 50*time.Millisecond) {
			for _, e := range events(t, owner, "?limit=100").Data {
				if e.RequestID == nil || refused[*e.RequestID] == nil {
					continue
				}
				operation := refused[*e.RequestID]
				denied(t, e, operation)
				delete(refused, *e.RequestID)
				owed = slices.DeleteFunc(owed, func(o *probe.Operation) bool { return o == operation })
			}
		}
		return len(owed) == 0
	})
}

// denied returns the event of an operation that was denied to the viewer.
func denied(t *probe.Trial, e api.AuditEvent, operation *probe.Operation) {
	t.Equal("action", e.Action, "access.denied")
	t.Equal("subject", e.Subject.ID, operation.ID)
	about := strings.Count(operation.Template, "Id}") > 1 // the path contains the ID of the changed resource
	t.Equal("a target of "+e.Subject.ID, strings.Contains(string(e.Details), `"target"`), about)
	t.Check(e.Actor.Kind == api.AuditActorKindUser && e.Actor.Name != nil && *e.Actor.Name == t.Target().Viewer.AdminEmail, "actor %s", t.JSON(e.Actor))
}
