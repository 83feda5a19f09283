// Package contract reads the rules for each operation from openapi.yaml, beyond its Go types:
// whether it is signed, what it costs, its response media types, and which requests are valid.
//
// Load compiles the validators once, because compiling costs more than a whole request. The package
// does not depend on handlers and modules: the registry checks `input` and `config`. Invariant: No
// error contains a value of the request.
package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Contract is the parsed openapi.yaml.
type Contract struct {
	Operations []*Operation
	JSON       []byte // the whole document
}

// Operation is one method of one path.
type Operation struct {
	ID     string // operationId
	Method string
	Path   string   // with parameters as {name}
	Signed bool     // accepts an API key's signature
	Person bool     // accepts a person's session; if Signed is also set, together with Weft-Workspace
	Role   string   // minimum role of the member; "" if a person's request names no workspace
	SignIn bool     // public, and creates a session
	Cost   int      // counted against the workspace's rate limit; 0 for revocations and the like, which are never rejected
	Media  []string // media types of the 200 response, the default first

	Unrestricted bool // rejects keys that are restricted to some workflows
	Raw          bool // accepts any body, and CheckBody doesn't check it

	removable []string // fields of the body that null removes

	parameters []parameter
	known      []string // names of the query parameters
	anyQuery   bool     // accepts any query, which the handler reads (x-any-query)
	body       *body    // nil: no body
}

// Pattern returns the operation's pattern for an http.ServeMux.
func (o *Operation) Pattern() string { return o.Method + " " + o.Path }

// Parameters returns the names of the operation's query parameters.
func (o *Operation) Parameters() []string { return o.known }

// Stream reports whether the response is an event stream, which has no deadline.
func (o *Operation) Stream() bool { return o.Media[0] == "text/event-stream" }

// Limited reports whether the cost is counted against the workspace's rate limit, and the
// response has the RateLimit headers.
func (o *Operation) Limited() bool { return o.Signed || o.Role != "" }

// location is the URL of the document in the schema compiler. Nothing is fetched from that URL.
const location = "mem:///openapi.json"

// Load returns the embedded document with the validators of all operations. It reads the document
// once per process, because reading it takes as long as the rest of the startup.
func Load() (*Contract, error) { return load() }

var load = sync.OnceValues(func() (*Contract, error) {
	data := api.SpecJSON()
	value, err := strictjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode openapi document: %w", err)
	}
	lean(value)
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode openapi document: %w", err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("load openapi document: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(location, value); err != nil {
		return nil, fmt.Errorf("add openapi document: %w", err)
	}
	c := &Contract{JSON: data}
	for path, item := range doc.Paths.Map() {
		for method, source := range item.Operations() {
			operation, err := newOperation(compiler, doc, path, method, source)
			if err != nil {
				return nil, fmt.Errorf("operation %s %s: %w", method, path, err)
			}
			c.Operations = append(c.Operations, operation)
		}
	}
	slices.SortFunc(c.Operations, func(a, b *Operation) int { return strings.Compare(a.Pattern(), b.Pattern()) })
	return c, nil
})

// lean removes everything from a document that request validation doesn't need. Reading the
// examples, links and responses would take longer than the rest. Of responses, it keeps the
// media types of 200.
func lean(document any) {
	root := object(document)
	delete(root, "webhooks")
	components := object(root["components"])
	for _, part := range []string{"examples", "headers", "links", "responses"} {
		delete(components, part)
	}
	for _, schema := range object(components["schemas"]) {
		for _, keyword := range conditions {
			delete(object(schema), keyword)
		}
	}
	for _, item := range object(root["paths"]) {
		for _, operation := range object(item) {
			operation := object(operation)
			delete(operation, "callbacks")
			for _, media := range object(object(operation["requestBody"])["content"]) {
				delete(object(media), "examples")
			}
			responses := object(operation["responses"])
			content := object(object(responses["200"])["content"])
			for media := range content {
				content[media] = map[string]any{}
			}
			clear(responses)
			if content != nil {
				responses["200"] = map[string]any{"description": "", "content": content}
			}
		}
	}
}

// conditions are the keywords for dependencies between fields. Handlers check these dependencies,
// because handlers can return better messages.
var conditions = []string{"if", "then", "else"}

// object returns value as a JSON object, or nil if it isn't one.
func object(value any) map[string]any {
	members, _ := value.(map[string]any)
	return members
}

