package workflowfile

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// defaults are the values that a file leaves out, as JSON.
var (
	rootDefaults      = map[string]string{"format": `"weft.workflow.v1"`, "description": `""`, "inputSchema": "null", "triggers": "[]", "sequenceEdges": "[]", "dataConnections": "[]"}
	componentDefaults = map[string]string{"name": `""`, "input": "{}", "config": "{}", "position": "null"}
	edgeDefaults      = map[string]string{"port": `"next"`}
)

func dropDefaults(object *yaml.Node, defaults map[string]string) {
	for name, value := range defaults {
		if given := field(object, name); given != nil {
			if raw, err := (plain{given}).MarshalJSON(); err == nil && string(raw) == value {
				remove(object, name)
			}
		}
	}
}

// The orders of fields. Others follow in their own order.
var (
	rootOrder      = []string{"name", "key", "description", "status", "inputSchema", "retry", "deadlineMs", "deadline", "components", "sequenceEdges", "dataConnections"}
	componentOrder = []string{"module", "name", "after", "config", "input"}
)

// inOrder sorts the fields of an object.
func inOrder(object *yaml.Node, names []string) {
	rest := &yaml.Node{Kind: yaml.MappingNode, Content: slices.Clone(object.Content)}
	object.Content = nil
	for _, name := range names {
		if value := remove(rest, name); value != nil {
			set(object, name, value)
		}
	}
	object.Content = append(object.Content, rest.Content...)
}

// shorten replaces the API's form of a workflow with the short form. It reports false if the
// components have no IDs.
func shorten(root *yaml.Node) bool {
	components := field(root, "components")
	if components == nil || components.Kind != yaml.SequenceNode {
		return false
	}
	byID, short := map[string]*yaml.Node{}, mapping(0)
	for _, one := range components.Content {
		id := word(one, "id")
		if id == "" || byID[id] != nil {
			return false
		}
		byID[id] = one
		remove(one, "id")
		dropDefaults(one, componentDefaults)
		short.Content = append(short.Content, text(id, 0), one)
	}
	shortenEdges(root, short)
	shortenConnections(root)
	for _, one := range byID {
		shortenDurations(one)
		inOrder(one, componentOrder)
	}
	shortenRetry(root)
	shortenDuration(root, rootDuration)
	set(root, "components", short)
	dropDefaults(root, rootDefaults)
	inOrder(root, rootOrder)
	return true
}

// serial matches the IDs that Read assigns.
var serial = regexp.MustCompile(`^[ed][0-9]+$`)

// serialIDs reports whether all of a list have serial numbers as IDs.
func serialIDs(list *yaml.Node) bool {
	return !slices.ContainsFunc(list.Content, func(one *yaml.Node) bool { return !serial.MatchString(word(one, "id")) })
}

// shortenEdges removes edges that follow from the order of the components or from `after`.
func shortenEdges(root, short *yaml.Node) {
	list := field(root, "sequenceEdges")
	if list == nil {
		list = sequence(0)
	}
	sources := map[string][]*yaml.Node{}
	for _, edge := range list.Content {
		from, port, to := word(edge, "from"), cmp.Or(word(edge, "port"), "next"), word(edge, "to")
		if port != "next" {
			from += "." + port
		}
		sources[to] = append(sources[to], text(from, 0))
		dropDefaults(edge, edgeDefaults)
	}
	derived := serialIDs(list)
	if derived {
		remove(root, "sequenceEdges")
	}
	for i := 0; i < len(short.Content); i += 2 {
		id, one := short.Content[i].Value, short.Content[i+1]
		switch given := sources[id]; {
		case len(given) == 0 && i > 0:
			set(one, "after", sequence(0))
		case !derived || len(given) == 0:
		case len(given) == 1 && i > 0 && given[0].Value == short.Content[i-2].Value: // the default
		case len(given) == 1:
			set(one, "after", given[0])
		default:
			set(one, "after", sequence(0, given...))
		}
	}
}

// shortenConnections removes the IDs of connections that Read assigns.
func shortenConnections(root *yaml.Node) {
	list := field(root, "dataConnections")
	if list == nil || !serialIDs(list) {
		return
	}
	for _, one := range list.Content {
		remove(one, "id")
	}
}

// equal reports whether two workflows in the API's form are the same, apart from default values,
// serial IDs and the order of edges and connections.
func equal(a, b []byte) bool {
	first, err := canonical(a)
	second, otherErr := canonical(b)
	return err == nil && otherErr == nil && bytes.Equal(first, second)
}

func canonical(raw []byte) ([]byte, error) {
	root, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	if components := field(root, "components"); components != nil {
		for _, one := range components.Content {
			dropDefaults(one, componentDefaults)
		}
	}
	for _, name := range []string{"sequenceEdges", "dataConnections"} {
		list := field(root, name)
		if list == nil {
			continue
		}
		isSerial := serialIDs(list)
		for _, one := range list.Content {
			dropDefaults(one, edgeDefaults)
			if isSerial {
				remove(one, "id")
			}
		}
		slices.SortFunc(list.Content, func(a, b *yaml.Node) int { return strings.Compare(sorted(a), sorted(b)) })
	}
	dropDefaults(root, rootDefaults)
	return []byte(sorted(root)), nil
}

// sorted returns the JSON of a tree with sorted fields.
func sorted(node *yaml.Node) string {
	raw, err := plain{node}.MarshalJSON()
	if err != nil {
		return ""
	}
	value, err := strictjson.Decode(raw)
	if err != nil {
		return ""
	}
	raw, err = strictjson.Encode(value)
	if err != nil {
		return ""
	}
	return string(raw)
}

// maxLine is the length up to which an object or a list stays on one line.
const maxLine = 72

// layOut sets the styles of a tree: short values on one line, strings of several lines as blocks, and
// quotes around strings that look like numbers.
func layOut(node *yaml.Node, depth int) {
	if node.Kind == yaml.ScalarNode {
		switch {
		case node.Tag == tagNumber:
			node.Tag = "" // also for numbers that YAML cannot represent
		case node.Tag == tagString && quoted.MatchString(node.Value):
			node.Style = yaml.DoubleQuotedStyle
		case node.Tag == tagString && strings.Contains(node.Value, "\n"):
			node.Style = yaml.DoubleQuotedStyle
			if block.MatchString(node.Value) {
				node.Style = yaml.LiteralStyle
			}
		}
		return
	}
	raw, err := plain{node}.MarshalJSON()
	if short := err == nil && len(raw) <= maxLine && !bytes.Contains(raw, []byte(`\n`)); depth > 1 && short || len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	for _, item := range node.Content {
		layOut(item, depth+1)
	}
}

// quoted matches strings that could be taken for something else: numbers, hexadecimal values and merge
// keys.
var quoted = regexp.MustCompile(`^(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|0x.*|<<)$`)

// block matches strings of several lines that YAML keeps as they are.
var block = regexp.MustCompile(`^([!-~][ -~]*[!-~]|[!-~])(\n|\n([!-~][ -~]*[!-~]|[!-~]| +[!-~]([ -~]*[!-~])?))*$`)
