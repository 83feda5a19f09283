package portal

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

var (
	headingOfMarkdown = regexp.MustCompile("(?m)^#+ (.*)$")
	anchorOfMarkdown  = regexp.MustCompile(`<a id="([^"]*)"></a>`)
	codeOfMarkdown    = regexp.MustCompile("(?ms)^```.*?^```")
)

// placesOf returns the anchors in Markdown: the anchors of headings, and explicit anchors.
func placesOf(page string) []string {
	var places []string
	page = codeOfMarkdown.ReplaceAllString(page, "")
	for _, found := range anchorOfMarkdown.FindAllStringSubmatch(page, -1) {
		places = append(places, found[1])
	}
	for _, found := range headingOfMarkdown.FindAllStringSubmatch(page, -1) {
		places = append(places, slug(found[1]))
	}
	return places
}

func TestSlugMatchesMarkdownRenderers(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"Answers to requests": "answers-to-requests", "3. Call it, twice": "3-call-it-twice", "`NOT_FOUND`": "not_found", "a b-c — d": "a-b-c--d", "Größe": "größe",
	} {
		if got := slug(heading); got != want {
			t.Errorf("slug of %q is %q, want %q", heading, got, want)
		}
	}
}

// reached requests a page through an origin, with etag as If-None-Match.
func reached(t *testing.T, origin, path, etag string) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("If-None-Match", etag)
	Handler(all(t)).ServeHTTP(w, r.WithContext(WithOrigin(r.Context(), origin)))
	return w
}

// In HTML, a script inserts the origin.
func TestMarkdownUsesOriginOfRequest(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/docs/first-call.md", "/docs/signing.md", "/docs/streams.md", "/docs/errors.md", "/docs/signers.md", "/docs/clients.md"} {
		for _, origin := range []string{"https://weft.example", "http://10.0.0.7:8180", "https://[2001:db8::1]:8443"} {
			text := reached(t, origin, path, "").Body.String()
			if strings.Contains(text, local) || !strings.Contains(text, " "+origin+"/") {
				t.Errorf("%s at %s has another origin", path, origin)
			}
		}
	}
	if text := reached(t, "https://weft.example", "/docs/first-call", "").Body.String(); !strings.Contains(text, local) {
		t.Error("the HTML lacks the address that the script replaces")
	}
}

// The client controls the Host header, and readers paste commands that contain it.
func TestMarkdownIgnoresUnsafeOrigins(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{
		"", "https://", "ftp://weft.example", "https://weft.example/path", "https://weft.example;id", "https://$(id)", "https://a`id`", "https://a'b", "https://a b",
		"https://a\nb", "https://-o", "https://user@weft.example", "https://weft.example:port", "https://[$(id)]", "https://" + strings.Repeat("a", 300), "javascript:alert(1)",
	} {
		text := reached(t, origin, "/docs/signing.md", "").Body.String()
		if !strings.Contains(text, " "+local+"/") || origin != "" && origin != "https://" && strings.Contains(text, origin) {
			t.Errorf("the page contains %q", origin)
		}
	}
}

// Caches don't mix pages of different origins.
func TestMarkdownIsCachedPerOrigin(t *testing.T) {
	t.Parallel()
	tags := map[string]string{}
	for _, origin := range []string{"", "https://weft.example", "http://weft.example", "https://other.example"} {
		w := reached(t, origin, "/docs/signing.md", "")
		tag := w.Header().Get("ETag")
		if other, taken := tags[tag]; taken || w.Header().Get("Vary") != "Host, X-Forwarded-Proto" || w.Header().Get("Cache-Control") != "private, no-cache" {
			t.Errorf("%s: header %v, ETag of %q", origin, w.Header(), other)
		}
		for before, of := range tags {
			if code := reached(t, origin, "/docs/signing.md", before).Code; code != http.StatusOK {
				t.Errorf("%s with the ETag of %s: %d", origin, of, code)
			}
		}
		if code := reached(t, origin, "/docs/signing.md", tag).Code; code != http.StatusNotModified {
			t.Errorf("%s with its own ETag: %d", origin, code)
		}
		tags[tag] = origin
	}
	// A page without an address is the same for all origins.
	if h := reached(t, "https://weft.example", "/docs/components.md", "").Header(); h.Get("Vary") != "Accept-Encoding" || h.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v", h)
	}
}

// The output of weft dev has the address of the reader's machine, not that of the deployment whose
// docs they read.
func TestOutputOfDevKeepsItsAddress(t *testing.T) {
	t.Parallel()
	page := reached(t, "https://weft.example", "/docs/dev.md", "").Body.String()
	if strings.Contains(page, "https://weft.example/open") || !strings.Contains(page, "http://127.0.0.1:8080/open") {
		t.Error("the output of weft dev has the address of the deployment")
	}
}
