package expression

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"

	"github.com/weft-automation/weft/internal/kit/reference"
)

// Code is the stable name of a kind of error.
type Code string

// The codes of an Error.
const (
	Syntax       Code = "SYNTAX"        // the expression is invalid
	UnknownName  Code = "UNKNOWN_NAME"  // unknown value or function
	WrongType    Code = "WRONG_TYPE"    // wrong type of value for an operator or a function
	OutOfRange   Code = "OUT_OF_RANGE"  // a number or an index is out of range
	TooExpensive Code = "TOO_EXPENSIVE" // the budget of steps or memory is exceeded
	NotJSON      Code = "NOT_JSON"      // the result can't be encoded as JSON
	MissingValue Code = "MISSING_VALUE" // a path has no value
)

// Error explains why an expression can't be compiled or evaluated. Messages can contain names of
// values, but not values.
type Error struct {
	Code         Code
	Message      string
	Line, Column int // position in the expression, from 1
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// at returns an error for a position in the text, counted in characters.
func at(text string, from int, code Code, format string, args ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, args...), Line: 1, Column: 1}
	for _, char := range text {
		if from--; from < 0 {
			break
		}
		e.Column++
		if char == '\n' {
			e.Line, e.Column = e.Line+1, 1
		}
	}
	return e
}

// parse parses the text into a syntax tree.
func parse(text string) (root ast.Node, err error) {
	defer func() {
		if recover() != nil {
			root, err = nil, at(text, 0, Syntax, "this is not a valid expression")
		}
	}()
	tree, err := parser.ParseWithConfig(text, &conf.Config{MaxNodes: maxNodes})
	if err == nil {
		return tree.Node, nil
	}
	fault, ok := errors.AsType[*file.Error](err)
	if !ok {
		return nil, at(text, 0, Syntax, "this is not a valid expression")
	}
	if foreign := foreignSyntax(text); foreign != nil {
		return nil, foreign
	}
	return nil, explain(text, fault)
}

// wordings maps the parser's messages to our own messages. The parser's messages can contain
// literals of the expression, which can come from substituted secrets.
var wordings = []struct{ theirs, ours string }{
	{"literal not terminated", "a string is not closed: expected its closing quotation mark"},
	{"unclosed comment", "a comment is not closed: expected */"},
	{"invalid char escape", "invalid escape sequence in a string"},
	{"unable to unescape", "invalid escape sequence in a string"},
	{"unrecognized character", "this character has no meaning here"},
	{"bad number syntax", "this is not a number"},
	{"literal: strconv", "this number is out of range: expected one of at most 64 bits"},
	{"literal is too large", "this number is out of range: expected one of at most 64 bits"},
	{"coalesce expressions", "?? cannot be mixed with another operator: expected parentheses around one of them"},
	{"a map key must be", "expected a field name: a name, a string, or an expression in parentheses"},
	{"expected name", "expected a field name after the dot"},
	{"wrap predicate", "expected { and } around a predicate of several parts"},
	{"expected at least", "expected more arguments"},
	{"unexpected end", "the expression ends too early"},
}

func explain(text string, fault *file.Error) *Error {
	if strings.Contains(fault.Message, "maximum allowed nodes") {
		return at(text, fault.From, TooExpensive, "the expression has more than %d parts", maxNodes)
	}
	for _, wording := range wordings {
		if strings.Contains(fault.Message, wording.theirs) {
			return at(text, fault.From, Syntax, "%s", wording.ours)
		}
	}
	if strings.Contains(fault.Message, "token EOF") {
		return at(text, utf8.RuneCountInString(text), Syntax, "the expression ends too early: expected %s", expected(text, math.MaxInt))
	}
	what := found(text, fault.From)
	if what == ":" {
		return at(text, fault.From, Syntax, "unexpected colon: expected %s; an object as the result of a predicate needs its own braces: {{name: value}}", expected(text, fault.From))
	}
	return at(text, fault.From, Syntax, "unexpected %s: expected %s", what, expected(text, fault.From))
}

// expected describes what can follow at a position, according to the tokens before it.
func expected(text string, from int) string {
	what, open := "a value", []string{}
	for _, token := range tokens(text, 0, from) {
		what = "a value"
		switch {
		case token.Is(lexer.Bracket, "(", "[", "{"):
			open = append(open, token.Value)
		case token.Kind == lexer.Bracket:
			open = open[:max(0, len(open)-1)]
			what = "an operator"
		case token.Kind != lexer.Operator:
			what = "an operator"
		}
	}
	if len(open) > 0 {
		return what + " or " + map[string]string{"(": ")", "[": "]", "{": "}"}[open[len(open)-1]]
	}
	if what == "an operator" {
		return what + " or the end"
	}
	return what
}

// found describes the token at a position, without the value of a literal.
func found(text string, from int) string {
	rest := tokens(text, from, math.MaxInt)
	switch {
	case len(rest) == 0:
		return "end"
	case rest[0].Kind == lexer.String || rest[0].Kind == lexer.Bytes:
		return "string"
	case rest[0].Kind == lexer.Number:
		return "number"
	case len(rest[0].Value) <= 32:
		return rest[0].Value
	}
	return "name"
}

