package hook

import (
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const (
	maxReplaced = 100 // pointers that an input lists
	maxPointer  = 256 // bytes of a pointer; beyond, the pointer of an ancestor is listed
)

// repair is a JSON value in which values that can't be stored are replaced by U+FFFD.
type repair struct {
	out      []byte
	replaced []string // JSON pointers into the input of the run
}

// repaired returns a storable form of a body, and the pointers to what it replaced. The result can
// still have too many values, or a name that is too long.
func repaired(body []byte) (json.RawMessage, []string) {
	r := repair{out: make([]byte, 0, len(body))}
	r.value("/body", 1, gjson.ParseBytes(body))
	return r.out, r.replaced
}

// value appends a value. depth is the number of objects and arrays around it.
func (r *repair) value(at string, depth int, v gjson.Result) {
	container := v.IsObject() || v.IsArray()
	switch {
	case !container && strictjson.Check([]byte(v.Raw)) == nil:
		r.out = append(r.out, v.Raw...)
	case v.Type == gjson.String:
		r.out = append(r.out, quoted(v.Raw)...)
		r.note(at)
	case !container || depth == strictjson.MaxDepth:
		r.out = append(r.out, "\"\uFFFD\""...)
		r.note(at)
	case v.IsObject():
		r.object(at, depth, v)
	default:
		r.out = append(r.out, '[')
		index := 0
		v.ForEach(func(_, item gjson.Result) bool {
			if index > 0 {
				r.out = append(r.out, ',')
			}
			r.value(child(at, fmt.Sprint(index)), depth+1, item)
			index++
			return true
		})
		r.out = append(r.out, ']')
	}
}

// object appends an object. Of fields with the same name, it keeps the last value, at the position of
// the first one.
func (r *repair) object(at string, depth int, v gjson.Result) {
	var names []string
	members := map[string]gjson.Result{}
	v.ForEach(func(name, member gjson.Result) bool {
		key := name.Raw
		if strictjson.Check([]byte(key)) != nil {
			key = quoted(key)
			r.note(at)
		}
		var plain string
		if json.Unmarshal([]byte(key), &plain) != nil {
			return true // quoted names always decode
		}
		if _, twice := members[plain]; twice {
			r.note(child(at, plain))
		} else {
			names = append(names, plain)
		}
		members[plain] = member
		return true
	})
	r.out = append(r.out, '{')
	for i, name := range names {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.out = append(append(r.out, quote(name)...), ':')
		r.value(child(at, name), depth+1, members[name])
	}
	r.out = append(r.out, '}')
}

func (r *repair) note(at string) {
	if len(r.replaced) < maxReplaced {
		r.replaced = append(r.replaced, at)
	}
}

func child(at, step string) string {
	if next := at + "/" + fault.EscapeToken(step); len(next) <= maxPointer {
		return next
	}
	return at
}

// quoted returns a JSON string in a form that can be stored. Decoding replaces lone surrogates and
// invalid UTF-8 by U+FFFD.
func quoted(raw string) string {
	var text string
	_ = json.Unmarshal([]byte(raw), &text) // the string is part of valid JSON
	return quote(storableText(text))
}

func quote(text string) string {
	out, _ := strictjson.Encode(text) // strings always encode
	return string(out)
}
