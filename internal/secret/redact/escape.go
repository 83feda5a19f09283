package redact

import (
	"bytes"
	"html"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unescaped returns a string without one layer of escapes, which is shorter, or the text itself
// if it has no escapes. places are the original offsets of the text's bytes and of its end. If
// places isn't nil, unescaped also returns the offsets for the result.
func unescaped(text []byte, places []int) (plain []byte, of []int) {
	first := len(text)
	for _, mark := range []byte(`\%&`) {
		if earlier := bytes.IndexByte(text[:first], mark); earlier >= 0 {
			first = earlier
		}
	}
	if first == len(text) {
		return text, places
	}
	plain = append(make([]byte, 0, len(text)), text[:first]...)
	if places != nil {
		of = append(make([]int, 0, len(places)), places[:first]...)
	}
	for at := first; at < len(text); {
		var taken int
		switch text[at] {
		case '\\':
			plain, taken = afterBackslash(plain, text[at:])
		case '%':
			plain, taken = numbered(plain, text[at:], 1, 2)
		case '&':
			plain, taken = entity(plain, text[at:])
		}
		if taken == 0 {
			plain, taken = append(plain, text[at]), 1
		}
		for places != nil && len(of) < len(plain) {
			of = append(of, places[at])
		}
		at += taken
	}
	if places != nil {
		of = append(of, places[len(text)])
	}
	return plain, of
}

// letters are the escapes of one letter that stand for a different character.
var letters = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', 'v': '\v', 'a': '\a'}

// afterBackslash appends the character of an escape in JSON or in a language with similar strings.
// It returns the length of the escape, or 0 if text does not start with one.
func afterBackslash(plain, text []byte) ([]byte, int) {
	if len(text) < 2 {
		return plain, 0
	}
	switch letter := text[1]; letter {
	case 'x':
		return numbered(plain, text, 2, 2)
	case 'u':
		unit, ok := hexadecimal(text, 2, 4)
		if !ok {
			return plain, 0
		}
		if second, ok := hexadecimal(text, 8, 4); ok && bytes.HasPrefix(text[6:], []byte(`\u`)) {
			if r := utf16.DecodeRune(rune(unit), rune(second)); r != utf8.RuneError {
				return utf8.AppendRune(plain, r), 12
			}
		}
		return utf8.AppendRune(plain, rune(unit)), 6
	default:
		if stands, ok := letters[letter]; ok {
			letter = stands
		}
		return append(plain, letter), 2
	}
}

// numbered appends the byte that so many hexadecimal digits give after so many bytes.
func numbered(plain, text []byte, after, digits int) ([]byte, int) {
	value, ok := hexadecimal(text, after, digits)
	if !ok {
		return plain, 0
	}
	return append(plain, byte(value)), after + digits
}

func hexadecimal(text []byte, after, digits int) (value uint64, ok bool) {
	if len(text) < after+digits {
		return 0, false
	}
	value, err := strconv.ParseUint(string(text[after:after+digits]), 16, 32)
	return value, err == nil
}

// maxEntity is the maximum length of an entity that stands for a character of a secret.
const maxEntity = 10

func entity(plain, text []byte) ([]byte, int) {
	end := bytes.IndexByte(text[:min(len(text), maxEntity)], ';')
	if end < 0 {
		return plain, 0
	}
	written := string(text[:end+1])
	stands := html.UnescapeString(written)
	if len(stands) >= len(written) {
		return plain, 0
	}
	return append(plain, stands...), end + 1
}
