package portal

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/web/catalog"
)

// all returns all components.
func all(t *testing.T) []api.Component {
	t.Helper()
	guard := egress.New(egress.Policy{})
	t.Cleanup(guard.Close)
	registry, err := component.NewRegistry(modules.All(guard)...)
	if err != nil {
		t.Fatal(err)
	}
	return catalog.New(registry).All()
}

func get(t *testing.T, handler http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w
}

// unmarked matches the tags of highlighting and line breaks.
var unmarked = regexp.MustCompile(`<wbr>|<span class="(?:comment|string|variable|keyword|number|name)">([^<]*)</span>`)

// flat returns all fields, including nested fields, by their path.
func flat(fields []catalog.Field, before string) map[string]catalog.Field {
	out := map[string]catalog.Field{}
	for _, f := range fields {
		out[before+f.Name] = f
		for name, inner := range flat(f.Fields, before+f.Name+".") {
			out[name] = inner
		}
	}
	return out
}

func TestEveryModuleHasPageWithAllFields(t *testing.T) {
	t.Parallel()
	components := all(t)
	handler := Handler(components)
	index := get(t, handler, "/docs/components").Body.String()
	for _, c := range components {
		path := "/docs/components/" + c.Module
		if !strings.Contains(index, `href="`+path+`"`) {
			t.Errorf("the index doesn't link to %s", path)
		}
		w := get(t, handler, path)
		page := unmarked.ReplaceAllString(w.Body.String(), "$1")
		if w.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", path, w.Header())
		}
		for _, text := range []string{c.Title, c.Description, catalog.PriceInWords(c), catalog.TimeoutInWords(c), catalog.CallLine(c)} {
			if !strings.Contains(html.UnescapeString(page), text) {
				t.Errorf("%s does not contain %q", path, text)
			}
		}
		brief, _, _ := strings.Cut(page, "<h2>C")
		if _, after, _ := strings.Cut(brief, `<ul class="facts">`); strings.Count(after, "<li>") != 3 {
			t.Errorf("%s does not start with three facts", path)
		}
		for _, port := range c.Ports {
			_, after, found := strings.Cut(page, `id="port.`+catalog.PortInWords(port)+`"`)
			if !found || !strings.Contains(html.UnescapeString(after), port.Description) {
				t.Errorf("%s does not list the port %s", path, catalog.PortInWords(port))
			}
		}
		for part, schema := range map[string]json.RawMessage{"input": c.Input, "config": c.Config, "output": c.Output} {
			object, err := catalog.ReadObject(schema)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range object.Fields {
				if row := `<tr><td><a href="#` + part + "." + f.Name + `"><code>` + f.Name + "</code></a></td><td>" + f.Type + "</td>"; part != "output" && !strings.Contains(html.UnescapeString(page), row) {
					t.Errorf("%s: the table of inputs lacks %s", path, row)
				} else if _, table, _ := strings.Cut(page, "<th>In <code>"+part+"</code></th>"); part != "output" && !strings.Contains(html.UnescapeString(upTo(table, "</table>")), row) {
					t.Errorf("%s: %s.%s is not in the table of the %s", path, part, f.Name, part)
				}
			}
			for name, f := range flat(object.Fields, "") {
				checkField(t, page, path, part, name, f)
			}
		}
	}
}

// A page starts with a workflow file, before the tables of input and config, which have titles.
// Pages follow each other by category, and what most workflows need comes first.
func TestPagesStartWithWorkflowFile(t *testing.T) {
	t.Parallel()
	components := all(t)
	handler := Handler(components)
	for _, c := range components {
		page := html.UnescapeString(unmarked.ReplaceAllString(get(t, handler, "/docs/components/"+c.Module).Body.String(), "$1"))
		text := get(t, handler, "/docs/components/"+c.Module+".md").Body.String()
		if example := catalog.Example(c.Module); example == "" || !strings.Contains(upTo(page, "<table>"), example) || !strings.Contains(upTo(text, "\n| "), "```yaml\n"+example+"```\n") {
			t.Errorf("%s does not start with a workflow file", c.Module)
		}
		if tables, titled := strings.Count(page, "<thead>"), strings.Count(page, "<table>\n<caption>Fields of <code>"); tables != titled {
			t.Errorf("%s has %d tables, %d with a title", c.Module, tables, titled)
		}
		if len(c.Ports) > 0 && (!strings.Contains(page, "<code>after: ID.PORT</code>") || !strings.Contains(text, "`after: ID.PORT`")) {
			t.Errorf("%s does not say how to follow a port", c.Module)
		}
	}
	index := get(t, handler, "/docs/components").Body.String()
	for _, path := range []string{"/docs/components", "/docs/components.md", "/llms.txt"} {
		list, at := get(t, handler, path).Body.String(), -1
		for _, module := range []string{"/docs/components/FOR_EACH", "/docs/components/API_CALL", "/docs/components/HASH", "/docs/components/BUILD_EVM_CALLDATA"} {
			next := strings.LastIndex(list, module)
			if next < at {
				t.Errorf("%s: %s comes too early", path, module)
			}
			at = next
		}
	}
	path, walked := regexp.MustCompile(`href="(/docs/components/[A-Z0-9_]+)"`).FindStringSubmatch(index)[1], 1
	for ; ; walked++ {
		next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(get(t, handler, path).Body.String())
		if next == nil {
			break
		}
		if path = next[1]; !strings.Contains(index, `href="`+path+`"`) {
			t.Errorf("the index lacks %s", path)
		}
	}
	if walked != len(components) {
		t.Errorf("next leads to %d of %d pages", walked, len(components))
	}
}

