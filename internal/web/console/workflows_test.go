package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/program/pagetest"
)

// viewer returns a browser of a new member with the role viewer.
func viewer(t *testing.T, s *pagetest.Service) *pagetest.Browser {
	t.Helper()
	const email = "viewer@example.org"
	if _, err := person.CreateOwner(t.Context(), s.Pool, s.WorkspaceID, person.Account{Email: email, Name: "Viewer", Password: pagetest.Password}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pool.Exec(t.Context(), `UPDATE members SET role = 'viewer' FROM users WHERE users.id = members.user_id AND users.email = $1`, email); err != nil {
		t.Fatal(err)
	}
	return s.SignIn(t, email)
}

// order returns a workflow that adds two numbers of its input.
func order(name string) object {
	return object{
		"name": name, "description": "", "sequenceEdges": []object{{"id": "e", "from": "start", "to": "answer"}},
		"inputSchema": object{"type": "object", "required": []string{"amount"}, "additionalProperties": false, "properties": object{
			"amount": object{"type": "integer", "minimum": 1, "description": "How much."}, "rush": object{"type": "boolean"},
			"to": object{"type": "object", "properties": object{"name": object{"type": "string"}}}, "pin": object{"type": "string", "x-secret": true},
		}},
		"components":      []object{{"id": "start", "module": "ON_API_CALLED"}, {"id": "answer", "module": "RESPOND", "name": "The answer"}},
		"dataConnections": []object{{"id": "d", "from": object{"componentId": "start", "output": "amount"}, "to": object{"componentId": "answer", "input": "amount"}}},
	}
}

// contains checks that a page contains texts.
func contains(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %s", text)
		}
	}
}

// formID returns the ID in the forms of a page.
func formID(t *testing.T, page string) string {
	t.Helper()
	match := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(page)
	if match == nil {
		t.Fatal("the page has no form with an ID")
	}
	return match[1]
}

func TestWorkflowsAreListed(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	list := p.Base + "/workflows"
	if _, page := p.Get(list); !strings.Contains(page, "No workflows yet") {
		t.Error("an empty workspace doesn't say what to do")
	}
	good, other := p.Create("Good", trigger, respond), p.Create("Other", trigger, failing)
	path := p.Run(good, nil)
	if status, _, _ := p.Post(list+"/"+other+"/pause", url.Values{"current": {"1"}}); status != 303 {
		t.Fatalf("pause: %d", status)
	}
	for query, want := range map[string]string{"": "[Other Good]", "?status=ACTIVE": "[Good]", "?status=PAUSED": "[Other]", "?status=ARCHIVED": "[]"} {
		_, page := p.Get(list + query)
		var names []string
		for _, match := range regexp.MustCompile(`<a class="open"[^>]*>([^<]*)</a>`).FindAllStringSubmatch(page, -1) {
			names = append(names, match[1])
		}
		if fmt.Sprint(names) != want {
			t.Errorf("%s lists %v, want %s", query, names, want)
		}
		if query == "" {
			contains(t, page, `href="`+path+`"`, `href="`+p.Base+`/runs?workflow=`+good+`"`)
		}
	}
	for _, query := range []string{"?status=LOST", "?cursor=x"} {
		if status, _ := p.Get(list + query); status != 400 {
			t.Errorf("%s: %d, want 400", query, status)
		}
	}
}

func TestWorkflowShowsItsDefinition(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Base + "/workflows/" + p.API("", order("Order")).ID
	_, page := p.Get(path)
	contains(t, page, `class="node plain`, "The answer", `name="/input/amount"`, `name="/input/to/name"`, `name="/input/pin" type="password"`, "How much.", "Allowed: at least 1.", "weft.workflow.v1")
	_, page = p.Get(path + "?component=answer")
	contains(t, page, `<h2 id="component-title">The answer`, `class="node plain chosen"`, "start.amount")

	waits := p.Base + "/workflows/" + p.Create("Waits", trigger, approval, respond)
	_, page = p.Get(waits)
	contains(t, page, "1 warning", "TIMEOUT_UNHANDLED", `class="node warned`, "The whole input")
	if status, _, _ := p.Post(waits+"/pause", url.Values{"current": {"1"}}); status != 303 {
		t.Fatalf("pause: %d", status)
	}
	_, page = p.Get(waits + "?version=1")
	contains(t, page, "version 1, not the current one", "&amp;version=1#component")
}

func TestWorkflowRunsWithItsForm(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Base + "/workflows/" + p.API("", order("Order")).ID
	_, page := p.Get(path)
	form := url.Values{"id": {formID(t, page)}, "/input/amount": {"5"}, "/input/rush": {"true"}, "/input/to/name": {"Ada"}, "/input/pin": {"hunter2"}}
	status, run, page := p.Post(path+"/run", form)
	if status != 303 || !strings.HasPrefix(run, p.Base+"/runs/") {
		t.Fatalf("run: %d to %s: %s", status, run, page)
	}
	p.Wait(run, "data-final")
	_, page = p.Get(run)
	contains(t, page, "&#34;amount&#34;: 5", "&#34;rush&#34;: true", "&#34;name&#34;: &#34;Ada&#34;", "[redacted]")
	if strings.Contains(page, "hunter2") {
		t.Error("the page of the run contains the secret")
	}
	if _, again, _ := p.Post(path+"/run", form); again != run {
		t.Errorf("the same form started %s and %s", run, again)
	}
	form.Set("/input/amount", "6")
	if status, _, _ := p.Post(path+"/run", form); status != 409 {
		t.Errorf("the ID of another form: %d, want 409", status)
	}
	for name, c := range map[string]struct {
		field, value, fault string
		status              int
	}{
		"not a number": {"/input/amount", "five", "expected integer as JSON", 400}, "too small": {"/input/amount", "0", "at least 1", 422},
		"missing": {"/input/amount", "", "is required", 422}, "not a choice": {"/input/rush", "perhaps", "is not one of the choices", 400},
	} {
		form := url.Values{"/input/amount": {"5"}, "/input/to/name": {`Ada "<b>"`}, "/input/pin": {"hunter2"}}
		form.Set(c.field, c.value)
		status, _, page := p.Post(path+"/run", form)
		if status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
		contains(t, page, c.fault, `aria-invalid="true"`, `value="Ada &#34;&lt;b&gt;&#34;"`, "Correct the marked fields.")
		if strings.Contains(page, "hunter2") {
			t.Errorf("%s: the page contains the secret", name)
		}
	}
}

