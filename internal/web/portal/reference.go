package portal

import (
	"bytes"
	"encoding/json"
	htmltemplate "html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	texttemplate "text/template"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/web/catalog"
)

// mountReference serves the reference at /docs/reference, as HTML and as Markdown. Both are made
// from openapi.yaml.
func mountReference(mux *http.ServeMux) {
	mux.Handle("GET /docs/reference", newDocument(htmlType, func() ([]byte, error) {
		return renderHTML("reference", func() (any, error) { return newReference() })
	}))
	mux.Handle("GET /docs/reference.md", newDocument(markdownType, func() ([]byte, error) {
		return renderText("reference", func() (any, error) { return readContract() })
	}))
}

// reference is the data of the HTML reference.
type reference struct {
	Description string
	Chapters    []referenceChapter
	Schemas     []namedSchema
}

// referenceChapter is a group of tags, as in x-tagGroups of the document.
type referenceChapter struct {
	Name string
	Tags []referenceTag
}

type referenceTag struct {
	Name, Anchor, Description string
	Operations                []call
}

// call is an operation as the reference shows it.
type call struct {
	operation
	Signed, Session   bool   // ways to authenticate; neither if the operation is open
	Role, Cost        string // least role of a member, and cost against the rate limits
	Unrestricted      bool   // rejects keys that are restricted to some workflows
	Parameters        []property
	Content           *content
	Answered, Refused []response
	Target            string // path with examples of its parameters
	Samples           []sample
}

// Link returns the attribute of a link to the operation. The template would escape the slashes and
// braces of the anchor.
func (c call) Link() htmltemplate.HTMLAttr {
	return htmltemplate.HTMLAttr(`href="#` + htmltemplate.HTMLEscapeString(c.Anchor()) + `"`)
}

// content is the body of a request.
type content struct {
	Description string
	Type        htmltemplate.HTML
	Fields      []property
	Example     string // indented JSON, or ""
}

// response is one status of an operation.
type response struct {
	answerOf
	Type htmltemplate.HTML
}

// sample is a program that sends a request.
type sample struct{ Language, Grammar, File, Code string }

// namedSchema is an object of components/schemas.
type namedSchema struct {
	Name, Description string
	Type              htmltemplate.HTML // of a schema without own fields
	Fields            []property
}

func newReference() (reference, error) {
	read, err := readContract()
	if err != nil {
		return reference{}, err
	}
	root, err := readYAML()
	if err != nil {
		return reference{}, err
	}
	r := reference{Description: read.Description}
	for _, group := range member(root, "x-tagGroups").Content {
		chapter := referenceChapter{Name: textOf(group, "name")}
		for _, name := range member(group, "tags").Content {
			i := slices.IndexFunc(read.Tags, func(t contractTag) bool { return t.Name == name.Value })
			tag := referenceTag{Name: name.Value, Anchor: tagAnchor(name.Value), Description: read.Tags[i].Description}
			for _, o := range read.Tags[i].Operations {
				made, err := newCall(root, o)
				if err != nil {
					return reference{}, err
				}
				tag.Operations = append(tag.Operations, made)
			}
			chapter.Tags = append(chapter.Tags, tag)
		}
		r.Chapters = append(r.Chapters, chapter)
	}
	for name, schema := range members(member(member(root, "components"), "schemas")) {
		if standsAlone(schema) {
			one := namedSchema{Name: name, Description: textOf(schema, "description"), Fields: propertiesOf(root, schema, 0)}
			if len(one.Fields) == 0 {
				one.Type = typeOf(root, schema)
			}
			r.Schemas = append(r.Schemas, one)
		}
	}
	return r, nil
}

func newCall(root *yaml.Node, o operation) (call, error) {
	item := member(member(root, "paths"), o.Path)
	node := member(item, strings.ToLower(o.Method))
	c := call{operation: o, Role: textOf(node, "x-role"), Cost: textOf(node, "x-rate-limit-cost"), Unrestricted: textOf(node, "x-unrestricted-key") == "true"}
	ways := member(node, "security")
	if ways == nil {
		ways = member(root, "security")
	}
	for _, way := range ways.Content {
		c.Signed, c.Session = c.Signed || member(way, "ApiKey") != nil, c.Session || member(way, "SessionToken") != nil
	}
	c.Target = o.Path
	for _, list := range []*yaml.Node{member(item, "parameters"), member(node, "parameters")} {
		if list == nil {
			continue
		}
		for _, one := range list.Content {
			p := parameterOf(root, resolved(root, one))
			c.Parameters = append(c.Parameters, p)
			if p.In == "path" && p.Example != "" {
				c.Target = strings.ReplaceAll(c.Target, "{"+p.Name+"}", url.PathEscape(p.Example))
			}
		}
	}
	if body := resolved(root, member(node, "requestBody")); body != nil {
		c.Content = &content{Description: textOf(body, "description"), Example: firstExample(root, node)}
		for _, media := range members(member(body, "content")) {
			schema := member(media, "schema")
			c.Content.Type, c.Content.Fields = typeOf(root, schema), propertiesOf(root, resolved(root, schema), 0)
			break
		}
	}
	for status, answer := range members(member(node, "responses")) {
		answer = resolved(root, answer)
		one := response{answerOf: answerOf{status, textOf(answer, "description")}}
		for _, media := range members(member(answer, "content")) {
			if schema := member(media, "schema"); schema != nil {
				one.Type = typeOf(root, schema)
			}
			break
		}
		if status < "4" {
			c.Answered = append(c.Answered, one)
		} else {
			c.Refused = append(c.Refused, one)
		}
	}
	if !c.Signed {
		return c, nil
	}
	var err error
	c.Samples, err = samplesOf(c)
	return c, err
}

