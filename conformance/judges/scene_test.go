package judges

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// scene is what there is on a deployment for a tool that knows no ids.
type scene struct {
	names map[string]string            // $names of exclusions.yaml
	path  map[string]string            // what stands in paths, by parameter
	own   map[string]map[string]string // the same for single operations, by operationId
	token string                       // of a session of the owner
}

// call sends a request through the proxy and gives a member of the answer.
func (d deployment) call(t *testing.T, token, method, path string, body any, member ...string) string {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, d.proxy+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d, %v: %s", method, path, answer.StatusCode, err, said)
	}
	var value any
	if err := json.Unmarshal(said, &value); err != nil {
		t.Fatal(err)
	}
	for _, name := range member {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	found, ok := value.(string)
	if !ok {
		t.Fatalf("%s %s: there is no %v in %s", method, path, member, said)
	}
	return found
}

type object = map[string]any

// prepare makes one of each thing, and one more for each operation that ends it.
func prepare(t *testing.T, d deployment) scene {
	t.Helper()
	token := d.call(t, "", "POST", "/v1/sessions", object{"email": d.own.AdminEmail, "password": d.own.AdminPassword}, "token")
	people := "/v1/workspaces/" + d.own.WorkspaceID.String()
	workflow := func(module string, config object) string {
		return d.call(t, "", "POST", "/v1/sdk/workflows", object{"name": "Judged", "components": []object{{"id": "start", "module": module, "config": config}}}, "id")
	}
	called := func() string { return workflow("ON_API_CALLED", object{}) }
	run := func(of string) string { return d.call(t, "", "POST", "/v1/sdk/workflows/"+of, object{}, "runId") }
	scheduled, hooked := workflow("ON_SCHEDULE", object{"cron": "0 3 * * *"}), workflow("ON_WEBHOOK", object{})
	schedule := func() string {
		return d.call(t, "", "POST", "/v1/sdk/schedules", object{"workflowId": scheduled, "cron": "0 4 * * *"}, "id")
	}
	hook := func() string {
		return d.call(t, "", "POST", "/v1/sdk/hooks", object{"workflowId": hooked, "verification": object{"scheme": "hmac", "secret": "correct-horse-battery", "header": "X-Signature"}}, "id")
	}
	variable := func(name string) string {
		return d.call(t, "", "PUT", "/v1/sdk/environment-variables/"+name, object{"value": "x"}, "name")
	}
	waiting := d.call(t, "", "POST", "/v1/sdk/workflows", object{
		"name": "Waiting", "components": []object{{"id": "start", "module": "ON_API_CALLED"}, {"id": "wait", "module": "WAIT_FOR_SIGNAL", "config": object{"name": "never", "timeoutMs": 3_600_000}}},
		"sequenceEdges": []object{{"id": "edge", "from": "start", "to": "wait"}},
	}, "id")
	plain := called()
	return scene{
		token: token,
		names: map[string]string{"$receiver": d.receiver + "/judged", "$scheduled": scheduled, "$hooked": hooked, "$email": d.own.AdminEmail, "$password": d.own.AdminPassword},
		path: map[string]string{
			"workspaceId": d.own.WorkspaceID.String(), "workflowId": plain, "componentId": "start", "runId": run(plain), "scheduleId": schedule(), "hookId": hook(),
			"executionId":  d.call(t, "", "POST", "/v1/sdk/components", object{"module": "RANDOM_UUID", "input": object{}, "config": object{}, "waitForMs": 15_000, "callbackUrl": d.receiver}, "id"),
			"keyId":        d.call(t, token, "POST", people+"/api-keys", object{"label": "Judged", "allowedWorkflowIds": []string{}}, "id"),
			"invitationId": d.call(t, token, "POST", people+"/invitations", object{"email": "grace@judges.example", "role": "viewer"}, "id"),
			"name":         variable("JUDGED"), "signal": "early",
		},
		own: map[string]map[string]string{
			"archiveWorkflow": {"workflowId": called()}, "replaceWorkflow": {"workflowId": called()}, "updateWorkflowComponent": {"workflowId": called()},
			"deleteSchedule": {"scheduleId": schedule()}, "deleteHook": {"hookId": hook()},
			"deleteEnvironmentVariable": {"name": variable("JUDGED_ONCE")}, "deleteWorkspaceEnvironmentVariable": {"name": variable("JUDGED_TOO")},
			"sendRunSignal": {"runId": run(waiting)}, "cancelWorkflowRun": {"runId": run(waiting)},
		},
	}
}
