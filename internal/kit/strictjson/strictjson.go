// Package strictjson checks JSON before anything decodes it, in one scan over its tokens (decisions
// 1.1, 1.9).
//
// It rejects invalid JSON, JSON that two parsers could read differently, values that PostgreSQL's
// jsonb can't store, and documents that are too large. A document that passes Check means the same
// to every JSON parser, and can be stored unchanged.
package strictjson

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// The limits of one document.
const (
	MaxDepth    = 64
	MaxElements = 100_000 // fields and items in total
	MaxNumber   = 64      // characters
	MaxKey      = 1024    // bytes
)

// maxPointer limits the length of the JSON pointer of an error, which consists of the caller's own
// keys. If the pointer is longer, the error has the pointer of an ancestor.
const maxPointer = 256

// Check scans one JSON value, which may be surrounded by white space. It returns a *fault.Error
// INVALID_INPUT with a JSON pointer.
func Check(data []byte) error {
	s := scanner{text: string(data)}
	return s.check()
}

// FaultLine returns the line, from 1, at which Check finds an error in data.
func FaultLine(data []byte) int {
	s := scanner{text: string(data)}
	_ = s.check()
	return 1 + strings.Count(s.text[:min(s.at, len(s.text))], "\n")
}

// CheckObject is Check for a value that must be an object.
func CheckObject(data []byte) error {
	if err := Check(data); err != nil {
		return err
	}
	if first := bytes.TrimLeft(data, " \t\r\n"); first[0] != '{' {
		return fault.Invalid("", "the value must be a JSON object")
	}
	return nil
}

// Compact removes the white space between the tokens of data and changes nothing else. In data that
// isn't JSON, it removes white space outside of quotation marks. The result may share memory with
// data.
func Compact(data []byte) []byte {
	at := nextSpace(data, 0)
	if at == len(data) {
		return data
	}
	out := make([]byte, 0, len(data))
	for start := 0; ; at = nextSpace(data, start) {
		out = append(out, data[start:at]...)
		if at == len(data) {
			return out
		}
		start = at + 1
	}
}

// nextSpace returns the index of the first white space at or after start that is outside of strings,
// or len(data). start must not be inside a string.
func nextSpace(data []byte, start int) int {
	quoted := false
	for i := start; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && space(c):
			return i
		}
	}
	return len(data)
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// scanner holds the document, the current position, and the path to it.
type scanner struct {
	text     string
	at       int
	elements int
	frames   []frame
	keys     []string // of all open objects; the keys of a frame start at its base
}

// frame is one open object or array.
type frame struct {
	object bool
	index  int    // of the current item of an array
	named  bool   // the name of the current field has been read
	key    string // the name of the current field
	base   int
	seen   *hashSet // replaces keys from hashFrom fields on
}

// hashFrom is the minimum number of fields for which a hash set finds duplicates faster than a
// linear search.
const hashFrom = 16

func (s *scanner) check() error {
	if strings.HasPrefix(s.text, "\uFEFF") {
		return s.refuse("the text starts with a byte order mark; remove it")
	}
	if err := s.value(); err != nil {
		return err
	}
	for len(s.frames) > 0 {
		if err := s.next(); err != nil {
			return err
		}
	}
	s.skip()
	if s.at < len(s.text) {
		return s.refuse("there is text after the JSON value")
	}
	return nil
}

// value scans a scalar, or enters an object or array.
func (s *scanner) value() error {
	s.skip()
	switch c := s.peek(); {
	case c == '{' || c == '[':
		return s.open(c == '{')
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(s.text[s.at:], word) {
			s.at += len(word)
			return nil
		}
	}
	if s.at >= len(s.text) {
		return s.refuse("the JSON text is incomplete")
	}
	return s.refuse("this is not JSON (byte %d)", s.at)
}

// open enters an object or array and scans its first element, if any.
func (s *scanner) open(object bool) error {
	if len(s.frames) == MaxDepth {
		return s.refuse("nesting is deeper than %d", MaxDepth)
	}
	s.at++
	s.frames = append(s.frames, frame{object: object, base: len(s.keys)})
	s.skip()
	if s.peek() == s.closer() {
		s.leave()
		return nil
	}
	return s.element()
}

// next continues after an element: with the next element, or after the object or array.
func (s *scanner) next() error {
	s.skip()
	top := &s.frames[len(s.frames)-1]
	switch s.peek() {
	case s.closer():
		s.leave()
		return nil
	case ',':
		s.at++
		top.index++
		return s.element()
	}
	if s.at >= len(s.text) {
		return s.refuse("the JSON text is incomplete")
	}
	return s.refuse("this is not JSON (byte %d)", s.at)
}

// element scans one field of the open object, or one item of the open array.
func (s *scanner) element() error {
	if s.elements++; s.elements > MaxElements {
		return s.refuse("there are more than %d values", MaxElements)
	}
	top := &s.frames[len(s.frames)-1]
	if !top.object {
		return s.value()
	}
	top.named = false
	s.skip()
	if s.peek() != '"' {
		return s.refuse("a field must start with its name in quotation marks (byte %d)", s.at)
	}
	key, err := s.str()
	if err != nil {
		return err
	}
	if len(key) > MaxKey {
		return s.refuse("the name of a field is longer than %d bytes", MaxKey)
	}
	top.named, top.key = true, key
	if !s.addKey(top, key) {
		return s.refuse("the object has this field twice")
	}
	s.skip()
	if s.peek() != ':' {
		return s.refuse("a colon is missing after the name of a field (byte %d)", s.at)
	}
	s.at++
	return s.value()
}

// addKey adds key to the open object and reports whether it is new.
func (s *scanner) addKey(top *frame, key string) bool {
	if top.seen != nil {
		return top.seen.add(key)
	}
	own := s.keys[top.base:]
	if slices.Contains(own, key) {
		return false
	}
	s.keys = append(s.keys, key)
	if len(own)+1 == hashFrom {
		top.seen = newHashSet()
		for _, other := range s.keys[top.base:] {
			top.seen.add(other)
		}
	}
	return true
}

func (s *scanner) leave() {
	s.at++
	last := len(s.frames) - 1
	s.keys = s.keys[:s.frames[last].base]
	s.frames = s.frames[:last]
}

func (s *scanner) closer() byte {
	if s.frames[len(s.frames)-1].object {
		return '}'
	}
	return ']'
}

// peek returns the current byte, or 0 at the end. A NUL in the document itself is never valid either.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) skip() {
	for s.at < len(s.text) && space(s.text[s.at]) {
		s.at++
	}
}

func (s *scanner) refuse(format string, args ...any) error {
	if at := s.pointer(); at != "" {
		return fault.InvalidAt(at, format, args...)
	}
	return fault.Invalid("", format, args...)
}

// pointer returns the JSON pointer (RFC 6901) of the current value, or of an ancestor if the
// pointer would be too long.
func (s *scanner) pointer() string {
	var way strings.Builder
	for _, f := range s.frames {
		step := strconv.Itoa(f.index)
		if f.object {
			if !f.named {
				break
			}
			step = fault.EscapeToken(f.key)
		}
		if way.Len()+1+len(step) > maxPointer || !utf8.ValidString(step) {
			break
		}
		way.WriteByte('/')
		way.WriteString(step)
	}
	return way.String()
}
