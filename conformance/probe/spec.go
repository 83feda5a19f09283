package probe

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weft-automation/weft/gen/api"
)

// Spec validates responses against openapi.yaml and records the responses that it has seen.
type Spec struct {
	operations []*Operation
	root       any // the document, decoded
	compiler   *jsonschema.Compiler

	mu           sync.Mutex
	schemas      map[string]*jsonschema.Schema // by pointer
	seen         map[string]bool               // "OPERATION STATUS"
	undocumented map[string]bool               // findings of note
}

// Operation is one operation of the document.
type Operation struct {
	ID       string
	Method   string
	Template string // its path, with {parameters}
	spec     *openapi3.Operation
	security openapi3.SecurityRequirements // of the operation, or otherwise of the document
}

// location is the document's address in the compiler. Nothing is fetched.
const location = "mem:///openapi.json"

// LoadSpec loads the document.
func LoadSpec() (*Spec, error) {
	data, err := yaml.YAMLToJSON(api.SpecYAML())
	if err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, fmt.Errorf("load openapi.yaml: %w", err)
	}
	s := &Spec{
		compiler: jsonschema.NewCompiler(), schemas: make(map[string]*jsonschema.Schema),
		seen: make(map[string]bool), undocumented: make(map[string]bool),
	}
	if s.root, err = jsonschema.UnmarshalJSON(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	if err := s.compiler.AddResource(location, s.root); err != nil {
		return nil, err
	}
	for template, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			security := doc.Security
			if operation.Security != nil {
				security = *operation.Security
			}
			s.operations = append(s.operations, &Operation{operation.OperationID, method, template, operation, security})
		}
	}
	slices.SortFunc(s.operations, func(a, b *Operation) int { return strings.Compare(a.ID, b.ID) })
	return s, nil
}

// Operations lists the operations by name.
func (s *Spec) Operations() []*Operation { return s.operations }

// Statuses returns the statuses that the document defines for an operation.
func (o *Operation) Statuses() []string {
	return slices.Sorted(maps.Keys(o.spec.Responses.Map()))
}

// Named reports whether the document defines a status for the operation.
func (o *Operation) Named(status int) bool { return o.spec.Responses.Status(status) != nil }

// Signed reports whether the operation accepts a signature.
func (o *Operation) Signed() bool { return o.takes("ApiKey") }

// Person reports whether the operation accepts the session of a person.
func (o *Operation) Person() bool { return o.takes("SessionToken") }

func (o *Operation) takes(scheme string) bool {
	return slices.ContainsFunc(o.security, func(requirement openapi3.SecurityRequirement) bool {
		_, ok := requirement[scheme]
		return ok
	})
}

// SignsIn reports whether the operation requires no authentication and creates a session.
func (o *Operation) SignsIn() bool { return o.spec.Extensions["x-sign-in"] == true }

// Role returns the lowest role that may use the operation, or "" if it is not about a workspace.
func (o *Operation) Role() string {
	role, _ := o.spec.Extensions["x-role"].(string)
	return role
}

// Unrestricted reports whether the operation rejects keys that are restricted to some workflows.
func (o *Operation) Unrestricted() bool { return o.spec.Extensions["x-unrestricted-key"] == true }

// AnyQuery reports whether the operation accepts any query parameters, so that none is unknown.
func (o *Operation) AnyQuery() bool { return o.spec.Extensions["x-any-query"] == true }

// Stream reports whether the operation responds with an event stream.
func (o *Operation) Stream() bool {
	success := o.spec.Responses.Status(http.StatusOK)
	return success != nil && success.Value.Content["text/event-stream"] != nil
}

// Cost returns how many requests the operation counts as for the rate limits of its workspace.
func (o *Operation) Cost() int {
	cost, _ := o.spec.Extensions["x-rate-limit-cost"].(float64)
	return int(cost)
}

// Takes reports whether the operation has a query parameter of that name.
func (o *Operation) Takes(parameter string) bool {
	return o.spec.Parameters.GetByInAndName(openapi3.ParameterInQuery, parameter) != nil
}

// NeedsBody reports whether the operation requires a JSON body.
func (o *Operation) NeedsBody() bool {
	return o.spec.RequestBody != nil && o.spec.RequestBody.Value.Required && o.spec.RequestBody.Value.Content["application/json"] != nil
}

// Find returns the operation of a request, or nil if the document has none. HEAD
// requests have the operation of GET.
func (s *Spec) Find(method, target string) *Operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path, _, _ := strings.Cut(target, "?")
	var best *Operation
	most := -1
	for _, operation := range s.operations {
		if operation.Method != method {
			continue
		}
		if literal := match(operation.Template, path); literal > most {
			best, most = operation, literal
		}
	}
	return best
}

// match returns the number of literal segments of the template that the path matches,
// or -1 if the path does not match.
func match(template, path string) int {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return -1
	}
	literal := 0
	for i, segment := range want {
		switch {
		case segment == have[i]:
			literal++
		case !strings.HasPrefix(segment, "{") || have[i] == "":
			return -1
		}
	}
	return literal
}

// Seen reports whether a response of the operation with this status has been seen.
func (s *Spec) Seen(operation, status string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[operation+" "+status]
}