// upTo returns the part of a string before a mark.
func upTo(text, mark string) string {
	text, _, _ = strings.Cut(text, mark)
	return text
}

// checkField checks what a page says about one field.
func checkField(t *testing.T, page, path, part, name string, f catalog.Field) {
	t.Helper()
	_, after, found := strings.Cut(page, `id="`+part+"."+name+`"`)
	if !found {
		t.Errorf("%s: field %s of the %s is missing", path, name, part)
		return
	}
	own, _, _ := strings.Cut(after, `<div class="field`)
	own, _, _ = strings.Cut(own, "<details>")
	own = html.UnescapeString(own)
	wants := []string{">" + f.Type + "<", f.Description, f.Format}
	if f.Default != nil {
		wants = append(wants, catalog.Readable(f.Default))
	}
	for _, example := range f.Examples {
		wants = append(wants, catalog.Readable(example))
	}
	for _, want := range wants {
		if !strings.Contains(own, want) {
			t.Errorf("%s: row of %s.%s does not contain %q", path, part, name, want)
		}
	}
	if marked := strings.Contains(own, `class="tag secret"`); marked != f.Secret {
		t.Errorf("%s: %s.%s is marked secret: %v, want %v", path, part, name, marked, f.Secret)
	}
	if marked := strings.Contains(own, `class="tag required"`); marked != (f.Required && part != "output") {
		t.Errorf("%s: %s.%s is marked required: got %v", path, part, name, marked)
	}
}

func TestEveryModuleHasMarkdownPage(t *testing.T) {
	t.Parallel()
	components := all(t)
	handler := Handler(components)
	index := get(t, handler, "/docs/components.md").Body.String()
	for _, c := range components {
		path := "/docs/components/" + c.Module + ".md"
		if !strings.Contains(index, "]("+path+")") {
			t.Errorf("the index doesn't link to %s", path)
		}
		w := get(t, handler, path)
		page := w.Body.String()
		if w.Header().Get("Content-Type") != "text/markdown; charset=utf-8" || !strings.HasPrefix(page, "# "+c.Module+"\n") || !strings.Contains(page, catalog.CallLine(c)) {
			t.Errorf("%s: %v %.100s", path, w.Header(), page)
		}
		for _, port := range c.Ports {
			if !strings.Contains(page, "\n| `"+catalog.PortInWords(port)+"` | "+port.Description+" |\n") {
				t.Errorf("%s does not list the port %s", path, catalog.PortInWords(port))
			}
		}
		for _, schema := range []json.RawMessage{c.Input, c.Config, c.Output} {
			object, err := catalog.ReadObject(schema)
			if err != nil {
				t.Fatal(err)
			}
			for name, f := range flat(object.Fields, "") {
				if !strings.Contains(page, "\n| `"+name+"` | ") {
					t.Errorf("%s: field %s is missing", path, name)
				}
				if f.Format != "" && !strings.Contains(page, "\n| `"+name+"` | "+f.Type+", "+f.Format+" |") {
					t.Errorf("%s: format %s of %s is missing", path, f.Format, name)
				}
				if f.Secret && !regexp.MustCompile("\n\\| `"+regexp.QuoteMeta(name)+"` \\|.* \\| yes \\|").MatchString(page) {
					t.Errorf("%s: %s is not marked secret", path, name)
				}
			}
		}
		for _, line := range strings.Split(page, "\n") {
			if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|") {
				t.Errorf("%s: incomplete row: %s", path, line)
			}
		}
	}
}

