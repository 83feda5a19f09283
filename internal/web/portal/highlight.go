package portal

import (
	"html"
	"regexp"
	"strings"
	"sync"
)

// grammars returns a regular expression per language. Each alternative is a group that is named
// after the CSS class of its matches. The expressions are compiled when the first page with code is
// rendered.
var grammars = sync.OnceValue(func() map[string]*regexp.Regexp {
	const (
		text   = `(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')`
		raw    = "(?P<string>\"(?:\\\\.|[^\"\\\\\\n])*\"|'(?:\\\\.|[^'\\\\\\n])*'|`[^`]*`)"
		slash  = `(?P<comment>//[^\n]*|/\*[\s\S]*?\*/)`
		number = `(?P<number>\b\d[\d_]*(?:\.\d+)?\b)`
	)
	words := func(list string) string { return `(?P<keyword>\b(?:` + strings.ReplaceAll(list, " ", "|") + `)\b)` }
	script := words("async await break case catch class const continue else export extends finally for from function if import in instanceof interface let new null of private public readonly return static switch this throw try type typeof undefined var void while true false")
	goWords := words("break case chan const continue default defer else fallthrough for func go goto if import interface map nil package range return select struct switch type var true false")
	python := words("and as async await break class continue def del elif else except False finally for from if import in is lambda None not or pass raise return True try while with yield")
	java := words("abstract boolean break byte case catch char class continue default do double else enum extends false final finally float for if implements import instanceof int interface long new null package private protected public record return static String super switch this throw throws true try var void while")
	shell := words("case do done elif else esac exit export fi for function if in local return set shift then trap while")
	all := map[string]*regexp.Regexp{}
	for names, pattern := range map[string]string{
		"go":      slash + "|" + raw + "|" + goWords + "|" + number,
		"js ts":   slash + "|" + raw + "|" + script + "|" + number,
		"java":    slash + "|" + text + "|" + java + "|" + number,
		"python":  `(?P<comment>#[^\n]*)|(?P<string>"""[\s\S]*?"""|[fb]?"(?:\\.|[^"\\\n])*"|[fb]?'(?:\\.|[^'\\\n])*')|` + python + "|" + number,
		"sh":      `(?P<comment>(?:^|\s)#[^\n]*)|(?P<string>"(?:\\[\s\S]|[^"\\])*"|'[^']*')|(?P<variable>\$\{?\w+\}?)|` + shell,
		"console": `(?P<command>^\$ [^\n]*(?:\\\n[^\n]*)*)|(?P<comment>^#[^\n]*)`,
		"json":    `(?P<name>"(?:\\.|[^"\\\n])*")\s*:|(?P<string>"(?:\\.|[^"\\\n])*")|` + words("true false null") + `|(?P<number>-?\b\d+(?:\.\d+)?\b)`,
		"yaml":    `(?P<comment>(?:^|\s)#[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"|'[^'\n]*')|(?P<name>\b[A-Za-z_][\w-]*):(?:\s|$)`,
		"http":    `(?P<keyword>^(?:GET|POST|PUT|PATCH|DELETE|HTTP/1\.1)\b)|(?P<name>^[A-Za-z-]+:)`,
	} {
		compiled := regexp.MustCompile(`(?m)` + pattern)
		for name := range strings.FieldsSeq(names) {
			all[name] = compiled
		}
	}
	return all
})

// highlight returns code as HTML, with tokens in spans.
func highlight(language, code string) string {
	grammar := grammars()[language]
	if grammar == nil {
		return html.EscapeString(code)
	}
	var out strings.Builder
	names, at := grammar.SubexpNames(), 0
	for _, found := range grammar.FindAllStringSubmatchIndex(code, -1) {
		for group := 1; group < len(names); group++ {
			from, to := found[2*group], found[2*group+1]
			if from < 0 {
				continue
			}
			out.WriteString(html.EscapeString(code[at:from]) + `<span class="` + names[group] + `">` + html.EscapeString(code[from:to]) + `</span>`)
			at = to
		}
	}
	return out.String() + html.EscapeString(code[at:])
}
