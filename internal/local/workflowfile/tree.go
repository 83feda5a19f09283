package workflowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// The tags of scalars in a tree. Numbers keep their digits.
const (
	tagString = "!!str"
	tagNumber = "!!int"
	tagBool   = "!!bool"
	tagNull   = "!!null"
)

// number matches the numbers of JSON.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// parseYAML returns the tree of a YAML document, or nil if it cannot be read.
func (r *reading) parseYAML(text []byte) *yaml.Node {
	text = r.repair(text)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, next yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			r.faults = append(r.faults, Fault{Message: "the file is empty"})
		}
		return nil // repair has reported any other error
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		line := 0
		if next.Kind == yaml.DocumentNode {
			line = next.Line
		}
		r.faults = append(r.faults, Fault{Line: line, Message: "the file has more than one YAML document: write each workflow into a file"})
	}
	root := document.Content[0]
	r.normalize(root, "")
	return root
}

// normalize checks that a YAML tree has only what JSON has, and sets the tags of its scalars.
func (r *reading) normalize(node *yaml.Node, name string) {
	switch node.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		kept := make([]*yaml.Node, 0, len(node.Content))
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			inside := strings.TrimPrefix(name+"."+key.Value, ".")
			switch {
			case key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0:
				r.fault(node, name, "put quotes around a reference in double braces, such as \"{{start.amount}}\"")
			case key.Kind == yaml.ScalarNode && key.Tag == "!!merge" && key.Style == 0:
				r.fault(key, inside, "merge keys (<<) are not supported: write the fields again")
				r.merge(node, node.Content[i+1], &kept)
			case key.Kind != yaml.ScalarNode:
				r.fault(key, name, "a key must be a string")
			case seen[key.Value]:
				r.fault(key, inside, "the key %q occurs twice: remove or rename one of them", key.Value)
			default:
				seen[key.Value], key.Tag, key.Style = true, tagString, 0
				r.normalize(node.Content[i+1], inside)
				kept = append(kept, key, node.Content[i+1])
			}
		}
		node.Content = kept
	case yaml.SequenceNode:
		for i, item := range node.Content {
			r.normalize(item, fmt.Sprintf("%s[%d]", name, i))
		}
	case yaml.ScalarNode:
		r.normalizeScalar(node, name)
	default:
		r.fault(node, name, "anchors and aliases (&, *) are not supported: write the value again")
		line, column := node.Line, node.Column
		if meant := r.copied(node.Alias); meant != nil {
			*node = *meant
		} else {
			*node = yaml.Node{Kind: yaml.ScalarNode, Tag: tagString}
		}
		node.Line, node.Column = line, column
	}
}

// maxCopied limits the values that aliases stand for, which could grow without bounds.
const maxCopied = 10_000

// copied returns a copy of the value of an alias, so that the rest of the file is checked as it was meant. It
// returns nil for a value that contains its own alias, and beyond the limit.
func (r *reading) copied(node *yaml.Node) *yaml.Node {
	if r.aliased++; node == nil || node.Kind == yaml.AliasNode || r.aliased > maxCopied {
		return nil
	}
	made := *node
	made.Anchor, made.Content = "", make([]*yaml.Node, len(node.Content))
	for i, inside := range node.Content {
		if made.Content[i] = r.copied(inside); made.Content[i] == nil {
			return nil
		}
	}
	return &made
}

// merge adds the fields that a merge key stands for to those of an object, unless the object has them.
func (r *reading) merge(object, from *yaml.Node, fields *[]*yaml.Node) {
	if from.Kind != yaml.AliasNode {
		return
	}
	meant := r.copied(from.Alias)
	if meant == nil || meant.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i < len(meant.Content); i += 2 {
		if field(object, meant.Content[i].Value) == nil {
			*fields = append(*fields, meant.Content[i], meant.Content[i+1])
		}
	}
}

