package portal

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
)

// loads matches the files that pages load.
var loads = regexp.MustCompile(`<(?:link rel="(?:icon|stylesheet)"|script|img|iframe)[^>]*(?:href|src)="([^"]*)"`)

// paths returns the paths of all pages. Of components, it has only HASH.
func paths() []string {
	return newLibrary([]api.Component{{Module: "HASH"}}).paths()
}

func TestPagesLoadNothingFromOtherOrigins(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	for _, path := range paths() {
		w := get(t, handler, path)
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "http") {
			t.Errorf("%s: policy is %q", path, csp)
		}
		if csp := w.Header().Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy is %q", path, csp)
		}
		found := loads.FindAllStringSubmatch(w.Body.String(), -1)
		if len(found) < 4 {
			t.Errorf("%s loads %q", path, found)
		}
		for _, one := range found {
			if strings.HasPrefix(one[1], "data:") {
				continue
			}
			if cache := get(t, handler, one[1]).Header().Get("Cache-Control"); !strings.Contains(cache, "immutable") {
				t.Errorf("%s: Cache-Control is %q", one[1], cache)
			}
		}
	}
}

func TestEveryAssetIsServed(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	files, err := pages.ReadDir("pages")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := file.Name(); strings.HasSuffix(name, ".css") || strings.HasSuffix(name, ".js") {
			text, err := pages.ReadFile("pages/" + name)
			if err != nil || regexp.MustCompile(`https?://[^1]|url\(|@import`).Match(text) {
				t.Errorf("%s names another origin, %v", name, err)
			}
			if served := get(t, handler, assetPath(name)).Body.String(); !strings.HasSuffix(served, string(text)) {
				t.Errorf("%s: got %.60q", name, served)
			}
		}
	}
	// During an upgrade, a page of another version may request the asset: it isn't cached.
	if cache := get(t, handler, "/docs/assets/another/base.css").Header().Get("Cache-Control"); cache != "no-cache" {
		t.Errorf("under another hash: Cache-Control is %q", cache)
	}
}

// robots.txt allows the docs, but not the API and the settings. The favicon is also used by the
// settings.
func TestRobotsAndFaviconAreServed(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	robots := get(t, handler, "/robots.txt")
	if robots.Header().Get("Content-Type") != textType || !strings.Contains(robots.Body.String(), "\nUser-agent: *\nAllow: /docs\nDisallow: /v1\nDisallow: /settings\nDisallow: /console\n") {
		t.Errorf("%v %s", robots.Header(), robots.Body)
	}
	for _, path := range []string{"/favicon.svg", assetPath("favicon.svg")} {
		mark := get(t, handler, path)
		if mark.Header().Get("Content-Type") != "image/svg+xml" || mark.Header().Get("Content-Security-Policy") != pagePolicy || !strings.HasPrefix(mark.Body.String(), "<svg ") {
			t.Errorf("%s: %v %s", path, mark.Header(), mark.Body)
		}
	}
	for _, path := range paths() {
		w := get(t, handler, path)
		if w.Header().Get("X-Robots-Tag") != "" || strings.Contains(w.Body.String(), `name="robots"`) || !strings.Contains(w.Body.String(), `<link rel="icon" href="`+assetPath("favicon.svg")) {
			t.Errorf("%s is disallowed or has no favicon", path)
		}
	}
}

// A client with the current page gets 304, one with another page gets 200.
func TestUnchangedDocumentsAreNotModified(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	tags := map[string]string{}
	for _, path := range append(paths(), "/docs.md", "/llms.txt", "/docs/search.json", "/docs/signing-vectors.json", "/docs/signers/weft_curl.sh", "/docs/clients/python/weft_client.py", assetPath("page.js")) {
		tag := get(t, handler, path).Header().Get("ETag")
		if other, taken := tags[tag]; taken {
			t.Errorf("%s has the ETag %s, like %s", path, tag, other)
		}
		tags[tag] = path
		for held, want := range map[string]int{tag: http.StatusNotModified, `"another"`: http.StatusOK} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("If-None-Match", held)
			handler.ServeHTTP(w, r)
			if w.Code != want || (w.Body.Len() == 0) != (want == http.StatusNotModified) {
				t.Errorf("%s with ETag %s: %d, %d bytes", path, held, w.Code, w.Body.Len())
			}
		}
	}
}

func TestEveryPageHasMarkdown(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	for _, path := range paths() {
		w := get(t, handler, path+".md")
		if text := w.Body.String(); w.Header().Get("Content-Type") != "text/markdown; charset=utf-8" || !strings.HasPrefix(text, "# ") || strings.Contains(text, "<%") || strings.Contains(text, "data-widget") {
			t.Errorf("%s: %v %.80q", path, w.Header(), text)
		}
	}
	if get(t, handler, "/llms.txt").Body.String() != get(t, handler, "/docs/llms.txt").Body.String() {
		t.Error("the two lists differ")
	}
}

