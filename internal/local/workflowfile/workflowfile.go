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
	"strings"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// File is a workflow that was read from a file.
type File struct {
	JSON    json.RawMessage       // the API's form
	root    *yaml.Node            // the API's form, with the lines of the file
	short   bool                  // the file has the short form
	written map[*yaml.Node]string // names in the file that the API's form does not have
}

// Read reads a file in YAML. An error is Faults, with all that is wrong in the file. The File then has
// what could be read, if JSON is set, so that the service can check the rest.
func Read(text []byte) (File, error) {
	r := &reading{written: map[*yaml.Node]string{}}
	return r.read(r.parseYAML(text))
}

// ReadJSON reads a file in JSON, as Read does.
func ReadJSON(text []byte) (File, error) {
	root, err := parseJSON(text)
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		name := ""
		if len(failure.Details) > 0 {
			name = strings.Join(tokens(failure.Details[0].Pointer), ".")
			failure.Message = failure.Details[0].Message
		}
		return File{}, Faults{{Line: strictjson.FaultLine(text), Name: name, Message: failure.Message}}
	} else if err != nil {
		return File{}, err
	}
	return (&reading{written: map[*yaml.Node]string{}}).read(root)
}

func (r *reading) read(root *yaml.Node) (File, error) {
	switch {
	case root == nil:
		return File{}, r.err()
	case root.Kind != yaml.MappingNode:
		r.fault(root, "", "a workflow must be an object with name and components")
		return File{}, r.err()
	}
	r.foreign(root)
	file := File{root: root, short: r.expand(root), written: r.written}
	r.expandDurations(root)
	var err error
	if file.JSON, err = strictjson.Encode(plain{root}); err != nil {
		return File{}, err
	}
	return file, r.err()
}

// Same reports whether the file has the content of a workflow in the API's form, apart from default
// values, serial IDs, the order of edges and connections, and a key that the file leaves to the service.
func (f File) Same(raw []byte) bool { return equal(f.JSON, f.Without(raw)) }

// Without returns a workflow in the API's form without its key if the file leaves the key to the service.
func (f File) Without(raw []byte) []byte {
	if f.Key() != "" {
		return raw
	}
	root, err := parseJSON(raw)
	if err != nil {
		return raw
	}
	remove(root, "key")
	text, err := plain{root}.MarshalJSON()
	if err != nil {
		return raw
	}
	return text
}

// Key returns the key of the workflow, or "" if the file has none.
func (f File) Key() string { return word(f.root, "key") }

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
	for _, part := range tokens(pointer) {
		at, next := inner(node, part)
		if next == nil {
			break
		}
		node, line, column = next, at.Line, at.Column
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
