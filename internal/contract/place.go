package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// place is one place of the document, decoded. References are followed on the way to
// it; where nothing is, the value is nil.
type place struct {
	root, value any
	reference   string // what stood there instead, "" if the value did
}

// top is the whole document.
func (p place) top() place { return place{root: p.root, value: p.root} }

// at goes down by names.
func (p place) at(names ...string) place {
	for _, name := range names {
		members, _ := p.value.(map[string]any)
		p = place{root: p.root, value: members[name]}.follow()
	}
	return p
}

func (p place) follow() place {
	members, _ := p.value.(map[string]any)
	reference, refers := members["$ref"].(string)
	if !refers {
		return p
	}
	target := p.top().at(strings.Split(strings.TrimPrefix(reference, "#/"), "/")...)
	target.reference = reference
	return target
}

// is reports whether anything is there.
func (p place) is() bool { return p.value != nil }

// names are those of an object's members, in order.
func (p place) names() []string {
	members, _ := p.value.(map[string]any)
	return slices.Sorted(maps.Keys(members))
}

// each are the items of an array.
func (p place) each() []place {
	items, _ := p.value.([]any)
	places := make([]place, len(items))
	for i, item := range items {
		places[i] = place{root: p.root, value: item}.follow()
	}
	return places
}

// text is a string, "" where there is none.
func (p place) text() string {
	text, _ := p.value.(string)
	return text
}

// on reports whether a true stands there.
func (p place) on() bool { return p.value == true }

// number is a whole number, 0 where there is none.
func (p place) number() int {
	number, _ := p.value.(json.Number)
	n, _ := number.Int64()
	return int(n)
}

// types are those that a schema allows, all of them if it names none.
func (p place) types() (types []string) {
	if kind := p.at("type").text(); kind != "" {
		return []string{kind}
	}
	for _, kind := range p.at("type").each() {
		types = append(types, kind.text())
	}
	return types
}

// takes reports whether a schema allows one type alone.
func (p place) takes(kind string) bool { return slices.Equal(p.types(), []string{kind}) }