// samplePrograms are the languages of the samples, with the grammar of their code. A template of
// pages/samples.txt has the program.
var samplePrograms = []sample{
	{Language: "Shell", Grammar: "sh", File: "call.sh"}, {Language: "Python", Grammar: "python", File: "call.py"},
	{Language: "TypeScript", Grammar: "ts", File: "call.ts"}, {Language: "Go", Grammar: "go", File: "main.go"},
	{Language: "Java", Grammar: "java", File: "Call.java"},
}

var sampleTemplates = sync.OnceValues(func() (*texttemplate.Template, error) {
	return texttemplate.New("samples").Funcs(texttemplate.FuncMap{"javaText": func(text string) string { // as in a literal of several lines
		return strings.NewReplacer("\n", "\n            ", `\`, `\\`).Replace(text)
	}}).ParseFS(pages, "pages/samples.txt")
})

// samplesOf returns programs that sign and send the call, each with the command that downloads
// its signer.
func samplesOf(c call) ([]sample, error) {
	templates, err := sampleTemplates()
	if err != nil {
		return nil, err
	}
	data := struct{ Method, Target, Body string }{c.Method, c.Target, ""}
	if c.Content != nil {
		data.Body = c.Content.Example
	}
	var all []sample
	for _, one := range samplePrograms {
		var code bytes.Buffer
		if err := templates.ExecuteTemplate(&code, one.Language, data); err != nil {
			return nil, err
		}
		one.Code = strings.Trim(code.String(), "\n")
		all = append(all, one)
	}
	return all, nil
}

// Program is a program that signs and sends a request.
type Program struct{ Language, Code string }

// Programs returns programs that sign and send a request to the deployment at origin, each with the
// command that downloads its signer. body is JSON, or empty.
func Programs(method, target, body, origin string) ([]Program, error) {
	body = escapes.Replace(body)
	c := call{operation: operation{Method: method}, Target: target}
	if body != "" {
		c.Content = &content{Example: body}
	}
	samples, err := samplesOf(c)
	if err != nil {
		return nil, err
	}
	var all []Program
	for _, one := range samples {
		all = append(all, Program{one.Language, string(AtOrigin([]byte(one.Code), origin))})
	}
	return all, nil
}

// escapes write parts of JSON strings differently: the backtick, which would end the literal of the Go
// program, and the address for which origin is substituted.
var escapes = strings.NewReplacer("`", `\u0060`, local, strings.ReplaceAll(local, "/", `\/`))

// firstExample returns the first request example of an operation as JSON, or "".
func firstExample(root, node *yaml.Node) string {
	for _, media := range members(member(resolved(root, member(node, "requestBody")), "content")) {
		for _, example := range members(member(media, "examples")) {
			var compact bytes.Buffer
			if value := member(resolved(root, example), "value"); value == nil || writeJSON(&compact, value) != nil {
				return ""
			}
			return catalog.Indented(compact.Bytes())
		}
	}
	return ""
}

// writeJSON writes a node as JSON, with fields in their order.
func writeJSON(to *bytes.Buffer, node *yaml.Node) error {
	separator := ""
	switch node.Kind {
	case yaml.AliasNode:
		return writeJSON(to, node.Alias)
	case yaml.MappingNode:
		to.WriteByte('{')
		for name, value := range members(node) {
			quoted, err := json.Marshal(name)
			if err != nil {
				return err
			}
			to.WriteString(separator + string(quoted) + ":")
			if err := writeJSON(to, value); err != nil {
				return err
			}
			separator = ","
		}
		to.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		to.WriteByte('[')
		for _, child := range node.Content {
			to.WriteString(separator)
			if err := writeJSON(to, child); err != nil {
				return err
			}
			separator = ","
		}
		to.WriteByte(']')
		return nil
	}
	return writeScalar(to, node)
}

func writeScalar(to *bytes.Buffer, node *yaml.Node) error {
	var value any
	if err := node.Decode(&value); err != nil {
		return err
	}
	if node.Tag == "!!int" || node.Tag == "!!float" {
		value = json.Number(node.Value) // keeps all digits
	}
	text, err := json.Marshal(value)
	to.Write(text)
	return err
}
