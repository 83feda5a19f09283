package modules

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// tests is a test file.
type tests struct {
	path, text string
	set        *token.FileSet
	functions  map[string]*ast.FuncDecl
}

// function is a function of a test file, with its comment.
type function struct{ name, text string }

func (f *tests) String() string    { return f.text }
func (f *function) String() string { return f.text }

// find returns the function "file:Name" and its file.
func (j *judge) find(at string) (*tests, *function, error) {
	path, name, _ := strings.Cut(at, ":")
	file, known := j.files[path]
	if !known {
		text, err := j.read(path)
		if err != nil {
			return nil, nil, err
		}
		file = &tests{path: path, text: spelled(string(text)), functions: map[string]*ast.FuncDecl{}, set: token.NewFileSet()}
		tree, err := parser.ParseFile(file.set, path, file.text, parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		for _, declared := range tree.Decls {
			if one, ok := declared.(*ast.FuncDecl); ok && one.Recv == nil {
				file.functions[one.Name.Name] = one
			}
		}
		j.files[path] = file
	}
	one := file.functions[name]
	if one == nil {
		return nil, nil, fmt.Errorf("%s has no %s", path, name)
	}
	begin := one.Pos()
	if one.Doc != nil {
		begin = one.Doc.Pos()
	}
	return file, &function{name, file.text[file.set.Position(begin).Offset:file.set.Position(one.End()).Offset]}, nil
}

// read returns the content of a file. It respects the compiler's overlay, which contains the
// example in the contributors' guide.
func (j *judge) read(path string) ([]byte, error) {
	if file := os.Getenv(overlayVariable); file != "" {
		var overlay struct{ Replace map[string]string }
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &overlay)
		}
		if err != nil {
			return nil, err
		}
		whole, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if other, ok := overlay.Replace[whole]; ok {
			path = other
		}
	}
	return os.ReadFile(path)
}

// overlayVariable is the environment variable with the file of go test -overlay.
const overlayVariable = "WEFT_TEST_OVERLAY"

// spelled replaces a constant that contains a module's name by that name.
func spelled(text string) string {
	return regexp.MustCompile(`\bwaitModule\b`).ReplaceAllString(text, `"WAIT_FOR_EVM_TRANSACTION"`)
}

// names reports whether source text contains the name of a module.
func names(text fmt.Stringer, module string) bool {
	return regexp.MustCompile(`\b` + module + `\b`).MatchString(text.String())
}

// flowing joins the lines of source text and removes comment markers.
func flowing(text string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`\n\s*(// ?)?`).ReplaceAllString(text, " ")), " ")
}

// reads reports whether the tests of a folder contain the name of a file.
func reads(folder, name string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "testdata/"+name) {
			return true
		}
	}
	return false
}

// properties returns the properties of a schema.
func properties(raw json.RawMessage) (all map[string]json.RawMessage) {
	var schema struct{ Properties map[string]json.RawMessage }
	if json.Unmarshal(raw, &schema) != nil {
		return nil
	}
	return schema.Properties
}

// formatsOf returns all formats in a schema, at any depth.
func formatsOf(raw json.RawMessage) (all []string) {
	var schema struct {
		Format                                     string
		Properties, PatternProperties              map[string]json.RawMessage
		Items, AdditionalProperties, PropertyNames json.RawMessage
		AnyOf, OneOf, AllOf, PrefixItems           []json.RawMessage
	}
	if len(raw) == 0 || json.Unmarshal(raw, &schema) != nil {
		return nil
	}
	if schema.Format != "" {
		all = append(all, schema.Format)
	}
	inner := []json.RawMessage{schema.Items, schema.AdditionalProperties, schema.PropertyNames}
	for _, more := range [][]json.RawMessage{schema.AnyOf, schema.OneOf, schema.AllOf, schema.PrefixItems} {
		inner = append(inner, more...)
	}
	for _, more := range []map[string]json.RawMessage{schema.Properties, schema.PatternProperties} {
		for _, one := range more {
			inner = append(inner, one)
		}
	}
	for _, one := range inner {
		all = append(all, formatsOf(one)...)
	}
	return all
}
