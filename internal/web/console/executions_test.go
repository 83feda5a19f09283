package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/program/pagetest"
)

func TestOverviewShowsWhatHappens(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	if status, page := p.Get(p.Base); status != 200 || !strings.Contains(page, "Start with these commands") || !strings.Contains(page, "No run failed") {
		t.Errorf("an empty workspace: %d doesn't say what to do", status)
	}
	p.Run(p.Create("Bad", trigger, failing), nil)
	waiting := p.Run(p.Create("Approval", trigger, approval, respond), nil)
	_, page := p.Get(p.Base)
	for what, want := range map[string]string{
		"the unfinished runs": "<b>1</b> run is not finished", "the failed runs": `<b class="bad">1</b> failed in 24 hours`,
		"the code": `/docs/errors#BROKEN`, "the oldest run": "Unfinished for the longest time", "its page": `href="` + waiting + `"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s: the page lacks %s", what, want)
		}
	}
}

func TestExecutionsAreListedAndFiltered(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	if _, page := p.Get(p.Base + "/executions"); !strings.Contains(page, "No executions yet") {
		t.Error("a workspace without executions doesn't say what to do")
	}
	p.Execute(pagetest.Object{"module": "RANDOM_UUID", "input": pagetest.Object{}, "config": pagetest.Object{}, "waitForMs": 10000})
	p.Execute(pagetest.Object{"module": "HASH", "input": pagetest.Object{"data": "x"}, "config": pagetest.Object{}, "waitForMs": 10000})
	p.Run(p.Create("Good", trigger, respond), nil) // its stages aren't listed
	for query, want := range map[string]int{"": 2, "?module=HASH": 1, "?status=COMPLETED": 2, "?status=FAILED": 0, "?since=1h&module=RANDOM_UUID": 1} {
		if status, page := p.Get(p.Base + "/executions" + query); status != 200 || strings.Count(page, "data-row") != want {
			t.Errorf("%s: %d lists %d, want %d", query, status, strings.Count(page, "data-row"), want)
		}
	}
	for _, query := range []string{"?status=CANCELED", "?since=1y", "?module=NOTHING", "?cursor=x"} {
		if status, _ := p.Get(p.Base + "/executions" + query); status != 400 {
			t.Errorf("%s: %d, want 400", query, status)
		}
	}
	for _, path := range []string{"/executions/x", "/executions/" + uuid.NewString()} {
		if status, _ := p.Get(p.Base + path); status != 404 {
			t.Errorf("%s: %d, want 404", path, status)
		}
	}
}

// The receiver rejects the callback until it is replayed from the page.
func TestUndeliveredCallbackIsReplayed(t *testing.T) {
	var healthy atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusGone) // ends the attempts
		}
	}))
	t.Cleanup(receiver.Close)
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	id := p.Execute(pagetest.Object{"module": "RANDOM_UUID", "input": pagetest.Object{}, "config": pagetest.Object{}, "callbackUrl": receiver.URL})
	path := p.Base + "/executions/" + id
	p.Wait(path, "Not delivered")
	p.Wait(p.Base, `href="`+path+`#delivery"`)
	healthy.Store(true)
	if status, _, _ := p.Post(path+"/replay", url.Values{}, "Sec-Fetch-Site: cross-site"); status != 403 {
		t.Errorf("a replay from another site: %d, want 403", status)
	}
	if status, to, page := p.Post(path+"/replay", url.Values{}); status != 303 || to != path {
		t.Fatalf("replay: %d to %s: %s", status, to, page)
	}
	p.Wait(path, "Delivered")
	if _, page := p.Get(p.Base); strings.Contains(page, path) {
		t.Error("a delivered callback is on the overview")
	}
}

// An execution is canceled from its page, with a reason.
func TestExecutionIsCanceled(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(upstream.Close)
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	id := p.Execute(pagetest.Object{"module": "API_CALL", "input": pagetest.Object{}, "config": pagetest.Object{"apiUrl": upstream.URL, "method": "GET"}})
	path := p.Base + "/executions/" + id
	p.Wait(path, `action="`+path+`/cancel"`)
	if status, _, page := p.Post(path+"/cancel", url.Values{"reason": {strings.Repeat("x", 1001)}}); status != 400 || !strings.Contains(page, "reason") {
		t.Errorf("a long reason: %d", status)
	}
	if status, to, page := p.Post(path+"/cancel", url.Values{"reason": {"wrong amount"}}); status != 303 || to != path {
		t.Fatalf("cancel: %d to %s: %s", status, to, page)
	}
	p.Wait(path, "Reason: wrong amount")
	if _, page := p.Get(path); strings.Contains(page, path+"/cancel") {
		t.Error("a finished execution can be canceled")
	}
}

// A component marks secrets in its output. No page shows them.
func TestSecretOutputsAreRedacted(t *testing.T) {
	const module, secret = "GENERATE_AGE_ENCRYPTION", "AGE-SECRET-KEY"
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	id := p.Execute(pagetest.Object{"module": module, "input": pagetest.Object{}, "config": pagetest.Object{}, "waitForMs": 10000})
	run := p.Run(p.Create("Keys", trigger, pagetest.Object{"id": "keys", "module": module}, respond), nil)
	p.Wait(run, "data-final")
	for _, path := range []string{p.Base + "/executions/" + id, run + "?component=keys"} {
		if status, page := p.Get(path); status != 200 || strings.Contains(page, secret) || !strings.Contains(page, "[redacted]") {
			t.Errorf("%s: %d, and the private key isn't redacted", path, status)
		}
	}
}
