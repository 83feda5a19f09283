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

// placesOf are what links within Markdown may name: headings by their words, and anchors.
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

func TestSectionsOfMarkdownAreCalledAsItsReadersCallThem(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"Answers to requests": "answers-to-requests", "3. Call it, twice": "3-call-it-twice", "`NOT_FOUND`": "not_found", "a b-c — d": "a-b-c--d", "Größe": "größe",
	} {
		if got := slug(heading); got != want {
			t.Errorf("%q is called %q, want %q", heading, got, want)
		}
	}
}

// reached is a page as who came by an origin gets it, and has one already if held is its tag.
func reached(t *testing.T, origin, path, held string) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("If-None-Match", held)
	Handler(all(t)).ServeHTTP(w, r.WithContext(ReachedAt(r.Context(), origin)))
	return w
}

// The HTML edition has a script for it.
func TestMarkdownNamesTheDeploymentByItsAddress(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/docs/first-call.md", "/docs/signing.md", "/docs/streams.md", "/docs/errors.md", "/docs/signers.md", "/docs/clients.md"} {
		for _, origin := range []string{"https://weft.example", "http://10.0.0.7:8180", "https://[2001:db8::1]:8443"} {
			text := reached(t, origin, path, "").Body.String()
			if strings.Contains(text, local) || !strings.Contains(text, " "+origin+"/") {
				t.Errorf("%s at %s names another address", path, origin)
			}
		}
	}
	if text := reached(t, "https://weft.example", "/docs/first-call", "").Body.String(); !strings.Contains(text, local) {
		t.Error("in HTML the script looks for the address that it replaces")
	}
}

// The host of a request is what the client says, and a command with it would be pasted.
func TestMarkdownNamesNoAddressThatIsNone(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{
		"", "https://", "ftp://weft.example", "https://weft.example/path", "https://weft.example;id", "https://$(id)", "https://a`id`", "https://a'b", "https://a b",
		"https://a\nb", "https://-o", "https://user@weft.example", "https://weft.example:port", "https://[$(id)]", "https://" + strings.Repeat("a", 300), "javascript:alert(1)",
	} {
		text := reached(t, origin, "/docs/signing.md", "").Body.String()
		if !strings.Contains(text, " "+local+"/") || origin != "" && origin != "https://" && strings.Contains(text, origin) {
			t.Errorf("%q is named", origin)
		}
	}
}

// What a cache keeps of one address is not what another shows.
func TestMarkdownOfAnAddressIsKeptForThatAlone(t *testing.T) {
	t.Parallel()
	tags := map[string]string{}
	for _, origin := range []string{"", "https://weft.example", "http://weft.example", "https://other.example"} {
		w := reached(t, origin, "/docs/signing.md", "")
		tag := w.Header().Get("ETag")
		if other, taken := tags[tag]; taken || w.Header().Get("Vary") != "Host, X-Forwarded-Proto" || w.Header().Get("Cache-Control") != "private, no-cache" {
			t.Errorf("%s: %v, like %q", origin, w.Header(), other)
		}
		for before, of := range tags {
			if code := reached(t, origin, "/docs/signing.md", before).Code; code != http.StatusOK {
				t.Errorf("%s to who has that of %s: %d", origin, of, code)
			}
		}
		if code := reached(t, origin, "/docs/signing.md", tag).Code; code != http.StatusNotModified {
			t.Errorf("%s to who has it: %d", origin, code)
		}
		tags[tag] = origin
	}
	// One that names no address is the same everywhere.
	if h := reached(t, "https://weft.example", "/docs/components.md", "").Header(); h.Get("Vary") != "Accept-Encoding" || h.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v", h)
	}
}
