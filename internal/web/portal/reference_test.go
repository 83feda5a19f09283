package portal

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The reference shows each operation and each field of the contract, in both formats. With its
// scripts and styles it stays small.
func TestReferenceMatchesContract(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	page, markdown := get(t, handler, "/docs/reference").Body.String(), get(t, handler, "/docs/reference.md").Body.String()
	var served struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	text, err := os.ReadFile("../../../gen/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &served); err != nil {
		t.Fatal(err)
	}
	operations := 0
	for path, methods := range served.Paths {
		for method, text := range methods {
			var one struct{ Responses map[string]any }
			if method == "parameters" {
				continue
			}
			if err := json.Unmarshal(text, &one); err != nil {
				t.Fatal(err)
			}
			operations++
			call := strings.ToUpper(method) + path
			_, after, found := strings.Cut(operationsOf(page), "/"+call+`">`)
			own, _, _ := strings.Cut(after, `<section class="operation">`)
			if !found {
				t.Errorf("the reference lacks %s", call)
			}
			for status := range one.Responses {
				if !strings.Contains(own, "<dt><code>"+status+"</code></dt>") {
					t.Errorf("%s lacks the response %s", call, status)
				}
			}
			if line := "`" + strings.ToUpper(method) + " " + path + "`\n"; !strings.Contains(markdown, line) {
				t.Errorf("the Markdown does not contain %s", line)
			}
		}
	}
	if operations < 60 {
		t.Errorf("%d operations", operations)
	}
	for name, schema := range served.Components.Schemas {
		_, after, found := strings.Cut(page, `<h3 id="schema/`+name+`">`)
		own, _, _ := strings.Cut(after, "<h3 ")
		for field := range schema.Properties {
			if !found || !strings.Contains(own, `<div class="name"><code>`+field+"</code>") {
				t.Errorf("schema %s lacks the field %s", name, field)
			}
		}
	}
	sent := 0
	for _, path := range append([]string{"/docs/reference"}, loadedBy(page)...) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		sent += w.Body.Len()
	}
	if most := 200_000; sent > most {
		t.Errorf("the reference sends %d bytes, want at most %d", sent, most)
	}
}

// The samples are complete programs: Go parses those in Go, and bodies can't end the literals that
// hold them.
func TestSamplesAreComplete(t *testing.T) {
	t.Parallel()
	shown, err := newReference()
	if err != nil {
		t.Fatal(err)
	}
	signed := 0
	for _, chapter := range shown.Chapters {
		for _, tag := range chapter.Tags {
			for _, o := range tag.Operations {
				if o.Content != nil && (strings.Contains(o.Content.Example, "`") || strings.Contains(o.Content.Example, `"""`) || strings.Contains(o.Content.Example, "\nEOF")) {
					t.Errorf("%s: the body ends a literal", o.ID)
				}
				if strings.Contains(o.Target, "{") {
					t.Errorf("%s: a parameter of the path has no example: %s", o.ID, o.Target)
				}
				for _, one := range o.Samples {
					signed++
					if one.Language != "Go" {
						continue
					}
					if _, err := parser.ParseFile(token.NewFileSet(), one.File, one.Code, parser.AllErrors); err != nil {
						t.Errorf("%s: %v", o.ID, err)
					}
				}
			}
		}
	}
	if signed < 150 {
		t.Errorf("%d samples", signed)
	}
}

// operationsOf returns the reference without its navigation.
func operationsOf(page string) string {
	_, operations, _ := strings.Cut(page, "<main")
	return operations
}

// loadedBy returns the files that a page loads.
func loadedBy(page string) (all []string) {
	for _, found := range loads.FindAllStringSubmatch(page, -1) {
		all = append(all, found[1])
	}
	return all
}

// The reference shows how each operation is called: a program in each language that signs, or that
// it needs a session or no key.
func TestReferenceShowsSignedCalls(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	tags := regexp.MustCompile(`<[^>]*>`)
	page := get(t, handler, "/docs/reference").Body.String()
	const fetch = "curl -fsSO http://127.0.0.1:8080/docs/signers/weft_curl.sh\n"
	for call, wants := range map[string][]string{
		"POST/v1/sdk/components": {
			"Signed with a", fetch + "bash weft_curl.sh POST '/v1/sdk/components' - <<'EOF'\n{\n  \"", "\n}\nEOF",
			`weft.request(os.environ["WEFT_URL"], "POST", "/v1/sdk/components", body)`, "await weft.fetch(WEFT_URL, 'POST', '/v1/sdk/components', body)",
			`weft.Request(context.Background(), "POST", os.Getenv("WEFT_URL"), "/v1/sdk/components", body)`, `weft.request(System.getenv("WEFT_URL"), "POST", "/v1/sdk/components", body)`,
		},
		"GET/v1/sdk/components/executions": {"Signed with a", fetch + "bash weft_curl.sh GET '/v1/sdk/components/executions'\n", `"GET", os.Getenv("WEFT_URL"), "/v1/sdk/components/executions", nil)`},
		"GET/v1/sdk/workflows/executions":  {"Signed with a workspace key, or by the session of a person with Weft-Workspace. Least role: viewer."},
		"GET/v1/sdk/workspace":             {"Signed with a workspace key."},
		"GET/v1/workspaces":                {"Session of a person"},
		"POST/v1/sdk/signature-check":      {"Open: needs no key"},
	} {
		_, after, _ := strings.Cut(operationsOf(page), call+`">`)
		own, _, _ := strings.Cut(after, `<section class="operation">`)
		shown := html.UnescapeString(tags.ReplaceAllString(own, "")) + "\n"
		for _, want := range wants {
			if !strings.Contains(shown, want) {
				t.Errorf("%s lacks %q", call, want)
			}
		}
		if signs := strings.Contains(own, " data-signed"); signs != strings.HasPrefix(wants[0], "Signed") || signs != strings.Contains(own, `class="tabs"`) {
			t.Errorf("%s: signs %v", call, signs)
		}
	}
	if page := get(t, handler, "/docs/reference.md").Body.String(); !strings.Contains(page, "\nAnswers: 200, 400, 401") || !strings.Contains(page, ". 200: ") {
		t.Error("the Markdown does not list the responses")
	}
}
