package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
)

// object is a JSON object of the document.
type object = map[string]any

// document is openapi.yaml as decoded JSON.
type document struct{ root object }

// read returns a fresh copy of the document, which a test may change.
func read(t *testing.T) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(api.SpecJSON(), &d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

// resolve returns node as an object, after following references. It returns nil if node is not
// an object.
func (d document) resolve(node any) object {
	for {
		here, _ := node.(object)
		ref, ok := here["$ref"].(string)
		if !ok {
			return here
		}
		node = d.at(strings.TrimPrefix(ref, "#"))
	}
}

// at returns the value at a JSON Pointer, or nil if it doesn't exist.
func (d document) at(pointer string) any {
	var node any = d.root
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		here, ok := node.(object)
		if !ok {
			return nil
		}
		node = here[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return node
}

// under returns a field that is an object, or an empty object.
func under(node object, key string) object {
	child, _ := node[key].(object)
	return child
}

// sorted iterates over the fields of node by name, with references resolved.
func (d document) sorted(node any) func(func(string, object) bool) {
	members := d.resolve(node)
	return func(yield func(string, object) bool) {
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if !yield(name, d.resolve(members[name])) {
				return
			}
		}
	}
}

// place is one operation and its location.
type place struct {
	at   string
	node object
}

// operations returns the operations of paths and webhooks, and of their callbacks.
func (d document) operations() []place {
	var all []place
	add := func(at string, item object) {
		for method, node := range d.sorted(item) {
			all = append(all, place{at + " " + method, node})
		}
	}
	for path, item := range d.sorted(d.root["paths"]) {
		add(path, item)
	}
	for name, item := range d.sorted(d.root["webhooks"]) {
		add("webhook "+name, item)
	}
	for _, operation := range slices.Clone(all) {
		for name, callback := range d.sorted(operation.node["callbacks"]) {
			for expression, item := range d.sorted(callback) {
				add(fmt.Sprintf("callback %s %s", name, expression), item)
			}
		}
	}
	return all
}

// operation returns the operation with this operationId and its path, or nil.
func (d document) operation(id string) (path string, operation object) {
	for path, item := range d.sorted(d.root["paths"]) {
		for _, node := range d.sorted(item) {
			if node["operationId"] == id {
				return path, node
			}
		}
	}
	return "", nil
}
