package settings_test

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/program/pagetest"
	"github.com/weft-automation/weft/internal/web/browsertest"
)

const (
	email    = pagetest.Email
	password = pagetest.Password
)

// service is a running Weft with a workspace.
type service struct {
	url, workspace string
	pool           *pgxpool.Pool // connected as the owner of the tables
	log            *strings.Builder
	stop           func()
}

func start(t *testing.T) *service {
	t.Helper()
	s := pagetest.Start(t)
	return &service{url: s.URL, workspace: "/settings/workspaces/" + s.WorkspaceID.String(), pool: s.Pool, log: s.Log, stop: s.Stop}
}

// works reports whether a key is accepted.
func (s *service) works(t *testing.T, key, secret string) bool {
	t.Helper()
	signer, err := client.NewSigner(key, secret)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.url, signer, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Call(t.Context(), http.MethodGet, "/v1/sdk/components/executions", nil, nil)
	return err == nil
}

// testdata/browser.mjs drives the pages in a real browser.
func TestPagesWorkInRealBrowser(t *testing.T) {
	s := start(t)
	output := browsertest.Run(t, "testdata/browser.mjs", "BASE_URL="+s.url, "EMAIL="+email, "PASSWORD="+password)
	type pair struct{ APIKey, APISecret string }
	var keys struct{ Kept, Doomed pair }
	if err := json.Unmarshal([]byte(output), &keys); err != nil {
		t.Fatalf("%v in %s", err, output)
	}
	if !s.works(t, keys.Kept.APIKey, keys.Kept.APISecret) {
		t.Error("the created key is rejected")
	}
	if s.works(t, keys.Doomed.APIKey, keys.Doomed.APISecret) {
		t.Error("the revoked key is accepted")
	}
	s.stop()
	for _, secret := range []string{password, "a long enough password", keys.Kept.APIKey, keys.Kept.APISecret, keys.Doomed.APISecret} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the debug log contains a secret")
		}
	}
}

// browser returns a function that sends requests with cookies and the headers of a browser.
func (s *service) browser(t *testing.T) func(method, path string, form url.Values, header ...string) (int, http.Header, string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(method, path string, form url.Values, header ...string) (int, http.Header, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, answer.Header, string(body)
	}
}

func TestResponsesHaveSecurityHeaders(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	for path, want := range map[string]int{
		"/settings": 303, s.workspace: 200, "/settings/invitations": 200, "/settings/style.css": 200, "/settings/invitation.js": 200, "/settings/copy.js": 200,
		"/settings/sign-in": 303, s.workspace + "/api-keys": 303, s.workspace + "/ledger.csv": 200,
		"/settings/nothing": 404, "/settings/workspaces": 404,
		"/settings/workspaces/x": 404, "/settings/workspaces/" + uuid.Max.String(): 404,
	} {
		status, header, _ := send(http.MethodGet, path, nil)
		if status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
		csp := header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cache-Control") == "" {
			t.Errorf("%s: %v", path, header)
		}
	}
	for line, allow := range map[string]string{
		"PUT " + s.workspace: "GET, HEAD", "DELETE /settings": "GET, HEAD", "PUT /settings/sign-in": "GET, HEAD, POST", "PUT /settings/invitations": "GET, HEAD, POST",
		"POST /settings/style.css": "GET, HEAD", "PUT " + s.workspace + "/api-keys": "GET, HEAD, POST",
	} {
		method, path, _ := strings.Cut(line, " ")
		if status, header, _ := send(method, path, nil); status != 405 || header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow %q", line, status, header.Get("Allow"))
		}
	}
	for _, line := range []string{"GET /settings/nothing", "POST /settings/nothing", "GET /settings/workspaces", "GET " + s.workspace + "/nothing"} {
		method, path, _ := strings.Cut(line, " ")
		if status, header, body := send(method, path, nil); status != 404 || !strings.HasPrefix(header.Get("Content-Type"), "text/html") || !strings.Contains(body, "no page at this address") {
			t.Errorf("%s: %d %v", line, status, header)
		}
	}
}

func TestCrossSiteFormsAreRejected(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	for _, path := range []string{
		"/settings/sign-in", "/settings/sign-out", "/settings/invitations", s.workspace + "/invitations", s.workspace + "/api-keys",
		s.workspace + "/members/" + uuid.Max.String() + "/remove", s.workspace + "/members/" + uuid.Max.String() + "/role",
		s.workspace + "/api-keys/" + uuid.Max.String() + "/revoke", s.workspace + "/api-keys/" + uuid.Max.String() + "/rotate",
		s.workspace + "/invitations/" + uuid.Max.String() + "/revoke",
	} {
		for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
			if status, _, body := send(http.MethodPost, path, url.Values{"label": {"x"}}, header); status != 403 || !strings.Contains(body, "another site") {
				t.Errorf("%s with %s: %d", path, header, status)
			}
		}
	}
	if status, _, body := send(http.MethodGet, s.workspace, nil); status != 200 || strings.Contains(body, "<td data-label=\"Label\">x") {
		t.Errorf("the session or the keys changed: %d", status)
	}
}

