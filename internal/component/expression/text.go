package expression

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"
)

// string converts a value to a string. Values other than strings are encoded as JSON.
func (c call) string() any {
	switch value := c.arguments[0].(type) {
	case string:
		return value
	case nil:
		return "nil"
	default:
		return c.encode(c.node, value)
	}
}

// made uses the budget for a string that a function is about to create.
func (c call) made(size int) {
	c.hold(c.node, size, 1)
	c.read(c.node, size)
}

func (c call) trim() any {
	text := c.textAt(0)
	c.read(c.node, len(text))
	chars := " "
	switch {
	case len(c.arguments) == 2:
		chars = c.textAt(1)
		c.spend(c.node, 1+len(text)*len(chars)/64)
	case c.name == "trim":
		return strings.TrimSpace(text)
	}
	switch c.name {
	case "trimPrefix":
		return strings.TrimPrefix(text, chars)
	case "trimSuffix":
		return strings.TrimSuffix(text, chars)
	}
	return strings.Trim(text, chars)
}

func (c call) letters() any {
	text := c.textAt(0)
	c.made(2 * len(text))
	if c.name == "upper" {
		return strings.ToUpper(text)
	}
	return strings.ToLower(text)
}

// limit returns argument i, or -1 for no limit if it is missing.
func (c call) limit(i int) int {
	if len(c.arguments) <= i {
		return -1
	}
	return int(max(-1, min(c.integerAt(i), math.MaxInt32)))
}

func (c call) split() any {
	text, separator, limit := c.textAt(0), c.textAt(1), c.limit(2)
	c.read(c.node, len(text))
	count := strings.Count(text, separator) + 1
	if limit >= 0 {
		count = min(count, limit)
	}
	c.hold(c.node, count, 2*sizeOfItem)
	c.spend(c.node, count)
	parts := strings.SplitN(text, separator, limit)
	if c.name == "splitAfter" {
		parts = strings.SplitAfterN(text, separator, limit)
	}
	items := make([]any, len(parts))
	for i, part := range parts {
		items[i] = part
	}
	return items
}

func (c call) join() any {
	items, glue := c.listAt(0), ""
	if len(c.arguments) == 2 {
		glue = c.textAt(1)
	}
	c.hold(c.node, len(items), sizeOfItem)
	c.spend(c.node, len(items))
	size, parts := 0, make([]string, len(items))
	for i, item := range items {
		parts[i] = c.text(c.node, item, "each item of join()")
		size = min(size+len(parts[i])+len(glue), math.MaxInt32)
	}
	c.made(size)
	return strings.Join(parts, glue)
}

func (c call) replace() any {
	text, old, new, limit := c.textAt(0), c.textAt(1), c.textAt(2), c.limit(3)
	c.read(c.node, len(text))
	count := strings.Count(text, old)
	if limit >= 0 {
		count = min(count, limit)
	}
	c.hold(c.node, count, max(1, len(new)))
	c.made(len(text))
	c.spend(c.node, count)
	return strings.Replace(text, old, new, limit)
}

func (c call) repeat() any {
	text, count := c.textAt(0), c.integerAt(1)
	if count < 0 {
		c.fail(c.node, OutOfRange, "repeat() doesn't accept a negative count")
	}
	count = min(count, math.MaxInt32)
	if text == "" {
		return ""
	}
	c.hold(c.node, int(count), len(text))
	c.read(c.node, int(count)*len(text))
	return strings.Repeat(text, int(count))
}

// indexOf counts in characters, as len and an index do.
func (c call) indexOf() any {
	text, part := c.textAt(0), c.textAt(1)
	c.read(c.node, 2*len(text))
	found := strings.Index(text, part)
	if c.name == "lastIndexOf" {
		found = strings.LastIndex(text, part)
	}
	if found < 0 {
		return int64(-1)
	}
	return int64(utf8.RuneCountInString(text[:found]))
}

func (c call) has() any {
	text, part := c.textAt(0), c.textAt(1)
	c.read(c.node, min(len(text), len(part)))
	if c.name == "hasPrefix" {
		return strings.HasPrefix(text, part)
	}
	return strings.HasSuffix(text, part)
}

func (c call) toJSON() any { return c.encode(c.node, c.arguments[0]) }

// fromJSON decodes JSON. Numbers keep their notation.
func (c call) fromJSON() any {
	text := c.textAt(0)
	c.made(len(text))
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	// Decoded values need much more memory than their JSON.
	c.hold(c.node, strings.Count(text, ",")+strings.Count(text, "[")+strings.Count(text, ":"), sizeOfMember)
	c.spend(c.node, 100+len(text)/4)
	var value any
	if err := decoder.Decode(&value); err != nil || strings.TrimLeft(text[decoder.InputOffset():], " \t\r\n") != "" {
		c.fail(c.node, WrongType, "fromJSON() accepts a string with a single JSON value")
	}
	return value
}

func (c call) toBase64() any {
	text := c.textAt(0)
	c.made(2 * len(text))
	return base64.StdEncoding.EncodeToString([]byte(text))
}

func (c call) fromBase64() any {
	text := c.textAt(0)
	c.made(len(text))
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !utf8.Valid(data) {
		c.fail(c.node, WrongType, "fromBase64() accepts standard base64 with padding of a UTF-8 string")
	}
	return string(data)
}