// check returns an error if the document does not describe the status and the body of a
// response. checkEvent validates the events of a stream.
func (s *Spec) check(operation *Operation, answer Answer) error {
	at, err := s.response(operation, answer.Status)
	if err != nil {
		return err
	}
	if _, ok := s.at(append(slices.Clone(at), "content")); !ok && len(answer.Body) == 0 {
		return nil
	}
	return s.checkContent(append(at, "content"), answer)
}

// checkHeaders returns, by name, an error for each header that the document describes if the header
// is missing or invalid.
func (s *Spec) checkHeaders(operation *Operation, answer Answer) map[string]error {
	at, err := s.response(operation, answer.Status)
	if err != nil {
		return nil
	}
	wrong := map[string]error{}
	headers, _ := s.at(append(at, "headers"))
	for name := range members(headers) {
		place := append(slices.Clone(at), "headers", name)
		required, _ := s.at(append(place, "required"))
		if err := s.checkHeader(answer.Header, name, required == true, append(place, "schema")); err != nil {
			wrong[http.CanonicalHeaderKey(name)] = err
		}
	}
	return wrong
}

func (s *Spec) checkHeader(header http.Header, name string, required bool, schema []string) error {
	values := header.Values(name)
	switch {
	case len(values) > 1:
		return fmt.Errorf("the header %s appears %d times", name, len(values))
	case len(values) == 1:
		if err := s.visit(schema, values[0]); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	case required:
		return fmt.Errorf("the header %s is missing", name)
	}
	return nil
}

// response returns the description of a response in the document.
func (s *Spec) response(operation *Operation, status int) ([]string, error) {
	if operation == nil {
		if status < http.StatusBadRequest {
			return nil, fmt.Errorf("%d for a request that the document does not have", status)
		}
		return []string{"components", "responses", "Failure"}, nil
	}
	key := fmt.Sprint(status)
	if operation.spec.Responses.Value(key) == nil {
		key = "default"
	}
	if key == "default" && (status < http.StatusBadRequest || operation.spec.Responses.Default() == nil) {
		return nil, fmt.Errorf("%s has no response %d in the document", operation.ID, status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[operation.ID+" "+key] = true
	return append(operation.place(), "responses", key), nil
}

// place returns the path of the operation in the document.
func (o *Operation) place() []string {
	return []string{"paths", o.Template, strings.ToLower(o.Method)}
}

func (s *Spec) checkContent(at []string, answer Answer) error {
	kind, parameters, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("content type %q: %w", answer.Header.Get("Content-Type"), err)
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fmt.Errorf("charset %q", charset)
	}
	at = append(at, kind, "schema")
	if _, ok := s.at(at); !ok {
		return fmt.Errorf("content type %q is not in the document: %.300s", kind, answer.Body)
	}
	switch {
	case kind == "text/event-stream", answer.bodiless:
		return nil
	case kind == "application/json", strings.HasSuffix(kind, "+json"):
		return s.visitJSON(at, answer.Body)
	default:
		return s.visit(at, string(answer.Body))
	}
}

// checkEvent validates the data of one event of a stream.
func (s *Spec) checkEvent(operation *Operation, data []byte) error {
	return s.visitJSON(append(operation.place(), "responses", "200", "content", "text/event-stream", "schema"), data)
}

// callback returns the path of the completion callback in the document.
func (s *Spec) callback() ([]string, error) {
	for _, operation := range s.operations {
		for name, callback := range operation.spec.Callbacks {
			for expression := range callback.Value.Map() {
				return append(operation.place(), "callbacks", name, expression, "post"), nil
			}
		}
	}
	return nil, errors.New("the document has no callback")
}

// checkCallback validates a delivered callback.
func (s *Spec) checkCallback(d Delivery) error {
	at, err := s.callback()
	if err != nil {
		return err
	}
	parameters, _ := s.at(append(at, "parameters"))
	list, _ := parameters.([]any)
	for i := range list {
		place := append(slices.Clone(at), "parameters", fmt.Sprint(i))
		name, _ := s.at(append(place, "name"))
		required, _ := s.at(append(place, "required"))
		if err := s.checkHeader(d.Header, fmt.Sprint(name), required == true, append(place, "schema")); err != nil {
			return err
		}
	}
	at = append(at, "requestBody", "content", d.Header.Get("Content-Type"), "schema")
	if _, ok := s.at(at); !ok {
		return fmt.Errorf("content type %q is not in the document", d.Header.Get("Content-Type"))
	}
	return s.visitJSON(at, d.Body)
}

// visitJSON validates JSON against the schema at a path.
func (s *Spec) visitJSON(path []string, data []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("not one JSON value: %w in %.500s", err, data)
	}
	if err := s.visit(path, value); err != nil {
		return fmt.Errorf("%w in %.700s", err, data)
	}
	return nil
}

func (s *Spec) visit(path []string, value any) error {
	_, pointer := s.follow(path)
	s.mu.Lock()
	schema, ok := s.schemas[pointer]
	if !ok {
		var err error
		if schema, err = s.compiler.Compile(location + "#" + pointer); err != nil {
			s.mu.Unlock()
			return fmt.Errorf("compile the schema at %s: %w", pointer, err)
		}
		s.schemas[pointer] = schema
	}
	s.mu.Unlock()
	return schema.Validate(value)
}

// CheckSchema returns an error if raw is not a self-contained JSON Schema of draft
// 2020-12.
func CheckSchema(raw []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err := compiler.AddResource("mem:///schema.json", document); err != nil {
		return err
	}
	_, err = compiler.Compile("mem:///schema.json")
	return err
}
