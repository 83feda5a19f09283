package fault

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// EscapeToken returns a name as a token of a JSON pointer (RFC 6901).
func EscapeToken(name string) string { return escaper.Replace(name) }

// UnescapeToken returns the name that a token of a JSON pointer stands for.
func UnescapeToken(token string) string { return unescaper.Replace(token) }

// Tokens returns the names that a JSON pointer consists of.
func Tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		tokens[i] = UnescapeToken(token)
	}
	return tokens
}

// maxPointer is the maximum length of a pointer in an error, in bytes. Callers choose the names
// in a pointer, so a pointer can be long.
const maxPointer = 256

// Pointer returns the JSON pointer of the names below a base, which is also a pointer. It
// truncates a long pointer.
func Pointer(base string, names ...string) string {
	var pointer strings.Builder
	pointer.WriteString(base)
	for _, name := range names {
		pointer.WriteString("/" + EscapeToken(name))
	}
	if pointer.Len() <= maxPointer {
		return pointer.String()
	}
	end := maxPointer
	for !utf8.RuneStart(pointer.String()[end]) {
		end--
	}
	return pointer.String()[:end]
}

// NewDetail returns the INVALID_INPUT detail of one value.
func NewDetail(pointer, message string) Detail {
	return Detail{Code: string(InvalidInput), Message: message, Pointer: pointer}
}

// Quote returns a caller's text for a message. The text is quoted in ASCII, so that look-alikes
// differ, and truncated to the given number of characters.
func Quote(text string, limit int) string {
	short := CutRunes(text, limit)
	word := strconv.QuoteToASCII(strings.ToValidUTF8(short, "\uFFFD"))
	switch {
	case len(word) > 2*limit:
		return word[:2*limit-1] + `"...`
	case len(short) < len(text):
		return word + "..."
	}
	return word
}

// CutRunes returns at most limit characters of text.
func CutRunes(text string, limit int) string {
	count := 0
	for i := range text {
		if count == limit {
			return text[:i]
		}
		count++
	}
	return text
}
