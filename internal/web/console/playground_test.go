package console_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/program/pagetest"
)

func TestPlaygroundListsModules(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	list := p.Base + "/playground"
	for query, want := range map[string]struct{ has, lacks string }{
		"": {"/playground/HASH", "/playground/RESPOND"}, "?q=hmac": {"/playground/HMAC", "/playground/RANDOM_UUID"}, "?q=+HASH+": {"/playground/HASH", "/playground/API_CALL"},
		"?q=nothing+of+the+kind": {"No component matches", "/playground/"}, "?q=%22%3E%3Cscript%3E": {"&#34;&gt;&lt;script&gt;", "<script>"},
	} {
		status, page := p.Get(list + query)
		if _, body, _ := strings.Cut(page, "<main"); status != 200 || !strings.Contains(body, want.has) || strings.Contains(body, want.lacks+`"`) || want.lacks == "<script>" && strings.Contains(body, want.lacks) {
			t.Errorf("%s: %d, lacks %s or has %s", query, status, want.has, want.lacks)
		}
	}
}

func TestPlaygroundCallsModule(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Base + "/playground/HASH"
	_, page := p.Get(path)
	contains(t, page, "1 credit", "none: it doesn", `name="/input/data"`, "weft_curl.sh", "weft_signer.py", "weft_signer.ts", "weft_signer.go", "WeftSigner.java", "http://127.0.0.1:8081/v1/sdk/components")
	form := url.Values{"id": {formID(t, page)}, "/input/data": {"a`b \"quoted\" <script>"}}
	status, _, page := p.Post(path, form)
	if status != 200 {
		t.Fatalf("call: %d %s", status, page)
	}
	contains(t, page, `<span class="status completed">`, "&#34;digest&#34;:", "a\\u0060b", `value="a`+"`"+`b &#34;quoted&#34; &lt;script&gt;"`)
	execution := regexp.MustCompile(p.Base + `/executions/[0-9a-f-]{36}`)
	first := execution.FindString(page)
	if _, _, again := p.Post(path, form); first == "" || execution.FindString(again) != first {
		t.Errorf("the same form executed %s and %s", first, execution.FindString(again))
	}
	for name, c := range map[string]struct {
		field, value, fault string
		status              int
	}{
		"no choice": {"/input/algorithm", "md4", "is not one of the choices", 400}, "nothing": {"/input/data", "", "", 200},
	} {
		form := url.Values{"/input/data": {"x"}}
		form.Set(c.field, c.value)
		status, _, page := p.Post(path, form)
		if status != c.status {
			t.Errorf("%s: %d, want %d: %s", name, status, c.status, page)
		}
		contains(t, page, c.fault)
	}
	status, _, page = p.Post(p.Base+"/playground/API_CALL", url.Values{"/config/apiUrl": {"ftp://x"}, "/config/method": {`"GET"`}, "/input/query": {"["}})
	if status != 400 {
		t.Errorf("unreadable JSON: %d", status)
	}
	contains(t, page, "expected object", "Correct the marked fields.")
	status, _, page = p.Post(p.Base+"/playground/API_CALL", url.Values{"/config/apiUrl": {"ftp://x"}, "/config/method": {`"GET"`}})
	if status != 422 {
		t.Errorf("an address that isn't allowed: %d", status)
	}
	contains(t, page, `class="wrong"`, "Correct the marked fields.")
}

func TestFailedCallShowsError(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	status, _, page := p.Post(p.Base+"/playground/API_CALL", url.Values{"/config/apiUrl": {"http://127.0.0.1:9/"}, "/config/method": {`"GET"`}})
	if status != 200 {
		t.Fatalf("%d: %s", status, page)
	}
	contains(t, page, `<span class="status failed">`, "/docs/errors#", "Attempts")
}

func TestSecretsAreNotInPlayground(t *testing.T) {
	const secret = "correct-horse-secret"
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	for _, data := range []string{"x", ""} {
		status, _, page := p.Post(p.Base+"/playground/HMAC", url.Values{"/input/data": {data}, "/input/key": {secret}, "/input/algorithm": {"nothing"}})
		if strings.Contains(page, secret) {
			t.Errorf("%d: the page contains the secret", status)
		}
	}
	status, _, page := p.Post(p.Base+"/playground/HMAC", url.Values{"/input/data": {"x"}, "/input/key": {secret}})
	if status != 200 || strings.Contains(page, secret) {
		t.Errorf("%d: the page contains the secret", status)
	}
	contains(t, page, "&#34;mac&#34;:", "Secret values are left out", "&#34;key&#34;: &#34;...&#34;")
	status, _, page = p.Post(p.Base+"/playground/GENERATE_AGE_ENCRYPTION", url.Values{})
	if status != 200 || strings.Contains(page, "AGE-SECRET-KEY-1") {
		t.Errorf("%d: the page contains the secret output", status)
	}
	contains(t, page, "[redacted]")
}

func TestViewersOnlyLookAtPlayground(t *testing.T) {
	s := pagetest.Start(t)
	p := viewer(t, s)
	path := p.Base + "/playground/HASH"
	if status, page := p.Get(path); status != 200 || strings.Contains(page, `<button class="main">`) {
		t.Errorf("%d with a button", status)
	}
	if status, _, page := p.Post(path, url.Values{"/input/data": {"x"}}); status != 403 || !strings.Contains(page, "Only an editor") {
		t.Errorf("%d, want 403", status)
	}
}

func TestPlaygroundOfOthersIsNotFound(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Base + "/playground/HASH"
	other := strings.Replace(path, p.Base, "/console/"+uuid.NewString(), 1)
	for path, want := range map[string]int{
		other: 404, strings.TrimSuffix(other, "/HASH"): 404, p.Base + "/playground/NOTHING": 404, p.Base + "/playground/RESPOND": 404, path: 200,
	} {
		if status, _ := p.Get(path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if status, _, _ := p.Post(other, nil); status != 404 {
		t.Errorf("a call in another workspace: %d, want 404", status)
	}
	if status, _, _ := p.Post(path, nil, "Sec-Fetch-Site: cross-site"); status != 403 {
		t.Errorf("a form of another site: %d, want 403", status)
	}
}
