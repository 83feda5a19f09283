// Package workflowfile reads and writes workflows as files for people, in YAML or JSON.
//
// In the short form, components is a map by ID, in which each component follows the one before it
// unless `after` names others. In the API's form, components is a list. Read returns the API's form of either; Write returns the
// short form wherever Read can restore everything from it.
package workflowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// File is a workflow that was read from a file.
type File struct {
	JSON json.RawMessage // the API's form
	root *yaml.Node      // the API's form, with the lines of the file
}

// Read reads a file in YAML.
func Read(text []byte) (File, error) {
	root, err := parseYAML(text)
	if err != nil {
		return File{}, err
	}
	return read(root)
}

// ReadJSON reads a file in JSON. It returns an error for a key that occurs twice and for data after the
// object.
func ReadJSON(text []byte) (File, error) {
	root, err := parseJSON(text)
	if err != nil {
		return File{}, err
	}
	return read(root)
}

func read(root *yaml.Node) (File, error) {
	if root.Kind != yaml.MappingNode {
		return File{}, fmt.Errorf("line %d: a workflow must be an object with name and components", root.Line)
	}
	if err := expand(root); err != nil {
		return File{}, err
	}
	if err := expandDurations(root); err != nil {
		return File{}, err
	}
	raw, err := strictjson.Encode(plain{root})
	return File{JSON: raw, root: root}, err
}

// Same reports whether the file has the content of a workflow in the API's form, apart from default
// values, serial IDs and the order of edges and connections.
func (f File) Same(raw []byte) bool { return equal(f.JSON, raw) }

// Line returns the line of the file that a JSON pointer into the API's form refers to. It returns
// the line of the closest parent if the file has no such value, and 0 if it has no parent either.
func (f File) Line(pointer string) (line int) {
	line, _ = f.Place(pointer)
	return line
}

// Place returns the line and the column that a JSON pointer into the API's form refers to, as Line does.
// The column is 0 if it is unknown.
func (f File) Place(pointer string) (line, column int) {
	node := f.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		var next, at *yaml.Node
		switch {
		case node == nil:
		case node.Kind == yaml.MappingNode:
			for i := 0; i < len(node.Content); i += 2 {
				if node.Content[i].Value == part {
					at, next = node.Content[i], node.Content[i+1]
				}
			}
		case node.Kind == yaml.SequenceNode:
			if index, err := strconv.Atoi(part); err == nil && index >= 0 && index < len(node.Content) {
				next = node.Content[index]
				at = next
			}
		}
		if node = next; node == nil {
			break
		}
		line, column = at.Line, at.Column
	}
	return line, column
}

// Write returns the YAML file of a workflow in the API's form. IDs of edges and connections are kept
// unless all of a list are serial numbers such as e1, which Read assigns again.
func Write(raw []byte) ([]byte, error) {
	long, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	short, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	trees := []*yaml.Node{long} // for example because a string contains other braces
	if shorten(short) {
		trees = []*yaml.Node{short, long}
	}
	for _, tree := range trees {
		text, err := encode(tree)
		if err != nil {
			return nil, err
		}
		if file, err := Read(text); err == nil && equal(file.JSON, raw) {
			return text, nil
		}
	}
	return nil, errors.New("the workflow cannot be written as YAML; write it as JSON")
}

// YAML returns the YAML of any JSON value.
func YAML(raw []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	tree, err := (&jsonParser{decoder: decoder, text: raw, line: 1}).value()
	if err != nil {
		return nil, err
	}
	return encode(tree)
}

// encode returns the YAML of a tree.
func encode(root *yaml.Node) ([]byte, error) {
	layOut(root, 0)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return out.Bytes(), encoder.Close()
}