func TestWorkflowIsPausedResumedAndArchived(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Base + "/workflows/" + p.Create("Good", trigger, respond)
	for i, step := range []struct{ action, current, status string }{
		{"pause", "1", "paused"}, {"resume", "2", "active"}, {"archive", "3", "archived"}, {"resume", "3", "active"},
	} {
		status, to, _ := p.Post(path+"/"+step.action, url.Values{"current": {step.current}})
		if status != 303 || to != path {
			t.Errorf("%d. %s: %d to %s", i+1, step.action, status, to)
		}
		_, page := p.Get(path)
		contains(t, page, `<span class="status `+step.status+`">`)
		if step.status != "active" && strings.Contains(page, path+"/run") {
			t.Errorf("a workflow that is %s has a form", step.status)
		}
		for _, stale := range []string{"", "1", "x"} {
			if status, _, page := p.Post(path+"/"+step.action, url.Values{"current": {stale}}); status != 412 && status != 404 {
				t.Errorf("%s at version %q: %d %s", step.action, stale, status, page)
			}
		}
	}
}

func TestViewersOnlyLookAtWorkflows(t *testing.T) {
	s := pagetest.Start(t)
	owner := s.SignIn(t, pagetest.Email)
	path := owner.Base + "/workflows/" + owner.Create("Good", trigger, respond)
	p := viewer(t, s)
	status, page := p.Get(path)
	if status != 200 || strings.Contains(page, `action="`+path+"/") {
		t.Errorf("%d with forms", status)
	}
	for _, form := range []string{"/run", "/pause", "/resume", "/archive"} {
		if status, _, page := p.Post(path+form, url.Values{"current": {"1"}}); status != 403 || !strings.Contains(page, "Only an editor") {
			t.Errorf("%s: %d, want 403", form, status)
		}
	}
}

func TestWorkflowsOfOthersAreNotFound(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Base + "/workflows/" + p.Create("Good", trigger, respond)
	other := strings.Replace(path, p.Base, "/console/"+uuid.NewString(), 1)
	for path, want := range map[string]int{
		other: 404, "/console/" + uuid.NewString() + "/workflows": 404, p.Base + "/workflows/" + uuid.NewString(): 404, p.Base + "/workflows/x": 404,
		path + "?component=none": 404, path + "?version=9": 404, path + "?version=x": 404, path + "?version=1": 200, path + "/run": 303, path: 200,
	} {
		if status, _ := p.Get(path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	for _, form := range []string{"/run", "/pause", "/resume", "/archive"} {
		if status, _, _ := p.Post(other+form, url.Values{"current": {"1"}}); status != 404 {
			t.Errorf("%s of another workspace: %d, want 404", form, status)
		}
		if status, _, _ := p.Post(path+form, nil, "Sec-Fetch-Site: cross-site"); status != 403 {
			t.Errorf("%s from another site: %d, want 403", form, status)
		}
	}
}

func TestHostileWorkflowsAreText(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	definition := order(hostile)
	definition["description"] = hostile
	definition["inputSchema"] = object{"type": "object", "properties": object{
		hostile: object{"type": "string", "description": hostile, "default": hostile}, "choice": object{"enum": []string{hostile}},
		"group": object{"type": "object", "properties": object{hostile: object{"type": "integer"}}},
	}}
	definition["components"] = []object{{"id": "start", "module": "ON_API_CALLED"}, {"id": "answer", "module": "RESPOND", "name": hostile, "input": object{"text": hostile}}}
	path := p.Base + "/workflows/" + p.API("", definition).ID
	check := func(name, page string) {
		if strings.Contains(page, "<script>") || strings.Contains(page, "<img") || !strings.Contains(page, "&lt;script&gt;") {
			t.Errorf("%s contains markup of a workflow", name)
		}
	}
	for _, path := range []string{p.Base + "/workflows", path, path + "?component=answer"} {
		_, page := p.Get(path)
		check(path, page)
	}
	_, _, page := p.Post(path+"/run", url.Values{"/input/choice": {hostile}, "/input/" + strings.ReplaceAll(hostile, "/", "~1"): {hostile}})
	check("a rejected form", page)
}

func TestSecretsOfDefinitionsAreOnNoPage(t *testing.T) {
	const secret = "correct-horse-secret"
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Base + "/workflows/" + p.Create("Sign", trigger, object{"id": "sign", "module": "HMAC", "input": object{"data": "x", "key": secret}}, respond)
	for _, query := range []string{"", "?component=sign", "?version=1"} {
		if status, page := p.Get(path + query); status != 200 || strings.Contains(page, secret) || !strings.Contains(page, "[redacted]") {
			t.Errorf("%s: %d, shows the secret or not that there is one", query, status)
		}
	}
}
