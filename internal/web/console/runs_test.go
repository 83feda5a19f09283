package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// site is a signed-in browser with the runs of a workspace.
type site struct {
	*service
	t    *testing.T
	http *http.Client
	base string // path of the workspace in the console
}

func (s *service) site(t *testing.T, email string) *site {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(s.workspace, "/settings/workspaces/")
	p := &site{service: s, t: t, base: "/console/" + id, http: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if status, to, _ := p.post("/settings/sign-in", url.Values{"email": {email}, "password": {password}}); status != 303 || to != "/console" {
		t.Fatalf("sign-in: %d to %q", status, to)
	}
	return p
}

func (p *site) do(method, path, kind string, body io.Reader, header ...string) (status int, location, text string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(waittest.Context(p.t), method, p.url+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	answer, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Location"), string(all)
}

func (p *site) get(path string) (status int, text string) {
	p.t.Helper()
	status, _, text = p.do(http.MethodGet, path, "", nil)
	return status, text
}

func (p *site) post(path string, form url.Values, header ...string) (status int, location, text string) {
	p.t.Helper()
	return p.do(http.MethodPost, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), header...)
}

// api calls the API with the session of the browser.
func (p *site) api(path string, body any) (answer struct{ ID, RunID string }) {
	p.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	_, workspace, _ := strings.Cut(p.base, "/console/")
	status, _, text := p.do(http.MethodPost, "/v1/sdk/workflows"+path, "application/json", bytes.NewReader(data), "Weft-Workspace: "+workspace)
	if err := json.Unmarshal([]byte(text), &answer); status != 200 || err != nil {
		p.t.Fatalf("%s: %d %s", path, status, text)
	}
	return answer
}

type object = map[string]any

// create creates a workflow whose components follow each other.
func (p *site) create(name string, components ...object) (id string) {
	p.t.Helper()
	edges := []object{}
	for i, c := range components {
		for field, value := range (object{"name": c["id"], "input": object{}, "config": object{}}) {
			if c[field] == nil {
				c[field] = value
			}
		}
		if i > 0 {
			edges = append(edges, object{"id": fmt.Sprint("e", i), "from": components[i-1]["id"], "to": c["id"]})
		}
	}
	return p.api("", object{"name": name, "description": "", "components": components, "sequenceEdges": edges, "dataConnections": []object{}}).ID
}

// run starts a run and returns the path of its page.
func (p *site) run(workflow string, input object) (path string) {
	p.t.Helper()
	return p.base + "/runs/" + p.api("/"+workflow, object{"input": input, "waitForMs": 10000}).RunID
}

var (
	trigger  = object{"id": "start", "module": "ON_API_CALLED"}
	approval = object{"id": "approval", "module": "WAIT_FOR_SIGNAL", "name": "Somebody approves", "config": object{"name": "approved", "timeoutMs": 600000}}
	failing  = object{"id": "fail", "module": "FAIL", "name": "It breaks", "config": object{"code": "BROKEN", "message": "It is broken."}}
	respond  = object{"id": "answer", "module": "RESPOND"}
)

func TestRunsAreListedAndFiltered(t *testing.T) {
	p := start(t).site(t, email)
	if _, page := p.get(p.base + "/runs"); !strings.Contains(page, "No workflows yet") {
		t.Error("an empty workspace doesn't say what to do")
	}
	good, bad := p.create("Good", trigger, respond), p.create("Bad", trigger, failing)
	if _, page := p.get(p.base + "/runs"); !strings.Contains(page, "No runs yet") {
		t.Error("a workspace without runs doesn't say what to do")
	}
	p.run(good, nil)
	p.run(bad, nil)
	for query, want := range map[string][]string{
		"": {"Bad", "Good"}, "?status=FAILED": {"Bad"}, "?status=COMPLETED": {"Good"}, "?workflow=" + good: {"Good"}, "?trigger=API": {"Bad", "Good"},
		"?trigger=SCHEDULE": {}, "?since=1h": {"Bad", "Good"}, "?status=FAILED&workflow=" + good: {},
	} {
		status, page := p.get(p.base + "/runs" + query)
		listed := []string{}
		for _, match := range regexp.MustCompile(`<a class="open"[^>]*>([^<]*)</a>`).FindAllStringSubmatch(page, -1) {
			listed = append(listed, match[1])
		}
		if status != 200 || fmt.Sprint(listed) != fmt.Sprint(want) {
			t.Errorf("%s: %d lists %v, want %v", query, status, listed, want)
		}
		if len(want) == 0 && !strings.Contains(page, "No run matches") {
			t.Errorf("%s doesn't say that no run matches", query)
		}
	}
	for _, query := range []string{"?status=BROKEN", "?trigger=X", "?since=1y", "?workflow=x", "?cursor=x"} {
		if status, _ := p.get(p.base + "/runs" + query); status != 400 {
			t.Errorf("%s: %d, want 400", query, status)
		}
	}
}

func TestAFailedRunShowsItsFirstFailure(t *testing.T) {
	p := start(t).site(t, email)
	path := p.run(p.create("Bad", trigger, failing), nil)
	_, page := p.get(path)
	for _, want := range []string{`<a href="` + path + `#component">It breaks</a>`, `/docs/errors#BROKEN`, "It is broken.", `<h2 id="component-title">It breaks`, `class="node failed chosen"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestFormsOfARunActOnIt(t *testing.T) {
	p := start(t).site(t, email)
	waits := p.create("Approval", trigger, approval, respond)
	path := p.run(waits, nil)
	if _, page := p.get(path); !strings.Contains(page, "Waits for the signal") {
		t.Error("the page doesn't say that the run waits for a signal")
	}
	for name, form := range map[string]url.Values{"no object": {"name": {"approved"}, "payload": {"[1]"}}, "no JSON": {"name": {"approved"}, "payload": {"{"}}} {
		if status, _, page := p.post(path+"/signal", form); status != 400 || !strings.Contains(page, "must be a JSON object") {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status, _, _ := p.post(path+"/signal", url.Values{"name": {"other"}}); status != 409 {
		t.Errorf("a signal that nothing waits for: %d, want 409", status)
	}
	if status, to, page := p.post(path+"/signal", url.Values{"name": {"approved"}, "payload": {`{"by":"ada"}`}}); status != 303 || to != path {
		t.Fatalf("signal: %d to %s: %s", status, to, page)
	}
	p.wait(path, "Completed")

	canceled := p.run(waits, nil)
	if status, to, _ := p.post(canceled+"/cancel", url.Values{"mode": {"graceful"}, "reason": {"No longer needed"}}); status != 303 || to != canceled {
		t.Errorf("cancel: %d to %s", status, to)
	}
	p.wait(canceled, "No longer needed")
	p.wait(canceled, `class="status canceled"`)

	form := url.Values{"id": {uuid.Must(uuid.NewV7()).String()}}
	status, rerun, _ := p.post(canceled+"/rerun", form)
	if _, page := p.get(rerun); status != 303 || !strings.Contains(page, `<a href="`+canceled+`">`) {
		t.Errorf("rerun: %d to %s, which doesn't name the earlier run", status, rerun)
	}
	if _, again, _ := p.post(canceled+"/rerun", form); again != rerun {
		t.Errorf("the same form started %s and %s", rerun, again)
	}
}

// wait reads a page until it contains the text.
func (p *site) wait(path, text string) {
	p.t.Helper()
	waittest.Until(p.t, "the page shows "+text, func() bool {
		_, page := p.get(path)
		return strings.Contains(page, text)
	})
}

func TestViewersOnlyLook(t *testing.T) {
	s := start(t)
	owner := s.site(t, email)
	path := owner.run(owner.create("Approval", trigger, approval), nil)
	workspaceID := uuid.MustParse(strings.TrimPrefix(owner.base, "/console/"))
	const viewer = "viewer@example.org"
	if _, err := person.CreateOwner(t.Context(), s.pool, workspaceID, person.Account{Email: viewer, Name: "Viewer", Password: password}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE members SET role = 'viewer' FROM users WHERE users.id = members.user_id AND users.email = $1`, viewer); err != nil {
		t.Fatal(err)
	}
	p := s.site(t, viewer)
	status, page := p.get(path)
	if status != 200 || strings.Contains(page, `action="`+path) {
		t.Errorf("%d with forms", status)
	}
	for _, form := range []string{"/signal", "/cancel", "/rerun"} {
		if status, _, page := p.post(path+form, url.Values{"name": {"approved"}}); status != 403 || !strings.Contains(page, "Only an editor") {
			t.Errorf("%s: %d, want 403", form, status)
		}
	}
}

func TestRunsOfOthersAreNotFound(t *testing.T) {
	p := start(t).site(t, email)
	path := p.run(p.create("Good", trigger, respond), nil)
	other := strings.Replace(path, p.base, "/console/"+uuid.NewString(), 1)
	for path, want := range map[string]int{
		other: 404, p.base + "/runs/" + uuid.NewString(): 404, p.base + "/runs/x": 404, "/console/x/runs": 404, p.base + "/nothing": 404,
		path + "?component=none": 404, path + "?component=start&item=0": 404, path + "?component=start&item=x": 400,
		"/console": 303, p.base: 303, path + "/cancel": 303, path: 200,
	} {
		if status, _ := p.get(path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	for _, form := range []string{"/signal", "/cancel", "/rerun"} {
		if status, _, _ := p.post(path+form, nil, "Sec-Fetch-Site: cross-site"); status != 403 {
			t.Errorf("%s from another site: %d, want 403", form, status)
		}
	}
}

func TestHostileValuesAreText(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	p := start(t).site(t, email)
	path := p.run(p.create(hostile, trigger, object{"id": "fail", "module": "FAIL", "name": hostile, "config": object{"code": "BROKEN", "message": hostile}}), object{"text": hostile})
	for _, path := range []string{p.base + "/runs", path, path + "?component=start"} {
		if _, page := p.get(path); strings.Contains(page, "<script>") || strings.Contains(page, "<img") || !strings.Contains(page, "&lt;script&gt;") {
			t.Errorf("%s contains markup of a workflow", path)
		}
	}
}

func TestSecretsAreOnNoPage(t *testing.T) {
	const secret = "correct-horse-secret"
	p := start(t).site(t, email)
	id := p.api("", object{
		"name": "Secret", "description": "", "inputSchema": object{"type": "object", "properties": object{"token": object{"type": "string", "x-secret": true}}},
		"components": []object{
			{"id": "start", "module": "ON_API_CALLED", "name": "start", "input": object{}, "config": object{}},
			{"id": "answer", "module": "RESPOND", "name": "answer", "input": object{}, "config": object{}},
		},
		"sequenceEdges": []object{{"id": "e", "from": "start", "to": "answer"}}, "dataConnections": []object{},
	}).ID
	path := p.run(id, object{"token": secret})
	for _, path := range []string{p.base + "/runs", path, path + "?component=start", path + "?component=answer"} {
		if status, page := p.get(path); status != 200 || strings.Contains(page, secret) {
			t.Errorf("%s: %d, shows the secret", path, status)
		}
	}
	if _, page := p.get(path); !strings.Contains(page, "[redacted]") {
		t.Error("the input isn't shown as redacted")
	}
}
