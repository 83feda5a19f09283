package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/program/pagetest"
)

type object = pagetest.Object

var (
	trigger  = object{"id": "start", "module": "ON_API_CALLED"}
	approval = object{"id": "approval", "module": "WAIT_FOR_SIGNAL", "name": "Somebody approves", "config": object{"name": "approved", "timeoutMs": 600000}}
	failing  = object{"id": "fail", "module": "FAIL", "name": "It breaks", "config": object{"code": "BROKEN", "message": "It is broken."}}
	respond  = object{"id": "answer", "module": "RESPOND"}
)

func TestRunsAreListedAndFiltered(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	if _, page := p.Get(p.Base + "/runs"); !strings.Contains(page, "No workflows yet") {
		t.Error("an empty workspace doesn't say what to do")
	}
	good, bad := p.Create("Good", trigger, respond), p.Create("Bad", trigger, failing)
	if _, page := p.Get(p.Base + "/runs"); !strings.Contains(page, "No runs yet") {
		t.Error("a workspace without runs doesn't say what to do")
	}
	p.Run(good, nil)
	p.Run(bad, nil)
	for query, want := range map[string][]string{
		"": {"Bad", "Good"}, "?status=FAILED": {"Bad"}, "?status=COMPLETED": {"Good"}, "?workflow=" + good: {"Good"}, "?trigger=API": {"Bad", "Good"},
		"?trigger=SCHEDULE": {}, "?since=1h": {"Bad", "Good"}, "?status=FAILED&workflow=" + good: {},
	} {
		status, page := p.Get(p.Base + "/runs" + query)
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
		if status, _ := p.Get(p.Base + "/runs" + query); status != 400 {
			t.Errorf("%s: %d, want 400", query, status)
		}
	}
}

func TestAFailedRunShowsItsFirstFailure(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Run(p.Create("Bad", trigger, failing), nil)
	_, page := p.Get(path)
	for _, want := range []string{`<a href="` + path + `#component">It breaks</a>`, `/docs/errors#BROKEN`, "It is broken.", `<h2 id="component-title">It breaks`, `class="node failed chosen"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// While a stage waits for its next attempt, the page of the run shows until when, also on the stage.
func TestARunShowsThatAStageWaitsForARetry(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(upstream.Close)
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	call := object{"id": "call", "module": "API_CALL", "input": object{"headers": object{}}, "config": object{"apiUrl": upstream.URL, "method": "GET"}, "retry": object{"initialDelayMs": 3600000}}
	path := p.Base + "/runs/" + p.API("/"+p.Create("Patient", trigger, call), object{}).RunID
	p.Wait(path, `<span class="soft">waits for attempt 2, until `)
	_, page := p.Get(path + "?component=call")
	if shown := regexp.MustCompile(`<dt>Attempts</dt><dd>1, waits for attempt 2, until \d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC</dd>`); !shown.MatchString(page) {
		t.Errorf("the stage doesn't show that it waits: %s", page)
	}
}

func TestFormsOfARunActOnIt(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	waits := p.Create("Approval", trigger, approval, respond)
	path := p.Run(waits, nil)
	if _, page := p.Get(path); !strings.Contains(page, "Waits for the signal") {
		t.Error("the page doesn't say that the run waits for a signal")
	}
	for name, form := range map[string]url.Values{"no object": {"name": {"approved"}, "payload": {"[1]"}}, "no JSON": {"name": {"approved"}, "payload": {"{"}}} {
		if status, _, page := p.Post(path+"/signal", form); status != 400 || !strings.Contains(page, "must be a JSON object") {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status, _, _ := p.Post(path+"/signal", url.Values{"name": {"other"}}); status != 409 {
		t.Errorf("a signal that nothing waits for: %d, want 409", status)
	}
	if status, to, page := p.Post(path+"/signal", url.Values{"name": {"approved"}, "payload": {`{"by":"ada"}`}}); status != 303 || to != path {
		t.Fatalf("signal: %d to %s: %s", status, to, page)
	}
	p.Wait(path, "Completed")

	canceled := p.Run(waits, nil)
	if status, to, _ := p.Post(canceled+"/cancel", url.Values{"mode": {"graceful"}, "reason": {"No longer needed"}}); status != 303 || to != canceled {
		t.Errorf("cancel: %d to %s", status, to)
	}
	p.Wait(canceled, "No longer needed")
	p.Wait(canceled, `class="status canceled"`)

	form := url.Values{"id": {uuid.Must(uuid.NewV7()).String()}}
	status, rerun, _ := p.Post(canceled+"/rerun", form)
	if _, page := p.Get(rerun); status != 303 || !strings.Contains(page, `<a href="`+canceled+`">`) {
		t.Errorf("rerun: %d to %s, which doesn't name the earlier run", status, rerun)
	}
	if _, again, _ := p.Post(canceled+"/rerun", form); again != rerun {
		t.Errorf("the same form started %s and %s", rerun, again)
	}
}

func TestViewersOnlyLook(t *testing.T) {
	s := pagetest.Start(t)
	owner := s.SignIn(t, pagetest.Email)
	path := owner.Run(owner.Create("Approval", trigger, approval), nil)
	p := viewer(t, s)
	status, page := p.Get(path)
	if status != 200 || strings.Contains(page, `action="`+path) {
		t.Errorf("%d with forms", status)
	}
	for _, form := range []string{"/signal", "/cancel", "/rerun"} {
		if status, _, page := p.Post(path+form, url.Values{"name": {"approved"}}); status != 403 || !strings.Contains(page, "Only an editor") {
			t.Errorf("%s: %d, want 403", form, status)
		}
	}
}

