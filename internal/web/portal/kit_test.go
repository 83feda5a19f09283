package portal

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/clients"
	"github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/gen/api"
)

// A deployment serves the signing kit, so users don't need the repository.
func TestSigningKitIsServed(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	vectors := get(t, handler, "/docs/signing-vectors.json")
	var read struct{ Requests []struct{ Signature string } }
	if err := json.Unmarshal(vectors.Body.Bytes(), &read); err != nil || len(read.Requests) < 30 || vectors.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d requests, %v, %v", len(read.Requests), vectors.Header(), err)
	}
	for _, name := range signers.Names {
		w := get(t, handler, "/docs/signers/"+name)
		if w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(w.Body.String(), "stands alone") {
			t.Errorf("%s: %d %s", name, w.Code, w.Header().Get("Content-Type"))
		}
	}
}

// A deployment serves each client with its signer in one folder.
func TestClientsAreServed(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	for _, language := range clients.Languages {
		for _, name := range append([]string{language.Signer}, language.Files...) {
			if w := get(t, handler, "/docs/clients/"+language.Name+"/"+name); w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Body.Len() < 1000 {
				t.Errorf("%s/%s: %s %.60s", language.Name, name, w.Header().Get("Content-Type"), w.Body)
			}
		}
	}
}

// The HTML and the Markdown of a page, and /llms.txt, link to every file to copy. A request for a
// folder redirects to the page of its files.
func TestFilesToCopyAreLinked(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	links := map[string][]string{}
	for _, name := range signers.Names {
		link := "/docs/signers/" + name
		links["/docs/signers"], links["/docs/signing"] = append(links["/docs/signers"], link), append(links["/docs/signing"], link)
	}
	folders := map[string]string{"/docs/signers/": "/docs/signers", "/docs/clients/": "/docs/clients"}
	for _, language := range clients.Languages {
		for _, name := range append([]string{language.Signer}, language.Files...) {
			links["/docs/clients"] = append(links["/docs/clients"], "/docs/clients/"+language.Name+"/"+name)
		}
		folders["/docs/clients/"+language.Name+"/"] = "/docs/clients#" + language.Name
	}
	list := get(t, handler, "/llms.txt").Body.String()
	for page, all := range links {
		html, markdown := get(t, handler, page).Body.String(), get(t, handler, page+".md").Body.String()
		for _, link := range all {
			if !strings.Contains(html, `href="`+link+`"`) || !strings.Contains(markdown, "]("+link+")") || !strings.Contains(list, "]("+link+")") {
				t.Errorf("%s is not linked from %s, its Markdown and /llms.txt", link, page)
			}
		}
	}
	for _, link := range []string{"/openapi.yaml", "/openapi.json", "/openapi-3.0.json", "/docs/signing-vectors.json"} {
		if !strings.Contains(list, "]("+link+")") {
			t.Errorf("/llms.txt does not list %s", link)
		}
	}
	for folder, want := range folders {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, folder, nil))
		if w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != want {
			t.Errorf("%s: %d %s", folder, w.Code, w.Header().Get("Location"))
		}
	}
}

// Links from the OpenAPI document to the docs work.
func TestDocsLinksInContractWork(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	links := regexp.MustCompile(`\]\((/docs/[^)]+)\)`).FindAllSubmatch(api.SpecYAML(), -1)
	if len(links) <= len(signers.Names) {
		t.Fatalf("found only %d links", len(links))
	}
	for _, link := range links {
		get(t, handler, string(link[1]))
	}
}