var (
	linkOfMarkdown = regexp.MustCompile(`\]\(([/#][^)\s]*)\)`)
	linkOfHTML     = regexp.MustCompile(`href="([/#][^"]*)"`)
	anchorOfHTML   = regexp.MustCompile(` id="([^"]*)"`)
)

// elsewhere matches paths of the service outside of the portal.
var elsewhere = []string{"/openapi.yaml", "/openapi.json", "/openapi-3.0.json", "/settings", "/console"}

func TestLinksResolve(t *testing.T) {
	t.Parallel()
	components := all(t)
	of := newLibrary(components)
	handler := Handler(components)
	from := map[string][]string{}
	collect := func(path, form string, links *regexp.Regexp) {
		for _, found := range links.FindAllStringSubmatch(get(t, handler, path+form).Body.String(), -1) {
			link := found[1]
			if strings.HasPrefix(link, "#") {
				link = path + form + link
			}
			if page, _, _ := strings.Cut(link, "#"); form == ".md" && slices.Contains(of.paths(), page) {
				t.Errorf("%s links to %s, which is HTML", path+form, link)
			}
			from[link] = append(from[link], path+form)
		}
	}
	for _, path := range of.paths() {
		collect(path, "", linkOfHTML)
		collect(path, ".md", linkOfMarkdown)
	}
	collect("/llms.txt", "", linkOfMarkdown)
	found := map[string][]string{}
	anchors := func(path string) []string {
		if found[path] == nil {
			for _, one := range anchorOfHTML.FindAllStringSubmatch(get(t, handler, path).Body.String(), -1) {
				found[path] = append(found[path], one[1])
			}
		}
		return found[path]
	}
	for link, sources := range from {
		path, fragment, _ := strings.Cut(link, "#")
		fragment, err := url.PathUnescape(fragment)
		if err != nil {
			t.Errorf("%v link to %s: %v", sources, link, err)
		}
		if slices.Contains(elsewhere, path) {
			continue
		}
		page := get(t, handler, path).Body.String()
		switch {
		case fragment == "":
		case strings.HasSuffix(path, ".md"):
			if !slices.Contains(placesOf(page), fragment) {
				t.Errorf("%v link to %s, which has no such anchor", sources, link)
			}
		case !slices.Contains(anchors(path), fragment):
			t.Errorf("%v link to %s, which has no such anchor", sources, link)
		}
	}
}

func TestAnchorsAreUnique(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	for _, path := range paths() {
		seen := map[string]bool{}
		for _, found := range anchorOfHTML.FindAllStringSubmatch(get(t, handler, path).Body.String(), -1) {
			if seen[found[1]] {
				t.Errorf("%s has two anchors %s", path, found[1])
			}
			seen[found[1]] = true
		}
	}
}

func TestSearchFindsPagesSectionsOperationsAndComponents(t *testing.T) {
	t.Parallel()
	var index []entry
	if err := json.Unmarshal(get(t, Handler(all(t)), "/docs/search.json").Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	for _, want := range []entry{
		{Kind: "Guide", Path: "/docs/signing"},
		{Kind: "Section", Path: "/docs/signing#when-it-is-refused"},
		{Kind: "Code", Path: "/docs/errors#RATE_LIMITED"},
		{Kind: "Code", Path: "/docs/errors#execution.TRANSACTION_DROPPED"},
		{Kind: "Code", Path: "/docs/errors#reason.sign_in_attempts"},
		{Kind: "Operation", Path: "/docs/reference#tag/components/POST/v1/sdk/components"},
		{Kind: "Component", Path: "/docs/components/RANDOM_UUID"},
	} {
		if !slices.ContainsFunc(index, func(e entry) bool { return e.Kind == want.Kind && e.Path == want.Path && e.Title != "" }) {
			t.Errorf("the index does not contain %+v", want)
		}
	}
}

func TestHighlightKeepsCode(t *testing.T) {
	t.Parallel()
	tags := regexp.MustCompile(`<span class="\w+">|</span>`)
	for _, one := range []struct{ language, code string }{
		{"go", "// a \"comment\"\nfunc main() { x := `raw <b>` + \"\\\"\" }\n"},
		{"python", "'''no'''\nf\"a {b}\" # c\nclass X: pass\n"},
		{"sh", "a='x' # y\nfor i in \"$a\"; do echo ${i}#no; done\n"},
		{"console", "$ weft call HASH \\\n    data=x\nanswer\n"},
		{"json", `{"a": [1, -2.5, "b", null], "c:": "d:"}`},
		{"unknown", "<script>alert(1)</script>"},
	} {
		shown := highlight(one.language, one.code)
		plain := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'", "&amp;", "&").Replace(tags.ReplaceAllString(shown, ""))
		if plain != one.code {
			t.Errorf("%s: code %q is rendered as %q", one.language, one.code, shown)
		}
		if strings.Contains(shown, "<script>") || one.language != "unknown" && !strings.Contains(shown, "<span") {
			t.Errorf("%s: %q", one.language, shown)
		}
	}
}
