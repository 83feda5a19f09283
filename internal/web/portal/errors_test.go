package portal

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// passedOn are codes of failed executions that newCodebase can't find: a stage passes on codes
// of rejected submissions, and FAIL has a default code.
var passedOn = []string{string(fault.NotFound), string(fault.Conflict), string(fault.Forbidden), "FAILED"}

// Every code that callers can get has an entry, and every entry has an existing code.
func TestEveryCodeIsDocumented(t *testing.T) {
	t.Parallel()
	named, told := newCodebase(t), contractCodes(t)
	var requests []string
	for _, one := range fault.Codes() {
		requests = append(requests, string(one))
	}
	for kind, want := range map[string][]string{
		"requests":    requests,
		"reasons":     told("Problem", "reason"),
		"workflows":   slices.Concat(named.constants("graph", "Code"), told("ProblemDetail", "code")),
		"warnings":    slices.Concat(named.constants("graph", "Warn"), told("WorkflowWarning", "code")),
		"executions":  slices.Concat(named.failures(t), told("ExecutionError", "code"), told("RunError", "code"), passedOn),
		"expressions": named.typed("expression", "Code"),
		"connections": slices.Concat(named.constants("egress", "Class"), named.constants("egress", "Reason"), told("CallbackError", "reason"), named.constants("callback", "classSecrets"), told("CallbackError", "class")),
		"skips":       slices.Concat(named.constants("schedule", "skip"), told("Schedule", "lastSkipReason")),
		"causes":      slices.Concat(named.typed("signcheck", "Code"), told("SignatureCause", "code")),
	} {
		var have []string
		groups, err := codes(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			for _, c := range group.Codes {
				have = append(have, c.Name)
				if !slices.Contains(want, c.Name) {
					t.Errorf("%s: entry %s has no code", kind, c.Name)
				}
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		for _, name := range want {
			if !slices.Contains(have, name) {
				t.Errorf("%s: %s has no entry", kind, name)
			}
		}
		slices.Sort(have)
		if len(slices.Compact(have)) != len(want) || len(want) < 6 {
			t.Errorf("%s: %d entries for %d codes", kind, len(have), len(want))
		}
	}
}

// The `docs` of an error response names an entry of the error reference.
func TestErrorsNameTheirEntry(t *testing.T) {
	t.Parallel()
	page := get(t, Handler(all(t)), "/docs/errors").Body.String()
	for _, failure := range []*fault.Error{
		{Code: fault.NotFound}, {Code: fault.Internal},
		{Code: fault.Unauthorized, Reason: "invalid_credentials"}, {Code: fault.Unavailable, Reason: fault.ReasonOutcomeUnknown},
	} {
		path, anchor, _ := strings.Cut(protocol.Docs(failure), "#")
		if path != "/docs/errors" || !strings.Contains(page, `id="`+anchor+`"`) {
			t.Errorf("%s %s: %s#%s is not on the page", failure.Code, failure.Reason, path, anchor)
		}
	}
}

// Every entry has all its lines, and agrees with the service about retries.
func TestCodeEntriesAreComplete(t *testing.T) {
	t.Parallel()
	page := get(t, Handler(all(t)), "/docs/errors.md").Body.String()
	again := regexp.MustCompile(`^(Yes|No|It depends|Automatically)\b`)
	codeOf := regexp.MustCompile(`^Reasons of ([A-Z_]+)`)
	reasons := contractText(t, "Problem", "reason")
	for kind := range codeKinds {
		groups, err := codes(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			for _, c := range group.Codes {
				for what, text := range map[string]string{"means": c.Means, "cause": c.Cause, "do": c.Do, "again": c.Again} {
					if !strings.HasSuffix(text, ".") {
						t.Errorf("%s: %s is %q", c.Anchor, what, text)
					}
				}
				if !again.MatchString(c.Again) || !strings.Contains(page, "\n#### `"+c.Name+"`\n") {
					t.Errorf("%s: %q", c.Anchor, c.Again)
				}
				if kind == "requests" && (c.Retryable != strings.HasPrefix(c.Again, "Yes") || c.Title == "") {
					t.Errorf("%s: retryable is %v in the service, but the entry says %q", c.Name, c.Retryable, c.Again)
				}
				if kind == "reasons" {
					_, after, found := strings.Cut(reasons, "`"+codeOf.FindStringSubmatch(group.Name)[1]+"`")
					if !found || !strings.Contains(after, "`"+c.Name+"`") {
						t.Errorf("%s is not a reason of the code in the heading %q", c.Name, group.Name)
					}
				}
			}
		}
	}
}

// In HTML, entries fold below the heading that links lead to. Markdown doesn't fold.
func TestCodeEntriesFoldInHTMLOnly(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	page, markdown := get(t, handler, "/docs/errors").Body.String(), get(t, handler, "/docs/errors.md").Body.String()
	folds := regexp.MustCompile(`(?s)<details class="entry"><summary>\s*<h4 id="([^"]+)">.*?</h4>\s*</summary>(.*?)</details>`).FindAllStringSubmatch(page, -1)
	count := 0
	for kind := range codeKinds {
		groups, err := codes(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			for _, c := range group.Codes {
				count++
				i := slices.IndexFunc(folds, func(fold []string) bool { return fold[1] == c.Anchor })
				if i < 0 || strings.Count(folds[i][2], "<li>") != 3 || strings.Contains(folds[i][2], "<h") {
					t.Errorf("entry %s does not fold completely", c.Anchor)
				}
			}
		}
	}
	if len(folds) != count || strings.Count(page, "<details") != strings.Count(page, "</details>") {
		t.Errorf("%d of %d entries fold", len(folds), count)
	}
	if strings.Contains(markdown, "details>") || strings.Contains(markdown, "summary>") || strings.Contains(markdown, "<%") || strings.Count(markdown, "\n- **Again?** ") != count {
		t.Error("the Markdown folds or is incomplete")
	}
}

// Links within a page lead to existing anchors.
func TestAnchorsOnPagesExist(t *testing.T) {
	t.Parallel()
	handler := Handler(all(t))
	for _, path := range paths() {
		page := get(t, handler, path).Body.String()
		for _, found := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
			if !strings.Contains(page, ` id="`+found[1]+`"`) {
				t.Errorf("%s links to #%s, which doesn't exist", path, found[1])
			}
		}
	}
}

// contractText returns the description of a field in openapi.yaml.
func contractText(t *testing.T, schema, field string) string {
	t.Helper()
	return contractField(t, schema, field).Description
}

type describedField struct {
	Description string
	Known       []string `json:"x-extensible-enum"`
}

func contractField(t *testing.T, schema, field string) describedField {
	t.Helper()
	text, err := os.ReadFile("../../../gen/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]describedField
			}
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document.Components.Schemas[schema].Properties[field]
}

// besides are names in these descriptions that aren't codes.
var besides = []string{"maxCredits", "UNAUTHORIZED", "INSUFFICIENT_CREDITS", "FORBIDDEN", "CONFLICT", "PAYLOAD_TOO_LARGE", "RATE_LIMITED", "INVALID_INPUT", "UNAVAILABLE", "messageSha256"}

// contractCodes returns a function that returns the codes in the description of a field in
// openapi.yaml.
func contractCodes(t *testing.T) func(schema, field string) []string {
	quoted := regexp.MustCompile("`(\\w+)`")
	return func(schema, field string) (names []string) {
		t.Helper()
		for _, found := range quoted.FindAllStringSubmatch(contractText(t, schema, field), -1) {
			lower := schema != "ProblemDetail" && schema != "ExecutionError" && schema != "RunError"
			if slices.Contains(besides, found[1]) && (lower || found[1] == "maxCredits") || slices.Contains(names, found[1]) {
				continue
			}
			names = append(names, found[1])
		}
		slices.Sort(names)
		if names, known := slices.Compact(names), slices.Sorted(slices.Values(contractField(t, schema, field).Known)); !slices.Equal(names, known) {
			t.Errorf("%s.%s explains %q, and x-extensible-enum lists %q", schema, field, names, known)
		}
		if len(names) < 5 {
			t.Errorf("%s.%s names %q", schema, field, names)
		}
		return names
	}
}

// codebase is the source of the service: its constants by package, and the calls that return or
// record a failure.
type codebase struct {
	values map[string]map[string]string // package, name: value
	types  map[string]map[string]string // package, name: declared type
	files  map[string][]*ast.File
}

func newCodebase(t *testing.T) codebase {
	t.Helper()
	c := codebase{map[string]map[string]string{}, map[string]map[string]string{}, map[string][]*ast.File{}}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata" || entry.Name() == "componenttest" || entry.Name() == "workflowtest") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			c.add(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c codebase) add(file *ast.File) {
	name := file.Name.Name
	c.files[name] = append(c.files[name], file)
	if c.values[name] == nil {
		c.values[name], c.types[name] = map[string]string{}, map[string]string{}
	}
	for _, declared := range file.Decls {
		group, ok := declared.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			spec := spec.(*ast.ValueSpec)
			for i, value := range spec.Values {
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					c.values[name][spec.Names[i].Name], _ = strconv.Unquote(literal.Value)
					if declared, ok := spec.Type.(*ast.Ident); ok {
						c.types[name][spec.Names[i].Name] = declared.Name
					}
				}
			}
		}
	}
}