func TestRunsOfOthersAreNotFound(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Run(p.Create("Good", trigger, respond), nil)
	other := strings.Replace(path, p.Base, "/console/"+uuid.NewString(), 1)
	for path, want := range map[string]int{
		other: 404, p.Base + "/runs/" + uuid.NewString(): 404, p.Base + "/runs/x": 404, "/console/x/runs": 404, p.Base + "/nothing": 404,
		path + "?component=none": 404, path + "?component=start&item=0": 404, path + "?component=start&item=x": 400,
		"/console": 303, p.Base: 200, path + "/cancel": 303, path: 200,
	} {
		if status, _ := p.Get(path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	for _, form := range []string{"/signal", "/cancel", "/rerun"} {
		if status, _, _ := p.Post(path+form, nil, "Sec-Fetch-Site: cross-site"); status != 403 {
			t.Errorf("%s from another site: %d, want 403", form, status)
		}
	}
}

func TestHostileValuesAreText(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Run(p.Create(hostile, trigger, object{"id": "fail", "module": "FAIL", "name": hostile, "config": object{"code": "BROKEN", "message": hostile}}), object{"text": hostile})
	for _, path := range []string{p.Base + "/runs", path, path + "?component=start"} {
		if _, page := p.Get(path); strings.Contains(page, "<script>") || strings.Contains(page, "<img") || !strings.Contains(page, "&lt;script&gt;") {
			t.Errorf("%s contains markup of a workflow", path)
		}
	}
}

func TestSecretsAreOnNoPage(t *testing.T) {
	const secret = "correct-horse-secret"
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	id := p.API("", object{
		"name": "Secret", "description": "", "inputSchema": object{"type": "object", "properties": object{"token": object{"type": "string", "x-secret": true}}},
		"components": []object{
			{"id": "start", "module": "ON_API_CALLED", "name": "start", "input": object{}, "config": object{}},
			{"id": "sign", "module": "HMAC", "name": "sign", "input": object{"data": "x", "key": secret}, "config": object{}},
			{"id": "answer", "module": "RESPOND", "name": "answer", "input": object{}, "config": object{}},
		},
		"sequenceEdges": []object{{"id": "e", "from": "start", "to": "sign"}, {"id": "f", "from": "sign", "to": "answer"}}, "dataConnections": []object{},
	}).ID
	path := p.Run(id, object{"token": secret})
	for _, path := range []string{p.Base + "/runs", path, path + "?component=start", path + "?component=sign", path + "?component=answer"} {
		if status, page := p.Get(path); status != 200 || strings.Contains(page, secret) {
			t.Errorf("%s: %d, shows the secret", path, status)
		}
	}
	if _, page := p.Get(path); !strings.Contains(page, "[redacted]") {
		t.Error("the input isn't shown as redacted")
	}
}
