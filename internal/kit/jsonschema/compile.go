package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Compiled is a schema that can check values.
type Compiled = santhosh.Schema

// Compiler compiles schemas of one or more documents.
type Compiler = santhosh.Compiler

// NewCompiler returns a compiler that checks formats and doesn't load external schemas.
func NewCompiler() *Compiler {
	compiler := santhosh.NewCompiler()
	compiler.DefaultDraft(santhosh.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(offline{})
	return compiler
}

// offline refuses to load a schema from elsewhere.
type offline struct{}

func (offline) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema may not refer to %s", url)
}

// Compile compiles a self-contained schema. formats are the custom formats that the schema uses
// in addition to the standard formats. Their errors must not quote the value.
func Compile(text json.RawMessage, formats map[string]func(string) error) (*Compiled, error) {
	document, err := santhosh.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	compiler := NewCompiler()
	for name, check := range formats {
		compiler.RegisterFormat(&santhosh.Format{Name: name, Validate: func(value any) error {
			text, ok := value.(string)
			if !ok {
				return nil
			}
			if err := check(text); err != nil {
				return formatError{err}
			}
			return nil
		}})
	}
	if err := useNames(compiler, document); err != nil {
		return nil, err
	}
	const address = "mem:///schema.json"
	if err := compiler.AddResource(address, document); err != nil {
		return nil, err
	}
	return compiler.Compile(address)
}

// formatError is the error of a custom format passed to Compile. Errors of standard formats are
// not shown, because they quote the value.
type formatError struct{ error }

// names reports the location of an invalid field name. The validator reports invalid names too,
// but overwrites their location before it returns (jsonschema 6.0.3).
var names = &santhosh.Vocabulary{
	URL: "mem:///names",
	Compile: func(ctx *santhosh.CompilerContext, keywords map[string]any) (santhosh.SchemaExt, error) {
		if _, has := keywords["propertyNames"]; !has {
			return nil, nil
		}
		return nameRule{ctx.Enqueue([]string{"propertyNames"})}, nil
	},
}

type nameRule struct{ schema *Compiled }

// Validate checks the names of an object.
func (r nameRule) Validate(ctx *santhosh.ValidatorContext, value any) {
	object, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if err := r.schema.Validate(name); err != nil {
			ctx.AddError(invalidName{&kind.PropertyNames{Property: name}, nameHint(err)})
		}
	}
}

// invalidName is the error of an object with a member of that name.
type invalidName struct {
	*kind.PropertyNames
	rule string
}

// nameHint returns a hint with the pattern that a name must match, or "" if the error isn't
// about a pattern.
func nameHint(err error) string {
	invalid, _ := err.(*santhosh.ValidationError)
	for _, cause := range invalid.Causes {
		if k, ok := cause.ErrorKind.(*kind.Pattern); ok {
			return ": it must match " + k.Want
		}
	}
	return ""
}

// useNames adds the vocabulary for field names to the standard vocabularies.
func useNames(compiler *Compiler, document any) error {
	object, ok := document.(map[string]any)
	if !ok {
		return nil
	}
	compiler.RegisterVocabulary(names)
	vocabularies := map[string]any{names.URL: true}
	for _, name := range []string{"core", "applicator", "unevaluated", "validation", "meta-data", "format-annotation", "content"} {
		vocabularies["https://json-schema.org/draft/2020-12/vocab/"+name] = true
	}
	const dialect = "mem:///dialect.json"
	object["$schema"] = dialect
	return compiler.AddResource(dialect, map[string]any{"$schema": Draft, "$id": dialect, "$vocabulary": vocabularies})
}

// Metaschema returns the metaschema, which explains why a schema doesn't compile.
var Metaschema = sync.OnceValues(func() (*Compiled, error) {
	compiler := santhosh.NewCompiler()
	compiler.AssertFormat()
	compiler.RegisterVocabulary(names)
	compiler.AssertVocabs()
	return compiler.Compile(Draft)
})
