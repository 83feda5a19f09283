package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// parameter is one parameter that has a rule to check.
type parameter struct {
	name, in string
	schema   *jsonschema.Compiled // nil: any string is valid
	kind     string               // string, integer or boolean
	required bool
}

func newParameter(compiler *jsonschema.Compiler, ref *openapi3.ParameterRef) (parameter, error) {
	p := parameter{name: ref.Value.Name, in: ref.Value.In, kind: "string", required: ref.Value.Required}
	source := ref.Value.Schema.Value
	for _, kind := range []string{"integer", "boolean"} {
		if source.Type.Is(kind) {
			p.kind = kind
		}
	}
	if p.kind == "string" && source.Pattern == "" && source.Format == "" && len(source.Enum) == 0 && (source.MinLength == 0 || p.in != openapi3.ParameterInQuery) {
		return p, nil
	}
	var pointer string
	switch {
	case ref.Ref != "":
		pointer = ref.Ref + "/schema"
	case ref.Value.Schema.Ref != "":
		pointer = ref.Value.Schema.Ref
	default:
		return p, fmt.Errorf("parameter %s: move it or its schema to components and use a $ref", p.name)
	}
	var err error
	if p.schema, err = compiler.Compile(location + pointer); err != nil {
		return p, fmt.Errorf("compile parameter %s: %w", p.name, err)
	}
	p.schema, _ = present(p.schema) // validating through a reference costs twice as much
	return p, nil
}

// missing maps each path parameter to the message for a malformed value. An unknown ID has the same
// message, so that callers can't distinguish the two.
var missing = map[string]string{
	"executionId":  "There is no execution with this ID.",
	"workflowId":   "There is no workflow with this ID or key.",
	"componentId":  "There is no component with this ID in the workflow.",
	"runId":        "There is no run with this ID.",
	"scheduleId":   "There is no schedule with this ID.",
	"hookId":       "There is no hook with this ID.",
	"signal":       "There is no signal with this name.",
	"workspaceId":  "There is no workspace with this ID.",
	"userId":       "There is no member with this ID.",
	"invitationId": "There is no invitation with this ID.",
	"keyId":        "There is no API key with this ID.",
}

// Missing returns the NOT_FOUND for an unknown or malformed path parameter.
func Missing(parameter string) *fault.Error {
	text, ok := missing[parameter]
	if !ok {
		text = "There is nothing at this path."
	}
	return fault.New(fault.NotFound, "%s", text)
}

// CheckParameters checks the parameters of a request. It returns NOT_FOUND for an invalid path
// parameter, otherwise one INVALID_INPUT with all faults, at /query/NAME or /header/NAME. Unknown
// query parameters are added to ignored, or are faults if ignored is nil, unless the operation has
// x-any-query.
func (o *Operation) CheckParameters(path func(name string) string, query url.Values, header http.Header, ignored *Ignored) error {
	var details []fault.Detail
	for _, p := range o.parameters {
		switch p.in {
		case openapi3.ParameterInPath:
			if len(p.check(path(p.name))) > 0 {
				return Missing(p.name)
			}
		case openapi3.ParameterInQuery:
			details = append(details, p.checkAll(query[p.name])...)
		case openapi3.ParameterInHeader:
			details = append(details, p.checkAll(header.Values(p.name))...)
		}
	}
	if len(query) == 0 || o.anyQuery {
		return invalid(details)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(o.known, name):
		case ignored == nil:
			details = append(details, detail([]string{openapi3.ParameterInQuery, name}, "is not a known query parameter"))
		default:
			ignored.parameter(name)
		}
	}
	return invalid(details)
}

// checkAll checks all values of a parameter. More than one value is a fault.
func (p parameter) checkAll(values []string) []fault.Detail {
	switch len(values) {
	case 0:
		if p.required {
			return []fault.Detail{detail([]string{p.in, p.name}, "is required")}
		}
		return nil
	case 1:
		return p.check(values[0])
	}
	return []fault.Detail{detail([]string{p.in, p.name}, "must appear only once")}
}

func (p parameter) check(text string) []fault.Detail {
	var value any = text
	switch {
	case p.kind == "integer" && digits(text):
		value = json.Number(text[:min(len(text), muchTooLong)])
	case p.kind == "boolean" && (text == "true" || text == "false"):
		value = text == "true"
	}
	return check(p.schema, value, p.in, p.name)
}

// muchTooLong is how many characters of an integer are read. Such an integer is beyond every
// limit of the contract, so further digits don't matter.
const muchTooLong = 40

// digits reports whether text is a JSON integer.
func digits(text string) bool {
	magnitude := strings.TrimPrefix(text, "-")
	return magnitude != "" && strings.Trim(magnitude, "0123456789") == "" &&
		(magnitude == "0" || magnitude[0] != '0')
}
