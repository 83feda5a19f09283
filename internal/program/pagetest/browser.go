package pagetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// Browser is a signed-in browser of a person.
type Browser struct {
	*Service
	t    *testing.T
	http *http.Client
	Base string // path of the workspace in the console
}

// SignIn returns a browser in which a person has signed in.
func (s *Service) SignIn(t *testing.T, email string) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &Browser{Service: s, t: t, Base: "/console/" + s.WorkspaceID.String(), http: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if status, to, _ := p.Post("/settings/sign-in", url.Values{"email": {email}, "password": {Password}}); status != 303 || to != "/console" {
		t.Fatalf("sign-in: %d to %q", status, to)
	}
	return p
}

func (p *Browser) do(method, path, kind string, body io.Reader, header ...string) (status int, location, text string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(waittest.Context(p.t), method, p.URL+path, body)
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

// Get requests a page.
func (p *Browser) Get(path string) (status int, text string) {
	p.t.Helper()
	status, _, text = p.do(http.MethodGet, path, "", nil)
	return status, text
}

// Post sends a form.
func (p *Browser) Post(path string, form url.Values, header ...string) (status int, location, text string) {
	p.t.Helper()
	return p.do(http.MethodPost, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), header...)
}

// API calls an operation below /v1/sdk/workflows with the session of the browser.
func (p *Browser) API(path string, body any) (answer struct{ ID, RunID string }) {
	p.t.Helper()
	p.call("/v1/sdk/workflows"+path, body, &answer)
	return answer
}

// Execute executes a component, and returns the ID of the execution.
func (p *Browser) Execute(body any) (id string) {
	p.t.Helper()
	var answer struct{ ID string }
	p.call("/v1/sdk/components", body, &answer)
	return answer.ID
}

func (p *Browser) call(path string, body, answer any) {
	p.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	status, _, text := p.do(http.MethodPost, path, "application/json", bytes.NewReader(data), "Weft-Workspace: "+p.WorkspaceID.String())
	if err := json.Unmarshal([]byte(text), answer); status != 200 || err != nil {
		p.t.Fatalf("%s: %d %s", path, status, text)
	}
}

// Object is a JSON Object.
type Object = map[string]any

// Create creates a workflow whose components follow each other.
func (p *Browser) Create(name string, components ...Object) (id string) {
	p.t.Helper()
	edges := []Object{}
	for i, c := range components {
		for field, value := range (Object{"name": c["id"], "input": Object{}, "config": Object{}}) {
			if c[field] == nil {
				c[field] = value
			}
		}
		if i > 0 {
			edges = append(edges, Object{"id": fmt.Sprint("e", i), "from": components[i-1]["id"], "to": c["id"]})
		}
	}
	return p.API("", Object{"name": name, "description": "", "components": components, "sequenceEdges": edges, "dataConnections": []Object{}}).ID
}

// Run starts a run and returns the path of its page.
func (p *Browser) Run(workflow string, input Object) (path string) {
	p.t.Helper()
	return p.Base + "/runs/" + p.API("/"+workflow, Object{"input": input, "waitForMs": 10000}).RunID
}

// Wait reads a page until it contains the text.
func (p *Browser) Wait(path, text string) {
	p.t.Helper()
	waittest.Until(p.t, "the page shows "+text, func() bool {
		_, page := p.Get(path)
		return strings.Contains(page, text)
	})
}
