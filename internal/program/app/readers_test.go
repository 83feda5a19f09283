package app

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/secret/redact"
)

// withHeaders sends requests with these headers.
type withHeaders http.Header

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h {
		r.Header[name] = values
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Members below editor see no secret of an output on any surface. Editors, and programs with a key, see
// outputs as they are.
func TestOutputsShowSecretsFromEditorOn(t *testing.T) {
	t.Parallel()
	w := startWhole(t, withPatientLimiter)
	n := &secretOutputs{tenant: w.tenant(t, "acme"), shown: map[string]string{}}
	upstream := httptest.NewServer(http.HandlerFunc(mirror))
	defer upstream.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer receiver.Close()
	n.upstream = upstream.URL
	generated := n.executeAlone(t, "GENERATE_AGE_ENCRYPTION", map[string]any{}, receiver.URL)
	var keys struct{ AgeIdentity string }
	if err := json.Unmarshal(generated.Output, &keys); err != nil {
		t.Fatal(err)
	}
	echoed := n.execute(t, "API_CALL", n.call("/", "Authorization", "Bearer "+canary), receiver.URL)
	run := n.run(t, []any{secretEntry, part("echo", "API_CALL", n.call("/", "X-Key", canary)), part("answer", "RESPOND", nil)},
		drawn("start>echo echo>answer", "echo.body>answer.all"), "none")
	if run.Status != "COMPLETED" || !strings.Contains(string(run.Output), canary) {
		t.Fatalf("the run is %s: %s %s", run.Status, run.Error, run.Output)
	}
	var stages api.RunStagePage
	runs, runPath := "/v1/sdk/workflows/executions", "/v1/sdk/workflows/executions/"+run.ID.String()
	n.sign(t, http.MethodGet, runPath+"/stages", nil).into(t, &stages)
	workflow, page := "/v1/sdk/workflows/"+run.WorkflowID.String(), "/console/"+n.id.String()
	surfaces := map[string]string{ // the secret that editors see there
		"/v1/sdk/components/executions/" + generated.ID.String():             keys.AgeIdentity,
		"/v1/sdk/components/executions/" + generated.ID.String() + "/stream": keys.AgeIdentity,
		"/v1/sdk/components/executions/" + echoed.ID.String():                canary,
		"/v1/sdk/components/executions/" + echoed.ID.String() + "/stream":    canary,
		"/v1/sdk/components/executions":                                      canary,
		runs:                                                                 canary,
		runPath:                                                              canary,
		runPath + "?stages=none":                                             canary,
		runPath + "/stages":                                                  canary,
		runPath + "/stream":                                                  "",
		runPath + "/events":                                                  "",
		workflow:                                                             "",
		"/v1/sdk/workflow-exports/" + run.WorkflowID.String():                "",
		page + "/executions":                                                 "",
		page + "/executions/" + generated.ID.String():                        "",
		page + "/executions/" + echoed.ID.String():                           "",
		page + "/runs":                                                       "",
		page + "/runs/" + run.ID.String():                                    "",
		page + "/runs/" + run.ID.String() + "?component=echo":                "",
		page + "/runs/" + run.ID.String() + "?component=answer":              "",
		page + "/workflows/" + run.WorkflowID.String():                       "",
		"/v1/workspaces/" + n.id.String() + "/ledger":                        "",
	}
	ask := func(role person.Role, token, path string) reply {
		through := withHeaders{"Authorization": {"Bearer " + token}, "Weft-Workspace": {n.id.String()}}
		if strings.HasPrefix(path, "/console/") {
			through = withHeaders{"Cookie": {person.Cookie(token, false).String()}}
		}
		r := w.ask(t, &http.Client{Transport: through}, "", http.MethodGet, path, nil)
		if r.status != http.StatusOK {
			t.Errorf("%s of %s: got status %d %s", path, role, r.status, r.body)
		}
		return r
	}
	n.expectLiveStreamWithoutSecret(t)
	var sought redact.Sought
	sought.Add(canary)
	sought.Add(keys.AgeIdentity)
	for _, role := range person.Roles() {
		_, token := n.joined(t, string(role)+"@example.org", role)
		for path, secret := range surfaces {
			r := ask(role, token, path)
			if !role.Reaches(person.Editor) && sought.In([]byte(r.body)) {
				t.Errorf("%s shows a secret to the role %s", path, role)
			}
			if role.Reaches(person.Editor) && !strings.Contains(r.body, secret) {
				t.Errorf("%s does not show the output to the role %s: %s", path, role, r.body)
			}
		}
	}
	for path, secret := range surfaces {
		if !strings.HasPrefix(path, "/v1/sdk/") {
			continue
		}
		if r := n.sign(t, http.MethodGet, path, nil); r.status != http.StatusOK || !strings.Contains(r.body, secret) {
			t.Errorf("%s does not show the output to a key: status %d %s", path, r.status, r.body)
		}
	}
}

// A stream that is open when an execution finishes shows a viewer no more than one that is opened later.
func (n *secretOutputs) expectLiveStreamWithoutSecret(t *testing.T) {
	t.Helper()
	finish := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { <-finish; mirror(rw, r) }))
	defer upstream.Close()
	call := n.call("/", "X-Key", canary)
	call["module"], call["config"] = "API_CALL", map[string]any{"apiUrl": upstream.URL, "method": "GET"}
	var begun api.ComponentExecution
	n.sign(t, http.MethodPost, "/v1/sdk/components", call).into(t, &begun)
	_, token := n.joined(t, "watches@example.org", person.Viewer)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.whole.app.URL()+"/v1/sdk/components/executions/"+begun.ID.String()+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + token}, "Weft-Workspace": {n.id.String()}}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	events := bufio.NewReader(answer.Body)
	first, err := events.ReadString('}') // the state at the start
	close(finish)
	rest, failed := io.ReadAll(events)
	if err != nil || failed != nil || !strings.Contains(string(rest), "COMPLETED") || strings.Contains(first+string(rest), canary) {
		t.Errorf("a viewer's stream sent %s%s, %v, %v", first, rest, err, failed)
	}
}
