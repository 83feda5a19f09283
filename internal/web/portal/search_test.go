package portal

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// has reports whether an entry matches all words of the query, like the search in the browser.
func (e entry) has(query string) bool {
	held := strings.Fields(wordsOf(e.Title + " " + e.About + " " + e.Kind + " " + e.Text))
	for _, want := range strings.Fields(wordsOf(query)) {
		if !slices.ContainsFunc(held, func(one string) bool { return strings.HasPrefix(one, want) }) {
			return false
		}
	}
	return true
}

func TestSearchFindsWordsOfGuides(t *testing.T) {
	t.Parallel()
	body := get(t, Handler(all(t)), "/docs/search.json").Body.Bytes()
	if most := 300_000; len(body) > most {
		t.Errorf("the index has %d bytes, want at most %d", len(body), most)
	}
	var index []entry
	if err := json.Unmarshal(body, &index); err != nil {
		t.Fatal(err)
	}
	for query, path := range map[string]string{
		"python":           "/docs/clients#python",
		"Java signer":      "/docs/signers/WeftSigner.java",
		"go client":        "/docs/clients#go",
		"retry":            "/docs/limits#beyond-a-limit",
		"sse reconnect":    "/docs/streams",
		"weft listen":      "/docs/callbacks#receive-it",
		"webhook":          "/docs/callbacks",
		"idempotency":      "/docs/limits#beyond-a-limit",
		"pagination":       "/docs/conventions",
		"billing":          "/docs/limits",
		"production":       "/docs/deployment",
		"docker":           "/docs/deployment",
		"monitoring":       "/docs/operations",
		"approve":          "/docs/workflows",
		"own code":         "/docs/own-code",
		"custom component": "/docs/own-code",
		"executeComponent": "/docs/reference#tag/components/POST/v1/sdk/components",
		"sdk/components":   "/docs/reference#tag/components/POST/v1/sdk/components",
	} {
		if !slices.ContainsFunc(index, func(e entry) bool { return e.Path == path && e.has(query) }) {
			t.Errorf("%q does not find %s", query, path)
		}
	}
	for _, e := range index {
		if strings.Contains(e.Text, "<") || e.Text != strings.ToLower(e.Text) {
			t.Errorf("text of %s is not plain words: %.80q", e.Path, e.Text)
		}
		if shown := e.Title + " " + e.About; strings.ContainsAny(shown, "`") || strings.Contains(shown, "](") || strings.Contains(shown, "**") {
			t.Errorf("%s is shown as Markdown: %q", e.Path, shown)
		}
	}
}
