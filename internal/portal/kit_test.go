package portal

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/clients"
	"github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/gen/api"
)

// Who has only a running deployment has the signing kit too.
func TestTheSigningKitIsServed(t *testing.T) {
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

// One folder of a running deployment has all that a client needs, its signer too.
func TestTheClientsAreServed(t *testing.T) {
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

// What the document links to in the docs is there.
func TestLinksOfTheDocumentAreServed(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	links := regexp.MustCompile(`\]\((/docs/[^)]+)\)`).FindAllSubmatch(api.SpecYAML(), -1)
	if len(links) <= len(signers.Names) {
		t.Fatalf("%d links", len(links))
	}
	for _, link := range links {
		get(t, handler, string(link[1]))
	}
}