// Text of a descriptor can't inject HTML or Markdown.
func TestDescriptorsAreEscaped(t *testing.T) {
	t.Parallel()
	const evil = `<script>alert("x")</script>`
	text, _ := json.Marshal(evil)
	schema := json.RawMessage(`{"type":"object","description":` + string(text) + `,"properties":{"f":{"type":"string","title":` + string(text) + `,"description":` + string(text) +
		`,"default":` + string(text) + `,"enum":[` + string(text) + `],"pattern":` + string(text) + `,"examples":[` + string(text) + `]}}}`)
	handler := Handler([]api.Component{{
		Module: "EVIL", Title: evil, Description: evil, Category: "<b>", Input: schema, Config: schema, Output: schema,
		ExecutionModes: []api.ExecutionMode{api.ExecutionModeCOMPONENT},
	}})
	for _, path := range []string{"/docs/components", "/docs/components/EVIL"} {
		if page := get(t, handler, path).Body.String(); strings.Contains(page, "<script>") || strings.Contains(page, "<b>") || !strings.Contains(page, "&lt;script&gt;") {
			t.Errorf("%s: %s", path, page)
		}
	}
	code := regexp.MustCompile("(?s)```.*?\n```|`` .*? ``|`[^`\n]*`")
	for _, path := range []string{"/docs/components.md", "/docs/components/EVIL.md", "/llms.txt"} {
		page := get(t, handler, path).Body.String()
		if outside := code.ReplaceAllString(page, ""); strings.Contains(outside, "<script>") || strings.Contains(outside, "<b>") || !strings.Contains(outside, "&lt;script&gt;") {
			t.Errorf("%s: markup outside of code: %s", path, outside)
		}
	}
}

// Component pages highlight code like guides, and long names can break after underscores. Both
// keep the text escaped.
func TestComponentPagesHighlightCodeAndBreakNames(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	page := get(t, handler, "/docs/components/DECODE_EVM_FUNCTION_RESULT").Body.String()
	for _, want := range []string{
		`<code>DECODE_<wbr>EVM_<wbr>FUNCTION_<wbr>RESULT</code></h1>`,
		`aria-current="page">Decode EVM function result <code>DECODE_<wbr>EVM_<wbr>FUNCTION_<wbr>RESULT</code></a>`,
		`<title>Decode EVM function result (DECODE_EVM_FUNCTION_RESULT) · Weft</title>`,
		`<span class="name">&#34;module&#34;</span>: <span class="string">&#34;DECODE_EVM_FUNCTION_RESULT&#34;</span>`,
		`<span class="name">&#34;$schema&#34;</span>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if index := get(t, handler, "/docs/components").Body.String(); regexp.MustCompile(`<code>[A-Z0-9]+_[A-Z0-9_]+</code>`).MatchString(index) || !strings.Contains(index, "_<wbr>") {
		t.Error("names in the index can't break")
	}
	if page := get(t, handler, "/docs/errors").Body.String(); strings.Contains(page, "<wbr>") {
		t.Error("names in running text can break")
	}
}

// The page for an unknown path links to existing pages.
func TestMissingPageSuggestsExistingOne(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	for path, want := range map[string]string{
		"/docs/nothing": `<a href="/docs">The first page</a>`, "/docs/signers/none": "The first page", "/docs/<script>": "The first page",
		"/docs/First-Call": `Did you mean <a href="/docs/first-call">`, "/docs/components/": `Did you mean <a href="/docs/components">`,
		"/docs/components/NOTHING": `<a href="/docs/components">All components</a>`, "/docs/components/hash": `Did you mean <a href="/docs/components/HASH">`,
		"/docs/components/HASH/more": "All components", "/docs/components/<script>": "All components", "/docs/components/NOTHING.md": "All components",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		if _, pattern := handler.Handler(r); pattern != Missing {
			t.Errorf("%s is %s", path, pattern)
		}
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("Vary") != "Accept" || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
		if csp := w.Header().Get("Content-Security-Policy"); csp != pagePolicy || strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("%s: policy %q, %s", path, csp, w.Body)
		}
	}
}

// What a reader of the plan table would not guess stands below it, and what IF and SWITCH do if
// they can't be evaluated stands on their pages.
func TestPagesStateUnexpectedRules(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	for path, sentences := range map[string][]string{
		"/docs/limits.md":            {"Starter is prepaid.", "They are released in quarters"},
		"/docs/components/IF.md":     {"If the condition can't be evaluated and onFailure is continue, the run continues at else."},
		"/docs/components/SWITCH.md": {"If a case can't be evaluated and onFailure is continue, the run continues at default."},
	} {
		page := get(t, handler, path).Body.String()
		for _, sentence := range sentences {
			if !strings.Contains(page, sentence) {
				t.Errorf("%s does not say %q", path, sentence)
			}
		}
	}
}