func TestRejectedFormShowsError(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	if status, _, _ := send(http.MethodPost, s.workspace+"/api-keys", url.Values{"label": {"x"}}); status != 401 {
		t.Errorf("without a session: %d", status)
	}
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {strings.ToUpper(email)}, "password": {password}})
	for name, tc := range map[string]struct {
		path   string
		form   url.Values
		status int
		want   string
	}{
		"no label":         {"/api-keys", url.Values{}, 400, "The label must have 1 to 200 characters."},
		"bad workflow":     {"/api-keys", url.Values{"label": {"x"}, "workflow": {"y"}}, 400, "Unknown workflow. Select workflows from the list."},
		"no such role":     {"/invitations", url.Values{"email": {"a@b.example"}, "role": {"king"}}, 400, "Unknown role"},
		"no address":       {"/invitations", url.Values{"email": {"nobody"}, "role": {"viewer"}}, 400, "This is not a valid e-mail address."},
		"a member already": {"/invitations", url.Values{"email": {email}, "role": {"viewer"}}, 409, "already a member"},
		"unknown member":   {"/members/" + uuid.Max.String() + "/remove", nil, 404, "no member with this ID"},
		"malformed member": {"/members/x/remove", nil, 404, "no member with this ID"},
		"unknown key":      {"/api-keys/" + uuid.Max.String() + "/revoke", nil, 404, "no API key with this ID"},
		"endless overlap":  {"/api-keys/" + uuid.Max.String() + "/rotate", url.Values{"hours": {"1000"}}, 400, "0 to 168 hours"},
	} {
		if status, _, body := send(http.MethodPost, s.workspace+tc.path, tc.form); status != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d, want %d and %q", name, status, tc.status, tc.want)
		}
	}
	acceptance := url.Values{"token": {"none"}, "name": {"Ada"}, "password": {password}}
	if status, _, body := send(http.MethodPost, "/settings/invitations", acceptance); status != 404 || !strings.Contains(body, "Ask for a new one") {
		t.Errorf("unknown invitation: %d", status)
	}
	for range 19 {
		send(http.MethodPost, "/settings/invitations", url.Values{"token": {"none"}})
	}
	if status, header, body := send(http.MethodPost, "/settings/invitations", acceptance); status != 429 || header.Get("Retry-After") == "" || !strings.Contains(body, `value="none"`) {
		t.Errorf("too many: %d, Retry-After %q", status, header.Get("Retry-After"))
	}
}

// textBetween returns the only text between two others in a page.
func textBetween(t *testing.T, body, before, after string) string {
	t.Helper()
	_, rest, found := strings.Cut(body, before)
	text, _, ended := strings.Cut(rest, after)
	if !found || !ended {
		t.Fatalf("no %q in %s", before, body)
	}
	return html.UnescapeString(text)
}

func TestInvitationShowsOfferBeforeAcceptance(t *testing.T) {
	s := start(t)
	owner, guest := s.browser(t), s.browser(t)
	owner(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	_, _, body := owner(http.MethodPost, s.workspace+"/invitations", url.Values{"email": {"ada@example.org"}, "role": {"editor"}})
	form := url.Values{"token": {textBetween(t, body, "#token=", "<")}}
	status, _, body := guest(http.MethodPost, "/settings/invitations", form)
	for _, want := range []string{"Acme", "editor", "ada@example.org", "Grace Hopper", email, `name="password"`} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%d, without %s", status, want)
		}
	}
	form["name"], form["password"] = []string{"Ada"}, []string{"too short"}
	if status, _, body := guest(http.MethodPost, "/settings/invitations", form); status != 400 || !strings.Contains(body, `value="Ada"`) || !strings.Contains(body, "Acme") {
		t.Errorf("invalid password: %d, %s", status, body)
	}
	form.Set("password", password)
	if status, header, _ := guest(http.MethodPost, "/settings/invitations", form); status != 303 || header.Get("Location") != s.workspace {
		t.Errorf("accepting: %d, to %s", status, header.Get("Location"))
	}
	if status, _, body := guest(http.MethodPost, "/settings/invitations", url.Values{"token": form["token"]}); status != 404 ||
		strings.Contains(body, "<input") || !strings.Contains(body, "sign in") {
		t.Errorf("used invitation: %d, %s", status, body)
	}
}