// tokens returns the tokens that start between two positions.
func tokens(text string, from, to int) []lexer.Token {
	all, err := lexer.Lex(file.NewSource(text))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(token lexer.Token) bool {
		return token.Kind == lexer.EOF || token.From < from || token.From >= to
	})
}

// foreign are forms of JavaScript, Python and Jinja that are not valid here, and what to write instead.
var foreign = []struct {
	pattern *regexp.Regexp // its first group is the form
	advice  string
}{
	{regexp.MustCompile(`(===)`), "write == instead of ==="},
	{regexp.MustCompile(`(!==)`), "write != instead of !=="},
	{regexp.MustCompile(`(<>)`), "write != instead of <>"},
	{regexp.MustCompile(`(=>)`), "there are no arrow functions: write a predicate, as in map(list, .name) or filter(list, # > 1)"},
	{regexp.MustCompile(`\b(lambda)\b`), "there is no lambda: write a predicate, as in map(list, .name) or filter(list, # > 1)"},
	{regexp.MustCompile(`\b(and\s+then|or\s+else)\b`), "write only and, or or: the right side is evaluated only if it is needed"},
	{regexp.MustCompile(`\b(is\s+not|is)\s+(?:nil|null|None|defined|empty)\b`), "write == nil or != nil instead of is"},
	{regexp.MustCompile(`[\w)\]]\s+(if)\s`), "write condition ? value : other instead of value if condition else other"},
	{regexp.MustCompile(`\s(for)\s+\w+\s+in\s`), "there is no for: write map(list, .name) or filter(list, # > 1)"},
	{regexp.MustCompile(`^\s*(if|return|function|var|const|def|import)\s`), "an expression has no statements: write condition ? value : other, or let name = value; result"},
	{regexp.MustCompile("(`)[^`]*\\$\\{"), "strings have no ${…}: write \"text \" + name"},
	{regexp.MustCompile(`\b(f)["']`), "there are no f-strings: write \"text \" + name"},
	{regexp.MustCompile(`(\$\.|\$\()`), "there is no $: write the name of the value, as in start.amount"},
	{regexp.MustCompile(`(\+\+|\+=|-=)`), "values do not change: write + 1, or let name = value; result"},
}

// foreignMembers are methods and properties of other languages, and what this one has instead.
var foreignMembers = map[string]string{
	"length": "len(value)", "toUpperCase": "upper(text)", "toLowerCase": "lower(text)", "includes": "value in list, or text contains part",
	"startsWith": "text startsWith part", "startswith": "text startsWith part", "endsWith": "text endsWith part", "endswith": "text endsWith part",
	"toString": "string(value)", "push": "concat(list, [value])", "append": "concat(list, [value])", "slice": "value[1:3]", "substring": "text[1:3]",
	"strip": "trim(text)", "format": "text + text", "items": "toPairs(object)", "map": "map(list, .name)", "filter": "filter(list, # > 1)",
	"find": "find(list, # > 1)", "join": "join(list, separator)", "split": "split(text, separator)", "trim": "trim(text)", "replace": "replace(text, old, new)",
	"upper": "upper(text)", "lower": "lower(text)", "get": "object.name ?? value", "keys": "keys(object)", "values": "values(object)", "toFixed": "fixed(number, digits)",
	"now": "now()", "today": "now()", "utcnow": "now()", "reduce": "sum(list), or reduce(list, #acc + #)", "strftime": "format(time, layout)",
}

// foreignFunctions are functions of other languages, and what this one has instead.
var foreignFunctions = map[string]string{
	"str": "string(value)", "String": "string(value)", "Number": "float(text)", "parseInt": "int(text)", "parseFloat": "float(text)", "size": "len(value)", "length": "len(value)",
	"isinstance": "type(value)", "sorted": "sort(list)", "reversed": "reverse(list)", "range": "1..10", "dict": "{name: value}", "list": "[value]", "Date": "date(text)",
	"tojson": "toJSON(value)", "default": "value ?? other", "defined": "value != nil",
}

// foreignNames are names of other languages, and what this one has instead.
var foreignNames = map[string]string{
	"null": "nil", "NULL": "nil", "Null": "nil", "None": "nil", "none": "nil", "undefined": "nil",
	"True": "true", "TRUE": "true", "False": "false", "FALSE": "false",
	"secrets": "env", "vars": "env", "process": "env",
}

// Foreign returns what to write instead of a name of another language, or "" if the name is not known
// to be one.
func Foreign(name string) (instead string) { return foreignNames[name] }

// IsWord reports whether a name is an operator or a literal of the language, so that no expression can
// read an input with this name.
func IsWord(name string) bool { return reference.IsReserved(name) }

// literals matches strings and comments, in which nothing is foreign.
var literals = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|/\\*(?s:.*?)\\*/|//.*")

// foreignSyntax returns an error for a form of another language in an expression that cannot be parsed.
func foreignSyntax(text string) *Error {
	blank := literals.ReplaceAllStringFunc(text, func(found string) string {
		return found[:1] + strings.Repeat("_", len(found)-2) + found[len(found)-1:]
	})
	for _, form := range foreign {
		if place := form.pattern.FindStringSubmatchIndex(blank); place != nil {
			return at(text, utf8.RuneCountInString(text[:place[2]]), Syntax, "%s", form.advice)
		}
	}
	return nil
}
