package portal

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	yaml "github.com/oasdiff/yaml3"
)

// referencePolicy limits the reference to scripts and data from the same origin. It allows inline
// styles, because the script sets styles at run time.
const referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mountReference serves the reference at /docs/reference, which the browser renders from
// /docs/reference.json, and as Markdown.
func mountReference(mux *http.ServeMux) {
	page := newDocument(htmlType, func() ([]byte, error) { return renderHTML("reference", nothing) })
	page.policy = referencePolicy
	mux.Handle("GET /docs/reference", page)
	mux.Handle("GET /docs/reference.md", newDocument(markdownType, func() ([]byte, error) {
		return renderText("reference", func() (any, error) { return readContract() })
	}))
	mux.Handle("GET /docs/reference.json", newDocument(jsonType, referenceDocument))
}

// referenceDocument returns openapi.yaml as JSON for the reference, with fields in their
// original order. It removes the examples of optional parameters, because the reference would
// send them by default.
func referenceDocument() ([]byte, error) {
	root, err := readYAML()
	if err != nil {
		return nil, err
	}
	describeExamples(root)
	describeAuth(root)
	var out bytes.Buffer
	err = writeJSON(&out, root)
	return out.Bytes(), err
}

// describeExamples moves the example of each optional parameter into its description.
func describeExamples(node *yaml.Node) {
	if place := textOf(node, "in"); (place == "query" || place == "header") && textOf(node, "required") != "true" {
		if example, about := member(node, "example"), member(node, "description"); example != nil && about != nil {
			about.Value = strings.TrimRight(about.Value, "\n") + " For example `" + example.Value + "`."
		}
		remove(node, "example")
	}
	for _, child := range node.Content {
		describeExamples(child)
	}
}

// describeAuth replaces the security requirements with a sentence in each description.
// Otherwise the reference would ask readers to type signing headers, but the page signs
// requests automatically.
func describeAuth(root *yaml.Node) {
	remove(root, "security")
	remove(member(root, "components"), "securitySchemes")
	for path, item := range members(member(root, "paths")) {
		for method, node := range members(item) {
			about, proofs := member(node, "description"), member(node, "security")
			switch {
			case about == nil: // parameters of all methods
			case proofs == nil:
				about.Value = "`signed` with a [workspace key](/docs/signing)\n\n" + about.Value
				showCall(node, signedCall(strings.ToUpper(method), path, firstExample(root, node)))
			case len(proofs.Content) > 0:
				about.Value = "`session` of a person: [sign in](/settings) in this browser, and requests from this page use your session\n\n" + about.Value
			}
			remove(node, "security")
		}
	}
}

// signedCall returns shell commands that download the signer and make a signed call.
func signedCall(method, path, body string) string {
	lines := "curl -fsSO " + local + "/docs/signers/weft_curl.sh\nbash weft_curl.sh " + method + " '" + path + "'"
	if body == "" {
		return lines
	}
	return lines + " - <<'EOF'\n" + body + "\nEOF"
}

// firstExample returns the first request example of an operation as JSON, or "".
func firstExample(root, node *yaml.Node) string {
	for _, media := range members(member(resolved(root, member(node, "requestBody")), "content")) {
		for _, example := range members(member(media, "examples")) {
			var compact, out bytes.Buffer
			if value := member(resolved(root, example), "value"); value == nil || writeJSON(&compact, value) != nil || json.Indent(&out, compact.Bytes(), "", "  ") != nil {
				return ""
			}
			return out.String()
		}
	}
	return ""
}

// showCall adds a code sample to an operation.
func showCall(node *yaml.Node, source string) {
	text := func(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value} }
	sample := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("lang"), text("Shell"), text("label"), text("Shell, signed"), text("source"), text(source)}}
	node.Content = append(node.Content, text("x-codeSamples"), &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{sample}})
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
