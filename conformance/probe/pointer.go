package probe

import (
	"strconv"
	"strings"
)

// at returns the part of the document at a path. It follows references on the way.
func (s *Spec) at(path []string) (any, bool) {
	node, _ := s.follow(path)
	return node, node != nil
}

// pointerToken escapes a token of a JSON pointer in a URI fragment.
var pointerToken = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "$", "%24", "#", "%23")

// follow is like at, and also returns a JSON pointer to the part that contains no reference.
func (s *Spec) follow(path []string) (node any, pointer string) {
	node = s.root
	for _, token := range path {
		for {
			reference, ok := members(node)["$ref"].(string)
			if !ok {
				break
			}
			pointer = strings.TrimPrefix(reference, "#")
			node, _ = s.follow(pathOf(reference))
		}
		pointer += "/" + pointerToken.Replace(token)
		switch inner := node.(type) {
		case map[string]any:
			node = inner[token]
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index >= len(inner) {
				return nil, pointer
			}
			node = inner[index]
		default:
			return nil, pointer
		}
	}
	return node, pointer
}

// pathOf returns the path of a reference into the document.
func pathOf(reference string) []string {
	return strings.Split(strings.TrimPrefix(reference, "#/"), "/")
}

func members(node any) map[string]any {
	object, _ := node.(map[string]any)
	return object
}
