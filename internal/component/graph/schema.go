package graph

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// shape is a place in a JSON Schema. One without a node says nothing, and so does
// whatever this package does not read in a schema: only what is certain is a
// fault.
type shape struct {
	node, root any
}

func parse(schema json.RawMessage) shape {
	if len(schema) == 0 {
		return shape{}
	}
	node, err := decode(schema)
	if err != nil {
		return shape{}
	}
	return shape{node: node, root: node}
}

// decode reads JSON with its numbers as they are written.
func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// resolved follows references within the schema.
func (s shape) resolved() shape {
	for range 8 {
		node, _ := s.node.(map[string]any)
		reference, ok := node["$ref"].(string)
		if !ok {
			return s
		}
		path, local := strings.CutPrefix(reference, "#")
		if !local || path != "" && path[0] != '/' {
			break
		}
		at := s.root
		for _, token := range strings.Split(path, "/")[1:] {
			node, _ := at.(map[string]any)
			at = node[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
		}
		s.node = at
	}
	return shape{}
}

func (s shape) keyword(name string) any {
	node, _ := s.node.(map[string]any)
	return node[name]
}

func (s shape) branch(node any) shape { return shape{node: node, root: s.root} }

// branches are the schemas of anyOf, oneOf or allOf.
func (s shape) branches(keyword string) []shape {
	list, _ := s.keyword(keyword).([]any)
	all := make([]shape, 0, len(list))
	for _, node := range list {
		all = append(all, s.branch(node))
	}
	return all
}

// combined reports whether a schema is made of others, which may say more.
func (s shape) combined() bool {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "if", "$dynamicRef"} {
		if s.keyword(keyword) != nil {
			return true
		}
	}
	return false
}

// property is the shape of a member that the schema names.
func (s shape) property(name string) (shape, bool) {
	properties, _ := s.keyword("properties").(map[string]any)
	node, ok := properties[name]
	return s.branch(node), ok
}

// names are the members that the schema names, sorted.
func (s shape) names() []string {
	properties, _ := s.resolved().keyword("properties").(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// lacks says what is there in place of a member at a path, of which the first
// segments are.
func (s shape) lacks(segments []string, things string) string {
	whose := "its " + things
	if len(segments) > 0 {
		whose = "the members of " + quote(strings.Join(segments, "."))
	}
	if names := s.names(); len(names) > 0 {
		return whose + " are " + listing(names)
	}
	if len(segments) == 0 {
		return "it has no " + things
	}
	r := reader{left: maxSteps}
	return quote(strings.Join(segments, ".")) + " is " + r.kinds(s).String()
}

// required are the members that the schema demands.
func (s shape) required() []string {
	list, _ := s.resolved().keyword("required").([]any)
	var names []string
	for _, entry := range list {
		if name, ok := entry.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// item is the shape of an item of an array.
func (s shape) item(index int) shape {
	s = s.resolved()
	if list, ok := s.keyword("prefixItems").([]any); ok && index < len(list) {
		return s.branch(list[index])
	}
	return s.branch(s.keyword("items"))
}

// listed is the shape of an array of such values.
func (s shape) listed() shape {
	if s.node == nil {
		return shape{node: map[string]any{"type": "array"}}
	}
	return s.branch(map[string]any{"type": "array", "items": s.node})
}

// follow goes down a name or a dotted path; the name comes first, because it may
// hold dots. Where the schema says that a member is not there, missing is its
// place among the segments and end is what lacks it; otherwise missing is -1.
func (s shape) follow(path string) (end shape, segments []string, missing int) {
	s = s.resolved()
	if end, named := s.property(path); named {
		return end, []string{path}, -1
	}
	segments = strings.Split(path, ".")
	for i, segment := range segments {
		next, ok := s.member(segment, i == 0)
		if !ok {
			return s, segments, i
		}
		s = next
	}
	return s, segments, -1
}

// member is one step of a path. The top of a schema names all members unless it
// says otherwise, as in the catalogue; below it JSON Schema's own rule holds.
func (s shape) member(segment string, top bool) (shape, bool) {
	s = s.resolved()
	if end, named := s.property(segment); named {
		return end, true
	}
	r := reader{left: maxSteps}
	kinds := r.kinds(s)
	if index, isIndex := position(segment); isIndex && kinds&kindArray != 0 && kinds&kindObject == 0 {
		return s.item(index), true
	}
	if s.node == nil || s.combined() {
		return shape{}, true
	}
	if kinds&kindObject == 0 {
		return shape{}, false
	}
	additional := s.keyword("additionalProperties")
	if s.keyword("patternProperties") != nil {
		return shape{}, true
	}
	if additional == nil && top && s.keyword("properties") != nil {
		return shape{}, false
	}
	return s.branch(additional), additional != false
}

// text is the shape as a schema of its own.
func (s shape) text() json.RawMessage {
	if s.node == nil || s.node == true {
		return nil
	}
	node := s.node
	text, err := json.Marshal(node)
	if err != nil {
		return nil
	}
	root, _ := s.root.(map[string]any)
	if own, ok := node.(map[string]any); ok && bytes.Contains(text, []byte(`"$ref"`)) {
		own = maps.Clone(own)
		for _, definitions := range []string{"$defs", "definitions"} {
			if root[definitions] != nil {
				own[definitions] = root[definitions]
			}
		}
		if whole, err := json.Marshal(own); err == nil {
			return whole
		}
	}
	return text
}

// position reads the index of an array in a path.
func position(segment string) (int, bool) {
	index, err := strconv.Atoi(segment)
	return index, err == nil && index >= 0 && index <= maxIndex && strconv.Itoa(index) == segment
}
