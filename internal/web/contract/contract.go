// Package contract reads the rules for each operation from openapi.yaml, beyond its Go types:
// whether it is signed, what it costs, what it answers with, and which requests are valid.
//
// Load compiles the validators once, because compiling costs more than a whole request. The
// package knows no handlers and no modules: the schemas of `input` and `config` are the
// registry's. The one invariant: no error contains a value of the request.
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

// Contract is openapi.yaml, read.
type Contract struct {
	Operations []*Operation
	JSON       []byte // the document
}

// Operation is one method of one path.
type Operation struct {
	ID     string // operationId
	Method string
	Path   string   // with {parameters}
	Signed bool     // takes the three signing headers
	Person bool     // takes a session
	Role   string   // the least role of a member who may; "" where no workspace is named
	SignIn bool     // open, and begins a session
	Cost   int      // against the workspace's rate limit; 0 also for what must not be kept from members by it
	Media  []string // types of the answer 200, the usual one first

	Unrestricted bool // takes no key that is restricted to some workflows
	Raw          bool // takes any body, of which nothing is checked here

	parameters []parameter
	known      []string // names of the query parameters
	body       *body    // nil: it takes none
}

// Pattern is the operation's key on an http.ServeMux.
func (o *Operation) Pattern() string { return o.Method + " " + o.Path }

// Stream reports whether the answer is an event stream, which has no end that
// a deadline could know.
func (o *Operation) Stream() bool { return o.Media[0] == "text/event-stream" }

// Limited reports whether the limits of a workspace are told with the answer, and
// the cost counted against them.
func (o *Operation) Limited() bool { return o.Signed || o.Role != "" }

// location is the document's address in the schema compiler. Nothing is ever
// fetched from there.
const location = "mem:///openapi.json"

// Load is the embedded document with the validators of every operation. It is read once
// in a process: that takes as long as all else at its start.
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

// lean takes out of a document what no request is checked by: to read examples, links and
// answers, of which only the media types matter here, takes longer than all the rest.
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

// conditions are the keywords by which fields depend on each other. The handlers check those:
// they know what to say of them.
var conditions = []string{"if", "then", "else"}

// object is a value as a JSON object; nil, which has no members, if it is none.
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
	if len(*security) > 0 && o.Signed == o.Person {
		return nil, fmt.Errorf("its security is neither that of a key nor that of a person")
	}
	if err := o.readPeople(source.Extensions); err != nil {
		return nil, err
	}
	cost, stated := source.Extensions["x-rate-limit-cost"].(float64)
	o.Cost = int(cost)
	if stated != o.Limited() || o.Cost < 0 || o.Signed && o.Cost == 0 {
		return nil, fmt.Errorf("x-rate-limit-cost is %v: what is signed or on a workspace states one, more than 0 if it is signed, and nothing else does", source.Extensions["x-rate-limit-cost"])
	}
	success := source.Responses.Value("200")
	if success == nil || success.Value == nil || len(success.Value.Content) == 0 {
		return nil, fmt.Errorf("it needs an answer 200 with a media type")
	}
	if o.Unrestricted, _ = source.Extensions["x-unrestricted-key"].(bool); o.Unrestricted && !o.Signed {
		return nil, fmt.Errorf("x-unrestricted-key is of what a key signs")
	}
	o.Media = slices.Sorted(maps.Keys(success.Value.Content)) // application/json is before all others that there are
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
	o.body.required = source.RequestBody.Value.Required
	return o, nil
}

// readPeople reads x-role and x-sign-in: every operation on a workspace says what
// role it takes, and no other does.
func (o *Operation) readPeople(extensions map[string]any) error {
	o.Role, _ = extensions["x-role"].(string)
	o.SignIn, _ = extensions["x-sign-in"].(bool)
	switch within := strings.Contains(o.Path, "{workspaceId}"); {
	case within != (o.Role != ""), o.Role != "" && !o.Person:
		return fmt.Errorf("x-role is %q: a person's operation on a workspace needs one, and no other has it", o.Role)
	case o.Role != "" && !slices.Contains([]string{"owner", "admin", "editor", "viewer"}, o.Role):
		return fmt.Errorf("x-role %q is none", o.Role)
	case o.SignIn && (o.Signed || o.Person):
		return fmt.Errorf("an operation that signs somebody in is open")
	}
	return nil
}