func (r *reading) normalizeScalar(node *yaml.Node, name string) {
	const explicit = yaml.TaggedStyle | yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	switch {
	case node.Style&explicit == 0 && number.MatchString(node.Value):
		node.Tag = tagNumber
	case node.Tag == "!!int" || node.Tag == "!!float":
		r.fault(node, name, "write the number %s in decimal form, or the string in quotes", node.Value)
		node.Tag, node.Value = tagNumber, "0"
	case node.Tag == tagBool:
		node.Value = strings.ToLower(node.Value)
	case node.Tag == tagNull:
		node.Value = "null"
	case node.Tag == tagString || node.Tag == "!!timestamp" || node.Tag == "!!merge":
		node.Tag = tagString
	default:
		r.fault(node, name, "the tag %s is not supported: remove it, or put quotes around the value", node.Tag)
		node.Tag = tagString
	}
	node.Style = 0
}

// parseJSON returns the tree of a JSON object. It returns an error for a key that occurs twice and for
// data after the object.
func parseJSON(text []byte) (*yaml.Node, error) {
	if err := strictjson.CheckObject(text); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	p := &jsonParser{decoder: decoder, text: text, line: 1}
	return p.value()
}

type jsonParser struct {
	decoder *json.Decoder
	text    []byte
	offset  int64 // up to here, line breaks are counted in line
	line    int
}

func (p *jsonParser) value() (*yaml.Node, error) {
	token, err := p.decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	end := p.decoder.InputOffset()
	p.line += bytes.Count(p.text[p.offset:end], []byte("\n"))
	p.offset = end
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: p.line}
	switch token := token.(type) {
	case json.Delim:
		node.Kind = yaml.SequenceNode
		if token == '{' {
			node.Kind = yaml.MappingNode
		}
		for p.decoder.More() {
			item, err := p.value() // keys and values in turn
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, item)
		}
		_, err = p.decoder.Token() // the closing bracket
	case string:
		node.Tag, node.Value = tagString, token
	case json.Number:
		node.Tag, node.Value = tagNumber, token.String()
	case bool:
		node.Tag, node.Value = tagBool, fmt.Sprint(token)
	case nil:
		node.Tag, node.Value = tagNull, "null"
	}
	return node, err
}

// plain encodes a tree as JSON.
type plain struct{ node *yaml.Node }

// MarshalJSON returns the JSON of the tree.
func (p plain) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	if p.node.Kind == yaml.ScalarNode {
		if p.node.Tag == tagString {
			return strictjson.Encode(p.node.Value)
		}
		return []byte(p.node.Value), nil
	}
	isMap := p.node.Kind == yaml.MappingNode
	for i, item := range p.node.Content {
		if i > 0 {
			out.WriteByte(map[bool]byte{true: ':', false: ','}[isMap && i%2 == 1])
		}
		text, err := plain{item}.MarshalJSON()
		if err != nil {
			return nil, err
		}
		out.Write(text)
	}
	if isMap {
		return append(append([]byte("{"), out.Bytes()...), '}'), nil
	}
	return append(append([]byte("["), out.Bytes()...), ']'), nil
}

// Constructors of nodes, on a line of the file.

func text(value string, line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tagString, Value: value, Line: line}
}

func sequence(line int, items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Line: line, Content: items}
}

// mapping returns an object with fields that are strings or nodes.
func mapping(line int, fields ...any) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode, Line: line}
	for _, field := range fields {
		item, isNode := field.(*yaml.Node)
		if !isNode {
			item = text(field.(string), line)
		}
		node.Content = append(node.Content, item)
	}
	return node
}

// field returns a field of an object, or nil.
func field(object *yaml.Node, name string) *yaml.Node {
	if object == nil || object.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	return nil
}

// word returns the string of a field, or "".
func word(object *yaml.Node, name string) string {
	if value := field(object, name); value != nil && value.Tag == tagString {
		return value.Value
	}
	return ""
}

// remove removes a field and returns its value, or nil.
func remove(object *yaml.Node, name string) *yaml.Node {
	value := field(object, name)
	for i := 0; value != nil && i < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			object.Content = append(object.Content[:i:i], object.Content[i+2:]...)
		}
	}
	return value
}

// set sets a field, at the end if it is new.
func set(object *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			object.Content[i+1] = value
			return
		}
	}
	object.Content = append(object.Content, text(name, value.Line), value)
}