func newOperation(compiler *jsonschema.Compiler, doc *openapi3.T, path, method string, source *openapi3.Operation) (*Operation, error) {
	o := &Operation{ID: source.OperationID, Method: method, Path: path}
	security := &doc.Security
	if source.Security != nil {
		security = source.Security
	}
	for _, requirement := range *security {
		_, signed := requirement["ApiKey"]
		_, token := requirement["SessionToken"]
		o.Signed, o.Person = o.Signed || signed, o.Person || token
	}
	o.known = inQuery(doc, *security)
	if len(*security) > 0 && !o.Signed && !o.Person {
		return nil, fmt.Errorf("security: expected ApiKey, SessionToken or both")
	}
	if err := o.readPeople(source.Extensions); err != nil {
		return nil, err
	}
	cost, stated := source.Extensions["x-rate-limit-cost"].(float64)
	o.Cost = int(cost)
	if stated != o.Limited() || o.Cost < 0 || o.Signed && o.Cost == 0 {
		return nil, fmt.Errorf("x-rate-limit-cost is %v: signed and workspace operations need a cost, which is at least 1 if signed; others must not have one", source.Extensions["x-rate-limit-cost"])
	}
	success := source.Responses.Value("200")
	if success == nil || success.Value == nil || len(success.Value.Content) == 0 {
		return nil, fmt.Errorf("response 200 with a media type is missing")
	}
	if o.Unrestricted, _ = source.Extensions["x-unrestricted-key"].(bool); o.Unrestricted && !o.Signed {
		return nil, fmt.Errorf("x-unrestricted-key is only for signed operations")
	}
	o.anyQuery, _ = source.Extensions["x-any-query"].(bool)
	o.Media = slices.Sorted(maps.Keys(success.Value.Content)) // application/json sorts before all others in use
	for _, ref := range source.Parameters {
		p, err := newParameter(compiler, ref)
		if err != nil {
			return nil, err
		}
		if p.in == openapi3.ParameterInQuery {
			o.known = append(o.known, p.name)
		}
		if p.schema != nil {
			o.parameters = append(o.parameters, p)
		}
	}
	if source.RequestBody == nil {
		return o, nil
	}
	if source.RequestBody.Value.Content["application/json"] == nil {
		o.Raw = true
		return o, nil
	}
	pointer := "/paths/" + url.PathEscape(fault.EscapeToken(path)) + "/" + strings.ToLower(method) + "/requestBody/content/application~1json/schema"
	var err error
	if o.body, err = newBody(compiler, pointer); err != nil {
		return nil, err
	}
	o.body.required, o.removable = source.RequestBody.Value.Required, names(source.Extensions["x-null-removes"])
	return o, nil
}

// names returns a list of strings of the document.
func names(list any) (all []string) {
	values, _ := list.([]any)
	for _, value := range values {
		name, _ := value.(string)
		all = append(all, name)
	}
	return all
}

// inQuery returns the query parameters of the security schemes that an operation accepts.
func inQuery(doc *openapi3.T, security openapi3.SecurityRequirements) (names []string) {
	for _, requirement := range security {
		for name := range requirement {
			scheme := doc.Components.SecuritySchemes[name].Value
			if scheme.In == openapi3.ParameterInQuery && !slices.Contains(names, scheme.Name) {
				names = append(names, scheme.Name)
			}
		}
	}
	return names
}

// readPeople reads x-role and x-sign-in. It returns an error unless exactly the operations that a
// person calls on a workspace have a role. Such a workspace is named by the path or, if the
// operation also accepts signatures, by Weft-Workspace or the query of an event stream.
func (o *Operation) readPeople(extensions map[string]any) error {
	o.Role, _ = extensions["x-role"].(string)
	o.SignIn, _ = extensions["x-sign-in"].(bool)
	switch within := strings.Contains(o.Path, "{workspaceId}") || o.Signed && o.Person; {
	case within != (o.Role != ""), o.Role != "" && !o.Person:
		return fmt.Errorf("x-role is %q: operations on a workspace by a person need a role; others must not have one", o.Role)
	case o.Role != "" && !slices.Contains([]string{"owner", "admin", "editor", "viewer"}, o.Role):
		return fmt.Errorf("x-role: unknown role %q", o.Role)
	case o.SignIn && (o.Signed || o.Person):
		return fmt.Errorf("x-sign-in: the operation must be public")
	}
	return nil
}