// Reloading the response to a form sends the form again.
func TestResubmittedFormDoesNothing(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	_, _, page := send(http.MethodGet, s.workspace, nil)
	const id = `name="id" value="`
	again := func(path, after string, form url.Values) string {
		t.Helper()
		form.Set("id", textBetween(t, page[strings.Index(page, after):], id, `"`))
		status, _, first := send(http.MethodPost, s.workspace+path, form)
		if status != 200 {
			t.Fatalf("%s: %d %s", path, status, first)
		}
		if status, _, body := send(http.MethodPost, s.workspace+path, form); status != 409 || !strings.Contains(body, "was already created") || strings.Contains(body, `class="once"`) {
			t.Errorf("%s again: %d", path, status)
		}
		return first
	}
	body := again("/invitations", `id="invite"`, url.Values{"email": {"a@b.example"}, "role": {"viewer"}})
	if status, _, _ := s.browser(t)(http.MethodPost, "/settings/invitations", url.Values{"token": {textBetween(t, body, "#token=", "<")}}); status != 200 {
		t.Errorf("the created link: %d", status)
	}
	again("/api-keys", `id="new"`, url.Values{"label": {"x"}})
	_, _, page = send(http.MethodGet, s.workspace, nil)
	rotate := textBetween(t, page, s.workspace+"/api-keys/", "/rotate")
	again("/api-keys/"+rotate+"/rotate", rotate+"/rotate", url.Values{"hours": {"0"}})
	var keys, invitations int
	err := s.pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM api_keys), (SELECT count(*) FROM invitations)").Scan(&keys, &invitations)
	if err != nil || keys != 2 || invitations != 1 {
		t.Errorf("%d keys and %d invitations, %v", keys, invitations, err)
	}
}

func TestWorkspacePageShowsCredits(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	if _, err := s.pool.Exec(t.Context(), "UPDATE workspaces SET plan = 'growth'"); err != nil {
		t.Fatal(err)
	}
	_, _, page := send(http.MethodGet, s.workspace, nil)
	for _, want := range []string{"1,000,000", "The plan includes 200 credits a month", "until the plan usage of the month reaches 500 credits", "18,000 an hour", "Credits granted"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	status, header, file := send(http.MethodGet, s.workspace+"/ledger.csv", nil)
	if status != 200 || header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(file, "id,kind,") || !strings.Contains(file, ",1000000,") {
		t.Errorf("the statement: %d %v %s", status, header, file)
	}
	if status, _, _ := s.browser(t)(http.MethodGet, s.workspace+"/ledger.csv", nil); status != 401 {
		t.Errorf("statement without a session: %d", status)
	}
}

// A value that is shown only once is shown even if the rest of the page fails.
func TestOneTimeValuesAreShownIfPageFails(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	if _, err := s.pool.Exec(t.Context(), "REVOKE SELECT ON credit_accounts FROM weft_api"); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := send(http.MethodGet, s.workspace, nil); status != 500 {
		t.Fatalf("the page: %d", status)
	}
	if status, _, body := send(http.MethodPost, s.workspace+"/api-keys", url.Values{"label": {"x"}}); status != 200 ||
		!strings.Contains(body, `id="api-secret"`) || !strings.Contains(body, s.workspace+"#keys") {
		t.Errorf("a key: %d %s", status, body)
	}
	if status, _, body := send(http.MethodPost, s.workspace+"/invitations", url.Values{"email": {"a@b.example"}, "role": {"viewer"}}); status != 200 ||
		!strings.Contains(body, "#token=") {
		t.Errorf("an invitation: %d %s", status, body)
	}
}

func TestHTTPSCookieIsHostOnly(t *testing.T) {
	s := start(t)
	const https = "X-Forwarded-Proto: https"
	_, header, _ := s.browser(t)(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}}, https)
	cookie, err := http.ParseSetCookie(header.Get("Set-Cookie"))
	if err != nil || cookie.Name != "__Host-weft_session" || !cookie.Secure || cookie.Path != "/" || cookie.Domain != "" {
		t.Fatalf("%v, %v", cookie, err)
	}
	send := s.browser(t)
	if status, _, _ := send(http.MethodGet, s.workspace, nil, https, "Cookie: __Host-weft_session="+cookie.Value); status != 200 {
		t.Errorf("with the host-only cookie: %d", status)
	}
	if status, _, _ := send(http.MethodGet, s.workspace, nil, https, "Cookie: weft_session="+cookie.Value); status != 401 {
		t.Errorf("with a cookie that another subdomain could set: %d", status)
	}
}
