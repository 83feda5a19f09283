// Command prose reports phrases that the writing style replaces, in Go comments and strings,
// OpenAPI and other YAML, SQL comments and Markdown.
//
//	go run ./internal/program/prose [PATH...]
//
// It runs in the root of the repository and checks the given files and folders, or everything.
// To name a phrase, write it as a code span or alone in quotation marks.
// The rules are the lines of rules.txt, whose columns are separated by tabs: a regular
// expression, what to write instead, an example, and optionally where the phrase is right.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed rules.txt
var table string

// rule is a phrase to avoid.
type rule struct {
	phrase           *regexp.Regexp
	instead, example string
	unless           *regexp.Regexp // matches where the phrase is right; may be nil
}

// rulebook is all rules, and one expression that matches the phrases of any.
type rulebook struct {
	rules []rule
	any   *regexp.Regexp
}

// compile returns a case-insensitive expression of whole words, between which a line may break.
func compile(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(pattern, " ", `(?:[ \t]+|[ \t]*\n[ \t]*)`) + `)\b`)
}

func newRulebook() rulebook {
	b, patterns := rulebook{}, []string{}
	for line := range strings.Lines(table) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		patterns = append(patterns, columns[0])
		one := rule{phrase: compile(columns[0]), instead: columns[1], example: columns[2]}
		if len(columns) > 3 {
			one.unless = compile(columns[3])
		}
		b.rules = append(b.rules, one)
	}
	b.any = compile(strings.Join(patterns, "|"))
	return b
}

// check returns the findings in a file, a line of text each. The name decides what is prose.
func (b rulebook) check(name, source string) ([]string, error) {
	prose, err := proseOf(name, source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var found []string
	from := 0
	for text := range bytes.SplitSeq(prose, []byte{0}) {
		for _, at := range b.any.FindAllIndex(text, -1) {
			if instead := b.instead(text, at); instead != "" {
				line := 1 + strings.Count(source[:from+at[0]], "\n")
				found = append(found, fmt.Sprintf("%s:%d: %s -> %s", name, line, bytes.Join(bytes.Fields(text[at[0]:at[1]]), []byte(" ")), instead))
			}
		}
		from += len(text) + 1
	}
	return found, nil
}

// instead returns what to write instead of a phrase. It returns "" if the phrase is alone in
// quotation marks or the rule allows this use.
func (b rulebook) instead(text []byte, at []int) string {
	if at[0] > 0 && at[1] < len(text) && strings.IndexByte(`"'`, text[at[0]-1]) >= 0 && text[at[0]-1] == text[at[1]] {
		return ""
	}
	phrase := text[at[0]:at[1]]
	r := b.rules[slices.IndexFunc(b.rules, func(r rule) bool { return len(r.phrase.Find(phrase)) == len(phrase) })]
	if r.unless != nil && slices.ContainsFunc(r.unless.FindAllIndex(text, -1), func(use []int) bool { return use[0] < at[1] && at[0] < use[1] }) {
		return ""
	}
	return r.instead
}

// released is the last migration that databases may have applied. Databases store the checksums of
// applied migrations, so the text of these migrations can't change.
const released = "0052"

var (
	sqlComment = regexp.MustCompile(`(?m)(?:^[ \t]*--.*\n?)+|--.*$`)
	codeSpan   = regexp.MustCompile("`[^`\n]*`")
	marker     = regexp.MustCompile(`//|/\*|\*/|--|\\[ -~]`) // of comments and escapes, two bytes each
	operator   = regexp.MustCompile(`[^\n]`)                 // between two strings, with their quotes
)

// proseOf returns a copy of a file in which everything but prose is zero, so that offsets stay
// the same. Generated files, copies and released migrations have no prose.
func proseOf(name, source string) ([]byte, error) {
	prose := make([]byte, len(source))
	base := path.Base(name)
	switch path.Ext(name) {
	case ".go":
		if err := copyGo(prose, source); err != nil {
			return nil, err
		}
	case ".sql":
		if path.Base(path.Dir(name)) == "migrations" && base[:min(len(released), len(base))] <= released {
			break
		}
		for _, at := range sqlComment.FindAllStringIndex(source, -1) {
			copy(prose[at[0]:at[1]], source[at[0]:])
		}
	case ".yaml", ".md":
		if base != "CHANGELOG.md" && (base != "openapi.yaml" || name == base) {
			copy(prose, source)
		}
	}
	for _, at := range codeSpan.FindAllIndex(prose, -1) {
		clear(prose[at[0]:at[1]])
	}
	return marker.ReplaceAllLiteral(prose, []byte("  ")), nil
}

// copyGo copies the comments and strings of hand-written Go. It copies all strings, because most
// messages are built by Weft's own functions, and other strings hardly ever match a rule.
func copyGo(prose []byte, source string) error {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(tree) {
		return err
	}
	offset := func(at token.Pos) int { return set.PositionFor(at, false).Offset }
	for _, group := range tree.Comments {
		copy(prose[offset(group.Pos()):offset(group.End())], source[offset(group.Pos()):])
	}
	ast.Inspect(tree, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BasicLit:
			if node.Kind == token.STRING {
				copy(prose[offset(node.Pos())+1:offset(node.End())-1], source[offset(node.Pos())+1:])
			}
		case *ast.BinaryExpr: // "a phrase in " + "two strings"
			from, to := offset(node.X.End())-1, offset(node.Y.Pos())
			if strings.IndexByte("\"`", source[from]) >= 0 && strings.IndexByte("\"`", source[to]) >= 0 {
				copy(prose[from:], operator.ReplaceAllString(source[from:to+1], " "))
			}
		}
		return true
	})
	return nil
}

func main() {
	log.SetFlags(0)
	paths := os.Args[1:]
	if len(paths) == 0 {
		paths = []string{"."}
	}
	book, count := newRulebook(), 0
	for _, root := range paths {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && (entry.Name() == "node_modules" || len(entry.Name()) > 1 && entry.Name()[0] == '.') {
				return filepath.SkipDir
			}
			if err != nil || entry.IsDir() {
				return err
			}
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			found, err := book.check(filepath.ToSlash(filepath.Clean(name)), string(source))
			for _, f := range found {
				fmt.Println(f)
			}
			count += len(found)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if count > 0 {
		log.Fatalf("%d phrases to rewrite", count)
	}
}
