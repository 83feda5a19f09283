// Package reference finds references in the strings of a workflow: expressions in double braces, such
// as {{ start.amount }}, and the paths in these expressions that lead to outputs of components,
// variables and facts about the run (decisions 8.17).
//
// It only splits text. Package expression evaluates expressions, and package template fills strings.
package reference

import (
	"slices"
	"strings"
)

// Names of the language, before the dot of a path.
const (
	Env     = "env"
	Run     = "run"
	Outputs = "outputs"
	Now     = "now" // a function: now()
)

// IsName reports whether an ID is a name of the language, so that a reference doesn't mean the
// component with that ID.
func IsName(id string) bool { return slices.Contains([]string{Env, Run, Outputs, Now}, id) }

// Part is a part of a string: text as it stands, or an expression.
type Part struct {
	Text string // without the braces, if IsCode is set
	At   int    // index of Text in the string, in bytes
	// IsCode reports whether the part is an expression. Optional reports whether a question mark
	// follows it, which is not part of Text.
	IsCode   bool
	Optional bool
}

// Malformed is the error for a string with a reference that cannot be read.
type Malformed struct{ Reason string }

func (m *Malformed) Error() string { return m.Reason }

// Parse splits a string into text and expressions. An expression ends at the first }} outside of
// strings and brackets. Parse returns a *Malformed if an expression doesn't end, or is empty.
func Parse(text string) (parts []Part, err error) {
	from := 0
	for {
		open := strings.Index(text[from:], "{{")
		if open < 0 {
			break
		}
		open += from
		if open > from {
			parts = append(parts, Part{Text: text[from:open], At: from})
		}
		length := end(text[open+2:])
		if length < 0 {
			return nil, &Malformed{`a reference is not closed: expected }}. To write two braces as text, write {{ "{{" }}`}
		}
		code := text[open+2 : open+2+length]
		trimmed := strings.TrimSpace(code)
		part := Part{Text: trimmed, At: open + 2 + strings.Index(code, trimmed), IsCode: true}
		if body, optional := strings.CutSuffix(trimmed, "?"); optional && !strings.HasSuffix(body, "?") {
			part.Text, part.Optional = strings.TrimSpace(body), true
		}
		if part.Text == "" {
			return nil, &Malformed{"a reference is empty: expected an expression, such as {{ start.amount }}"}
		}
		parts = append(parts, part)
		from = open + 4 + length
	}
	if from < len(text) || len(parts) == 0 {
		parts = append(parts, Part{Text: text[from:], At: from})
	}
	return parts, nil
}

// end returns the index of the }} that ends an expression, or -1.
func end(code string) int {
	depth := 0
	for i := 0; i < len(code); i++ {
		if next := afterLiteral(code, i); next > i {
			i = next - 1
			continue
		}
		switch code[i] {
		case '(', '[', '{':
			depth++
		case ')', ']':
			depth--
		case '}':
			if depth <= 0 && strings.HasPrefix(code[i:], "}}") {
				return i
			}
			depth--
		}
	}
	return -1
}

// afterLiteral returns the index after the string or comment that starts at an index, or the index
// itself if none starts there. A string or comment that doesn't end extends to the end.
func afterLiteral(code string, at int) int {
	closing := ""
	switch rest := code[at:]; {
	case rest[0] == '\'', rest[0] == '"', rest[0] == '`':
		closing = rest[:1]
	case strings.HasPrefix(rest, "//"):
		closing = "\n"
	case strings.HasPrefix(rest, "/*"):
		closing, at = "*/", at+1
	default:
		return at
	}
	for i := at + 1; i < len(code); i++ {
		switch {
		case code[i] == '\\' && (closing == `"` || closing == "'"):
			i++
		case strings.HasPrefix(code[i:], closing):
			return i + len(closing)
		}
	}
	return len(code)
}

// In reports whether a string contains a reference, so that its value is known only at run time, or
// a reference that cannot be read.
func In(text string) bool { return strings.Contains(text, "{{") }

// Whole returns the expression of a string that consists of one reference.
func Whole(text string) (Part, bool) {
	parts, err := Parse(text)
	if err != nil || len(parts) != 1 || !parts[0].IsCode {
		return Part{}, false
	}
	return parts[0], true
}
