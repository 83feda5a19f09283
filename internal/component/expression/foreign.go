package expression

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

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
}

// foreignFunctions are functions of other languages, and what this one has instead.
var foreignFunctions = map[string]string{
	"str": "string(value)", "String": "string(value)", "Number": "float(text)", "parseInt": "int(text)", "parseFloat": "float(text)", "size": "len(value)", "length": "len(value)",
	"isinstance": "type(value)", "sorted": "sort(list)", "reversed": "reverse(list)", "range": "1..10", "dict": "{name: value}", "list": "[value]", "Date": "date(text)",
	"tojson": "toJSON(value)", "default": "value ?? other", "defined": "value != nil",
}

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
