package component

import (
	"maps"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// names tells where a name of a member is refused. The validator tells that too, but writes
// over the place before it returns (jsonschema 6.0.3); what a vocabulary finds keeps its own.
var names = &jsonschema.Vocabulary{
	URL: "mem:///names",
	Compile: func(ctx *jsonschema.CompilerContext, keywords map[string]any) (jsonschema.SchemaExt, error) {
		if _, has := keywords["propertyNames"]; !has {
			return nil, nil
		}
		return nameRule{ctx.Enqueue([]string{"propertyNames"})}, nil
	},
}

type nameRule struct{ schema *jsonschema.Schema }

func (r nameRule) Validate(ctx *jsonschema.ValidatorContext, value any) {
	object, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if err := r.schema.Validate(name); err != nil {
			ctx.AddError(refusedName{&kind.PropertyNames{Property: name}, mustMatch(err)})
		}
	}
}

// refusedName is a fault of the object that has a member of the name.
type refusedName struct {
	*kind.PropertyNames
	rule string
}

// mustMatch is what a name has to match, where that is what it breaks.
func mustMatch(err error) string {
	invalid, _ := err.(*jsonschema.ValidationError)
	for _, cause := range invalid.Causes {
		if k, ok := cause.ErrorKind.(*kind.Pattern); ok {
			return ": it must match " + k.Want
		}
	}
	return ""
}

// placeNames gives a schema the vocabulary beside those of its draft.
func placeNames(compiler *jsonschema.Compiler, doc any) error {
	object, ok := doc.(map[string]any)
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
	return compiler.AddResource(dialect, map[string]any{"$schema": draft, "$id": dialect, "$vocabulary": vocabularies})
}

// schemaOfSchemas is that of the draft, made to explain a schema that it refuses.
var schemaOfSchemas = sync.OnceValues(func() (*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiler.RegisterVocabulary(names)
	compiler.AssertVocabs()
	return compiler.Compile(draft)
})
