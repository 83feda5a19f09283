package conformance

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var peopleLimitCases = []Case{
	{Part: "8.1, D6.fields", Name: "limits/200 every operation of people on a workspace counts as 1, and what takes rights away as 0", Run: peopleFields, Needs: workspaces},
	{
		Part: "8.2, 8.workspace, D6.retry, D6.refused", Name: "limits/429 people and programs share the limits, strangers have no part in them",
		Run: peopleLimits, Needs: []probe.Need{probe.NeedWorkspace, probe.NeedOwner},
	},
}

// free lists the operations that stay available to members when the limit is exhausted.
var free = []string{"listApiKeys", "revokeApiKey", "listMembers", "removeMember", "listInvitations", "revokeInvitation"}

// peopleFields sends every operation of members once.
func peopleFields(t *probe.Trial) {
	boss := customer(t, "professional").As
	token, left := t.SignInAs(*boss), 45_000
	ids := []string{"{workspaceId}", boss.WorkspaceID}
	owed := map[string]*probe.Operation{}
	for _, operation := range peoples(t) {
		if operation.Role() != "" {
			owed[operation.ID] = operation
		}
	}
	ask := func(id string, body any) probe.Answer {
		operation := owed[id]
		t.Check(operation != nil, "there is no %s on a workspace", id)
		delete(owed, id)
		request := probe.Request{Method: operation.Method, Path: strings.NewReplacer(ids...).Replace(operation.Template), Bearer: token}
		if body != nil {
			request.Body = t.JSON(body)
		}
		answer := t.Do(request)
		t.Equal("status of "+id, answer.Status, http.StatusOK)
		t.Equal("RateLimit-Policy", answer.Header.Get("RateLimit-Policy"), `"second";q=25;w=1, "hour";q=45000;w=3600`)
		cost := 1
		if slices.Contains(free, id) {
			cost = 0
		}
		t.Equal("cost of "+id, operation.Cost(), cost)
		left -= cost
		t.Equal("left of the hour after "+id, rates(t, answer, "RateLimit")["hour"]["r"], left)
		return answer
	}
	for _, id := range []string{"getWorkspace", "getCredits", "listLedger", "listApiKeys", "listInvitations", "listAuditEvents", "listWorkspaceEnvironmentVariables"} {
		ask(id, nil)
	}
	ids = append(ids, "{name}", variableName())
	ask("setWorkspaceEnvironmentVariable", object{"value": "x"})
	ask("deleteWorkspaceEnvironmentVariable", nil)
	members := probe.Decode[api.MemberPage](t, ask("listMembers", nil)).Data
	at := slices.IndexFunc(members, func(m api.Member) bool { return m.Role == api.RoleViewer })
	t.Check(at >= 0, "the workspace has no viewer")
	ids = append(ids, "{userId}", members[at].UserID.String())
	ask("updateMember", map[string]string{"role": "editor"})
	ask("removeMember", nil)
	invited := probe.Decode[api.CreatedInvitation](t, ask("createInvitation", map[string]string{"email": someone(), "role": "viewer"}))
	ids = append(ids, "{invitationId}", invited.ID.String())
	ask("revokeInvitation", nil)
	key := probe.Decode[api.CreatedAPIKey](t, ask("createApiKey", map[string]any{"label": "second", "allowedWorkflowIds": []string{}}))
	ids = append(ids, "{keyId}", key.ID.String())
	ask("rotateApiKey", map[string]int{"overlapSeconds": 60})
	ask("revokeApiKey", nil)
	for id := range owed {
		t.Fatalf("%s was not asked", id)
	}
}

func peopleLimits(t *probe.Trial) {
	program := customer(t, "starter")
	member := probe.Request{Path: probe.Workspace(program.As.WorkspaceID), Bearer: t.SignInAs(*program.As)}
	flooding := member
	flooding.Once = true
	stranger := probe.Request{Path: member.Path, Bearer: t.SignIn()}
	hour := func(request probe.Request) int { return rates(t, t.Do(request), "RateLimit")["hour"]["r"] }
	strange := func() {
		answer := t.Do(stranger)
		t.Problem(answer, http.StatusNotFound, "NOT_FOUND")
		t.Equal("what a stranger learns", answer.Header.Get("RateLimit")+answer.Header.Get("RateLimit-Policy")+answer.Header.Get("Retry-After"), "")
	}
	left := hour(member)
	for range 20 {
		strange()
	}
	t.Equal("left of the hour after 20 requests of a stranger", hour(member), left-1)
	t.Equal("left of the hour after that of a member", hour(probe.Request{Path: limitsPath, Sign: program}), left-2)
	answer := t.Do(flooding)
	for range 60 {
		if answer.Status != http.StatusOK {
			break
		}
		answer = t.Do(flooding)
	}
	t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusTooManyRequests, "RATE_LIMITED")), "requests_per_second")
	t.Equal("left of the second", rates(t, answer, "RateLimit")["second"]["r"], 0)
	strange()
	wait(t, retryAfter(t, answer))
	t.Equal("status after Retry-After", t.Do(flooding).Status, http.StatusOK)
}
