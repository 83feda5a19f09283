package judges

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// scene holds the resources of a deployment, for a tool that knows no IDs.
type scene struct {
	token string            // token of a session of the owner
	names map[string]string // $names in exclusions.yaml
	own   map[string]own    // by operationId
}

// own is a resource that an operation changes, deletes or uses up. All operations share the
// resource that the document names, so the witness replaces that resource with a separate one for
// the operation.
type own struct {
	shared string
	give   maker
}

// maker creates a resource and returns its ID, or what else identifies it.
type maker func() (string, error)

// kept creates a resource once and returns the same resource from then on.
func (m maker) kept() maker { return sync.OnceValues(m) }

// prepare creates one resource of each kind, and sets how an operation gets a separate one.
func prepare(t *testing.T, d deployment) scene {
	t.Helper()
	o := &owner{deployment: d, ctx: t.Context(), people: "/v1/workspaces/" + d.own.WorkspaceID.String()}
	one := func(make maker) string {
		t.Helper()
		made, err := make()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	o.token = one(o.session)
	called := o.workflow("ON_API_CALLED", object{})
	scheduled, hooked := one(o.workflow("ON_SCHEDULE", object{"cron": "0 3 * * *"})), one(o.workflow("ON_WEBHOOK", object{}))
	plain := one(called)
	schedule, hook := o.schedule(scheduled), o.hook(hooked)
	names := map[string]string{
		"$receiver": d.receiver + "/judged", "$email": d.own.AdminEmail, "$password": d.own.AdminPassword, "$invitation": one(o.invitation("token")),
		"$workspaceId": d.own.WorkspaceID.String(), "$workflowId": plain, "$scheduled": scheduled, "$hooked": hooked,
		"$runId": one(o.run(plain)), "$scheduleId": one(schedule), "$hookId": one(hook), "$executionId": one(o.execution),
		"$keyId": one(o.key), "$invitationId": one(o.invitation("id")), "$userId": one(o.member), "$variable": one(o.variable),
	}
	return scene{token: o.token, names: names, own: map[string]own{
		"archiveWorkflow":                    {plain, called},
		"replaceWorkflow":                    {plain, called.kept()},
		"updateWorkflowComponent":            {plain, called.kept()},
		"cancelComponentExecution":           {names["$executionId"], maker(o.execution).kept()},
		"cancelWorkflowRun":                  {names["$runId"], o.waiting},
		"sendRunSignal":                      {names["$runId"], maker(o.waiting).kept()},
		"deleteSchedule":                     {names["$scheduleId"], schedule},
		"deleteHook":                         {names["$hookId"], hook},
		"deleteEnvironmentVariable":          {names["$variable"], o.variable},
		"deleteWorkspaceEnvironmentVariable": {names["$variable"], o.variable},
		"deleteCurrentSession":               {o.token, o.session},
		"acceptInvitation":                   {names["$invitation"], o.invitation("token")},
		"revokeInvitation":                   {names["$invitationId"], o.invitation("id")},
		"removeMember":                       {names["$userId"], o.member},
		"revokeApiKey":                       {names["$keyId"], o.key},
		"rotateApiKey":                       {names["$keyId"], o.key},
	}}
}

type object = map[string]any

// owner creates the resources of a workspace.
type owner struct {
	deployment
	ctx    context.Context
	token  string // token of a session, "" before signing in
	people string // path of the workspace for members
	made   atomic.Int64
}

func (o *owner) session() (string, error) {
	return o.ask("POST", "/v1/sessions", object{"email": o.own.AdminEmail, "password": o.own.AdminPassword}, "token")
}

// workflow creates a workflow that a trigger module starts and that finishes immediately.
func (o *owner) workflow(module string, config object) maker {
	return func() (string, error) {
		return o.ask("POST", "/v1/sdk/workflows", object{"name": "Judged", "components": []object{{"id": "start", "module": module, "config": config}}}, "id")
	}
}

func (o *owner) run(of string) maker {
	return func() (string, error) { return o.ask("POST", "/v1/sdk/workflows/"+of, object{}, "runId") }
}

// waiting starts a run that waits for a signal.
func (o *owner) waiting() (string, error) {
	of, err := o.ask("POST", "/v1/sdk/workflows", object{
		"name": "Waiting", "components": []object{{"id": "start", "module": "ON_API_CALLED"}, {"id": "wait", "module": "WAIT_FOR_SIGNAL", "config": object{"name": "never", "timeoutMs": 3_600_000}}},
		"sequenceEdges": []object{{"id": "edge", "from": "start", "to": "wait"}},
	}, "id")
	if err != nil {
		return "", err
	}
	return o.run(of)()
}

func (o *owner) schedule(of string) maker {
	return func() (string, error) {
		return o.ask("POST", "/v1/sdk/schedules", object{"workflowId": of, "cron": "0 4 * * *"}, "id")
	}
}

func (o *owner) hook(of string) maker {
	return func() (string, error) {
		return o.ask("POST", "/v1/sdk/hooks", object{"workflowId": of, "verification": object{"scheme": "hmac", "secret": "correct-horse-battery", "header": "X-Signature"}}, "id")
	}
}

// execution creates a finished execution with a callback.
func (o *owner) execution() (string, error) {
	return o.ask("POST", "/v1/sdk/components", object{"module": "RANDOM_UUID", "input": object{}, "config": object{}, "waitForMs": 15_000, "callbackUrl": o.receiver}, "id")
}

func (o *owner) variable() (string, error) {
	return o.ask("PUT", fmt.Sprintf("/v1/sdk/environment-variables/JUDGED_%d", o.made.Add(1)), object{"value": "x"}, "name")
}

func (o *owner) key() (string, error) {
	return o.ask("POST", o.people+"/api-keys", object{"label": "Judged", "allowedWorkflowIds": []string{}}, "id")
}

// invitation invites a new person and returns a field of the response.
func (o *owner) invitation(member string) maker {
	return func() (string, error) {
		return o.ask("POST", o.people+"/invitations", object{"email": fmt.Sprintf("guest%d@judges.example", o.made.Add(1)), "role": "viewer"}, member)
	}
}

// member returns the ID of a new person who has joined.
func (o *owner) member() (string, error) {
	token, err := o.invitation("token")()
	if err != nil {
		return "", err
	}
	return o.ask("POST", "/v1/invitations/accept", object{"token": token, "name": "Guest", "password": "correct horse battery"}, "user", "id")
}

// ask sends a request through the proxy and returns a field of the response.
func (o *owner) ask(method, path string, body any, member ...string) (string, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(o.ctx, method, o.proxy+path, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, o.people) {
		request.Header.Set("Authorization", "Bearer "+o.token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s: %d, %v: %s", method, path, answer.StatusCode, err, said)
	}
	var value any
	if err := json.Unmarshal(said, &value); err != nil {
		return "", err
	}
	for _, name := range member {
		members, _ := value.(object)
		value = members[name]
	}
	found, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s %s: the field %v is missing in %s", method, path, member, said)
	}
	return found, nil
}
