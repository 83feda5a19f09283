package expression

import (
	"maps"
	"math"
	"slices"
)

// end returns the first or the last item, or nil if the array is empty.
func (c call) end() any {
	items := c.listAt(0)
	switch {
	case len(items) == 0:
		return nil
	case c.name == "first":
		return items[0]
	}
	return items[len(items)-1]
}

// get returns a field or an item, or nil if it doesn't exist.
func (c call) get() any {
	key := c.arguments[1]
	switch from := c.arguments[0].(type) {
	case nil:
		return nil
	case map[string]any:
		return from[c.memberName(c.node, key)]
	case []any:
		if place := c.place(key, len(from)); place >= 0 {
			return from[place]
		}
		return nil
	case string:
		runes := c.runes(c.node, from)
		if place := c.place(key, len(runes)); place >= 0 {
			return string(runes[place])
		}
		return nil
	}
	c.fail(c.node, WrongType, "get() accepts an object, an array or a string, got %s", kind(c.arguments[0]))
	return nil
}

func (c call) place(key any, size int) int {
	place := c.integer(c.node, key, "an index")
	if place < 0 {
		place += int64(size)
	}
	if place < 0 || place >= int64(size) {
		return -1
	}
	return int(place)
}

func (c call) take() any {
	items, count := c.listAt(0), c.integerAt(1)
	if count < 0 {
		c.fail(c.node, OutOfRange, "take() doesn't accept a negative number of items")
	}
	count = min(count, int64(len(items)))
	return items[:count:count]
}

// members returns the names, the values, or the pairs of both, of an object's fields, sorted by
// name.
func (c call) members() any {
	object, ok := c.arguments[0].(map[string]any)
	if !ok {
		c.fail(c.node, WrongType, "%s() accepts an object, got %s", c.name, kind(c.arguments[0]))
	}
	c.hold(c.node, len(object), 4*sizeOfItem)
	items := make([]any, 0, len(object))
	for _, name := range c.run.names(c.node, object) {
		switch c.name {
		case "keys":
			items = append(items, name)
		case "values":
			items = append(items, object[name])
		default:
			items = append(items, []any{name, object[name]})
		}
	}
	return items
}

func (c call) fromPairs() any {
	pairs := c.listAt(0)
	c.hold(c.node, len(pairs), sizeOfMember)
	c.spend(c.node, len(pairs))
	object := make(map[string]any, len(pairs))
	for _, item := range pairs {
		pair := c.list(c.node, item, "a pair")
		if len(pair) != 2 {
			c.fail(c.node, WrongType, "a pair must have two items, got %d", len(pair))
		}
		object[c.memberName(c.node, pair[0])] = pair[1]
	}
	return object
}

// copied returns a copy of an array.
func (c call) copied(items []any) []any {
	c.hold(c.node, len(items), sizeOfItem)
	c.spend(c.node, len(items)/4)
	return append(make([]any, 0, len(items)), items...)
}

func (c call) reverse() any {
	items := c.copied(c.listAt(0))
	slices.Reverse(items)
	return items
}

func (c call) concat() any {
	size := 0
	for i := range c.arguments {
		size += len(c.listAt(i))
	}
	c.hold(c.node, min(size, math.MaxInt32), sizeOfItem)
	c.spend(c.node, size/4)
	all := make([]any, 0, size)
	for i := range c.arguments {
		all = append(all, c.listAt(i)...)
	}
	return all
}

func (c call) flatten() any {
	return c.flat([]any{}, c.listAt(0), 0)
}

func (c call) flat(into, items []any, depth int) []any {
	c.deep(c.node, depth)
	for _, item := range items {
		c.spend(c.node, 1)
		if nested, ok := item.([]any); ok {
			into = c.flat(into, nested, depth+1)
			continue
		}
		c.hold(c.node, 2, sizeOfItem)
		into = append(into, item)
	}
	return into
}

// uniq keeps the first of equal items. It finds equal strings, numbers and booleans with a map. It
// compares each array and object with all arrays and objects kept before.
func (c call) uniq() any {
	kept, compound, seen := []any{}, []any{}, map[any]bool{}
	for _, item := range c.listAt(0) {
		c.hold(c.node, 2, sizeOfMember)
		c.spend(c.node, 1)
		switch item.(type) {
		case []any, map[string]any:
			if slices.ContainsFunc(compound, func(other any) bool { return c.equal(c.node, other, item, 0) }) {
				continue
			}
			compound = append(compound, item)
		default:
			key := c.plain(item)
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		kept = append(kept, item)
	}
	return kept
}

// plain converts a scalar so that equal values have equal map keys.
func (c call) plain(value any) any {
	switch value := value.(type) {
	case nil, bool:
		return value
	case string:
		c.spend(c.node, len(value)/64)
		return value
	}
	return c.numeric(c.node, value, "an item")
}

func (c call) sort() any {
	items := c.listAt(0)
	return c.sortedBy(c.node, items, items, c.arguments[1:])
}

// chunk splits an array into arrays of at most n items.
func (c call) chunk() any {
	items, size := c.listAt(0), c.integerAt(1)
	if size < 1 {
		c.fail(c.node, OutOfRange, "chunk() needs at least 1 item in a chunk")
	}
	size = min(size, int64(max(1, len(items))))
	count := (len(items) + int(size) - 1) / int(size)
	c.hold(c.node, count+1, 2*sizeOfItem)
	c.spend(c.node, count)
	chunks := make([]any, 0, count)
	for part := range slices.Chunk(items, int(size)) {
		chunks = append(chunks, part)
	}
	return chunks
}

// merge returns an object with the fields of all objects. Of equal names, the last counts.
func (c call) merge() any {
	merged := map[string]any{}
	for i, argument := range c.arguments {
		object, ok := argument.(map[string]any)
		if !ok {
			c.fail(c.node, WrongType, "%s must be an object, got %s", c.what(i), kind(argument))
		}
		c.hold(c.node, len(object), sizeOfMember)
		c.spend(c.node, len(object))
		for name := range object {
			c.spend(c.node, len(name)/64)
		}
		maps.Copy(merged, object)
	}
	return merged
}
