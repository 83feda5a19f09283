package workflowfile

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	yaml "github.com/oasdiff/yaml3"
)

// maxRepairs limits the syntax errors that are reported at once.
const maxRepairs = 20

// maxSearched is the number of lines up to which the line of a syntax error is searched for. The parser's
// own line, often an earlier one, is used for larger files.
const maxSearched = 2000

// mistakes are lines that YAML cannot read, what to write instead, and the correction. The first mistake
// whose correction can be read is reported. Messages have no values, which may be secret.
var mistakes = []struct {
	pattern *regexp.Regexp
	advice  string // $2 is the key with its colon, or the dash of an item
	correct func(parts []string) string
}{
	{regexp.MustCompile(`^([ \t]*\t[ \t]*)()(\S.*)$`), "replace the tab at the start of the line by spaces", func(p []string) string {
		return strings.ReplaceAll(p[1], "\t", "    ") + p[3] // deep enough below two spaces
	}},
	{before(`(\{\{.*\}\}.*)`), `put quotes around a reference in double braces: $2 "{{…}}"`, quoteValue},
	{regexp.MustCompile(`^(.*[{,] *)([A-Za-z0-9_-]+:) +(\{\{[^{}"']*\}\}[^,{}"']*)(.*)$`), `put quotes around a reference in double braces: $2 "{{…}}"`, func(p []string) string {
		return quoteValue(p) + p[4]
	}},
	{before(`(@.*)`), `put quotes around a value that starts with @: $2 "@…"`, quoteValue},
	{before("(`.*)"), "put quotes around a value that starts with a backtick", quoteValue},
	{before(`(%.*)`), `put quotes around a value that starts with %: $2 "%…"`, quoteValue},
	{before(`(\*.*)`), `put quotes around a value that starts with *: $2 "*…"`, quoteValue},
	{before(`([|>][^-+0-9 ].*|[|>] +[^ #].*)`), `put quotes around a value that starts with | or >, or start the text on the next line: $2 "…"`, quoteValue},
	{before(`(- .*)`), "start the list on the next line, or write it in brackets: $2 [a, b]", quoteValue},
	{before(`'(.*'.*)'`), `write an apostrophe inside of single quotes twice, or use double quotes: $2 "…"`, quoteValue},
	{before(`"(.*\\.*)"`), `a backslash in double quotes starts an escape sequence: use single quotes: $2 '…'`, quoteValue},
	{before(`(["'][^"']*)`), "close the quotes of the value", func(p []string) string { return p[1] + p[2] + " " + p[3] + p[3][:1] }},
	{before(`(["'].*["'].+)`), `put quotes around the whole value: $2 '"…" …'`, quoteValue},
	{before(`(\[[^\]]*)`), "close the bracket of the list with ]", func(p []string) string { return p[1] + p[2] + " " + p[3] + "]" }},
	{before(`(\{[^}]*)`), "close the brace of the object with }", func(p []string) string { return p[1] + p[2] + " " + p[3] + "}" }},
	{before(`(\[.*\].+)`), `put quotes around a value that starts with [: $2 "[…"`, quoteValue},
	{before(`([^"'{\[|>&*!].*:( .*)?)`), `put quotes around a value that has a colon followed by a space: $2 "…: …"`, quoteValue},
	{regexp.MustCompile(`^( *)([A-Za-z][A-Za-z0-9_]*:)([^ ].*)$`), "write a space after the colon: $2 …", func(p []string) string { return p[1] + p[2] + " '" + strings.ReplaceAll(p[3], "'", "''") + "'" }},
	{regexp.MustCompile(`^( *)([A-Za-z][A-Za-z0-9_]*)()$`), "write a colon after the name: $2:", func(p []string) string { return p[1] + p[2] + ":" }},
}

// before returns a pattern for a line with a key or a dash before a value.
func before(value string) *regexp.Regexp {
	return regexp.MustCompile(`^(.*?)([A-Za-z0-9_.-]+:|-) +` + value + `$`)
}

func quoteValue(p []string) string {
	return p[1] + p[2] + " '" + strings.ReplaceAll(p[3], "'", "''") + "'"
}

// repair returns the text with corrections of the lines that YAML cannot read, and reports them. If it
// knows no correction for a line, the result cannot be read either.
func (r *reading) repair(text []byte) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	for range maxRepairs {
		line, err := unreadable(lines)
		if err == nil {
			break
		}
		f := Fault{Line: line, Message: "YAML cannot read this line. Check its indentation, quotes and brackets: fields of one object start in the same column"}
		corrected := ""
		if line > 0 && line <= len(lines) {
			f.Message, corrected = correction(lines, line-1, f.Message)
		}
		r.faults = append(r.faults, f)
		if corrected == "" {
			break
		}
		lines[line-1] = corrected
	}
	return []byte(strings.Join(lines, ""))
}

// correction returns what is wrong with a line, and its correction, or the given message and "".
func correction(lines []string, at int, otherwise string) (message, corrected string) {
	line := strings.TrimRight(lines[at], "\r\n")
	end := lines[at][len(line):]
	for _, m := range mistakes {
		parts := m.pattern.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		corrected := m.correct(parts) + end
		changed := append(append([]string{}, lines[:at]...), corrected)
		if err := parses(changed); err == nil {
			return strings.ReplaceAll(m.advice, "$2", parts[2]), corrected
		}
	}
	return otherwise, ""
}

func parses(lines []string) error {
	var node yaml.Node
	return yaml.NewDecoder(bytes.NewReader([]byte(strings.Join(lines, "") + "\n"))).Decode(&node)
}

// parserLine matches the line in a parser's message.
var parserLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

// unreadable returns the line at which the parser fails, from 1, or no error. That is the line after the
// longest start of the text that can be read, because the parser's own line is that of a context.
func unreadable(lines []string) (line int, err error) {
	if err = parses(lines); err == nil || err.Error() == "EOF" {
		return 0, nil
	}
	if len(lines) > maxSearched {
		if found := parserLine.FindStringSubmatch(err.Error()); found != nil {
			line, _ = strconv.Atoi(found[1])
		}
		return line, err
	}
	for line = len(lines); line > 1; line-- {
		if before := parses(lines[:line-1]); before == nil || before.Error() == "EOF" {
			break
		}
	}
	return line, err
}
