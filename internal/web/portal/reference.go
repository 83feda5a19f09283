package portal

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	yaml "github.com/oasdiff/yaml3"
)

// referencePolicy allows the reference its own scripts and data alone. It styles itself
// at run time, hence the inline styles.
const referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mountReference puts the reference at /docs/reference: for browsers made there from
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

// referenceDocument is openapi.yaml as JSON, in the order in which it is written, for the
// reference alone: what is optional has no value that would be sent before somebody
// chooses it.
func referenceDocument() ([]byte, error) {
	root, err := readYAML()
	if err != nil {
		return nil, err
	}
	tellExamples(root)
	tellProofs(root)
	var out bytes.Buffer
	err = writeJSON(&out, root)
	return out.Bytes(), err
}

// tellExamples moves the example of each optional parameter into its description.
func tellExamples(node *yaml.Node) {
	if place := textOf(node, "in"); (place == "query" || place == "header") && textOf(node, "required") != "true" {
		if example, about := member(node, "example"), member(node, "description"); example != nil && about != nil {
			about.Value = strings.TrimRight(about.Value, "\n") + " For example `" + example.Value + "`."
		}
		remove(node, "example")
	}
	for _, child := range node.Content {
		tellExamples(child)
	}
}

// tellProofs puts into words how who asks proves it, in the place of headers that a reader
// would be asked to type: the page signs.
func tellProofs(root *yaml.Node) {
	remove(root, "security")
	remove(member(root, "components"), "securitySchemes")
	for path, item := range members(member(root, "paths")) {
		for method, node := range members(item) {
			about, proofs := member(node, "description"), member(node, "security")
			switch {
			case about == nil: // parameters of all methods
			case proofs == nil:
				about.Value = "`signed` by a [workspace key](/docs/signing)\n\n" + about.Value
				showCall(node, signedCall(strings.ToUpper(method), path, firstExample(root, node)))
			case len(proofs.Content) > 0:
				about.Value = "`session` of a person: [sign in](/settings) in this browser, and what you try here is sent as you\n\n" + about.Value
			}
			remove(node, "security")
		}
	}
}

// signedCall gets the signer for the shell and has it make a call.
func signedCall(method, path, body string) string {
	lines := "curl -fsSO " + local + "/docs/signers/weft_curl.sh\nbash weft_curl.sh " + method + " '" + path + "'"
	if body == "" {
		return lines
	}
	return lines + " - <<'EOF'\n" + body + "\nEOF"
}

// firstExample is the first body that the document shows for an operation, as JSON; "" for none.
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

// showCall gives an operation a sample of its call.
func showCall(node *yaml.Node, source string) {
	text := func(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value} }
	sample := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("lang"), text("Shell"), text("label"), text("Shell, signed"), text("source"), text(source)}}
	node.Content = append(node.Content, text("x-codeSamples"), &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{sample}})
}

// writeJSON writes a node with its members in their order.
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
		value = json.Number(node.Value) // with all its digits
	}
	text, err := json.Marshal(value)
	to.Write(text)
	return err
}