// constants returns the values of a package's constants whose names have the prefix.
func (c codebase) constants(name, prefix string) (found []string) {
	for constant, value := range c.values[name] {
		if strings.HasPrefix(constant, prefix) {
			found = append(found, value)
		}
	}
	return found
}

// typed returns the values of a package's constants of a type.
func (c codebase) typed(name, want string) (found []string) {
	for constant, declared := range c.types[name] {
		if declared == want {
			found = append(found, c.values[name][constant])
		}
	}
	return found
}

// failures returns the codes with which executions, stages and runs fail.
func (c codebase) failures(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	note := func(name string, e ast.Expr) {
		if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 {
			e = call.Args[0] // string(fault.NotFound)
		}
		switch e := e.(type) {
		case *ast.BasicLit:
			value, _ := strconv.Unquote(e.Value)
			found[value] = true
		case *ast.Ident:
			found[c.values[name][e.Name]] = true
		case *ast.SelectorExpr:
			if owner, ok := e.X.(*ast.Ident); ok {
				found[c.values[owner.Name][e.Sel.Name]] = true
			}
		}
	}
	for name, files := range c.files {
		for _, file := range files {
			ast.Inspect(file, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.CallExpr:
					if slices.Contains([]string{"Permanent", "Temporary", "failWith"}, lastName(node.Fun)) {
						note(name, node.Args[0])
					}
				case *ast.CompositeLit:
					of := lastName(node.Type)
					if of != "RunError" && (of != "Error" || !strings.HasPrefix(name+"."+whole(node.Type), "component.") && whole(node.Type) != "component.Error") {
						return true
					}
					for _, element := range node.Elts {
						if pair, ok := element.(*ast.KeyValueExpr); ok && lastName(pair.Key) == "Code" {
							note(name, pair.Value)
						}
					}
				}
				return true
			})
		}
	}
	delete(found, "")
	if len(found) < 12 {
		t.Errorf("found only %v", found)
	}
	return slices.Collect(maps.Keys(found))
}

// lastName returns the name in an expression, without its package.
func lastName(e ast.Expr) string {
	whole := whole(e)
	return whole[strings.LastIndexByte(whole, '.')+1:]
}

func whole(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return whole(e.X) + "." + e.Sel.Name
	}
	return ""
}
