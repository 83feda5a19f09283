package gen

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// version is the latest OpenAPI 3.0 version that all generators support.
const version = "3.0.3"

// openapi30 converts an OpenAPI 3.1 document, as JSON, to OpenAPI 3.0, for generators that support
// no later version. No part of the document is lost silently: a keyword that 3.0 lacks becomes an
// extension if no request or response depends on it. Otherwise openapi30 returns an error with the
// location of the schema.
func openapi30(document []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var root object
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Errorf("decode openapi document: %w", err)
	}
	root["openapi"] = version
	rename(root, "webhooks", "x-webhooks")
	if info, ok := root["info"].(object); ok {
		convertInfo(info)
	}
	if err := walk(root, ""); err != nil {
		return nil, err
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("encode openapi document: %w", err)
	}
	return written.Bytes(), nil
}

// rename renames a field, if it exists.
func rename(in object, from, to string) {
	if value, ok := in[from]; ok {
		in[to] = value
		delete(in, from)
	}
}

// convertInfo prepends the summary to the description, and replaces the license's identifier
// with a URL.
func convertInfo(info object) {
	if summary, ok := info["summary"].(string); ok {
		description, _ := info["description"].(string)
		info["description"] = summary + "\n\n" + description
		delete(info, "summary")
	}
	if license, ok := info["license"].(object); ok {
		if identifier, ok := license["identifier"].(string); ok {
			license["url"] = "https://spdx.org/licenses/" + identifier + ".html"
			delete(license, "identifier")
		}
	}
}

// walk visits everything outside of schemas and rewrites the schemas that it finds. It skips
// examples, because their fields may have the same names as keywords.
func walk(node any, at string) error {
	switch node := node.(type) {
	case object:
		for key, child := range node {
			place := at + "/" + key
			switch {
			case key == "example" || key == "examples":
			case key == "schema":
				schema, err := rewrite(child, place)
				if err != nil {
					return err
				}
				node[key] = schema
			case place == "/components/schemas":
				if err := rewriteEach(child, place); err != nil {
					return err
				}
			default:
				if err := walk(child, place); err != nil {
					return err
				}
			}
		}
	case []any:
		for i, child := range node {
			if err := walk(child, fmt.Sprintf("%s/%d", at, i)); err != nil {
				return err
			}
		}
	}
	return nil
}
