package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// manual writes a page of section 1 for the program and for each command, from the parser.
func manual(root *kong.Node, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pages := []*kong.Node{root}
	for _, leaf := range root.Leaves(true) {
		pages = append(pages, leaf)
	}
	for _, node := range pages {
		if err := os.WriteFile(filepath.Join(dir, manName(node)+".1"), []byte(manPage(node)), 0o644); err != nil { //nolint:gosec // everybody may read manuals
			return err
		}
	}
	return nil
}

// manName returns the name of a command's page, such as weft-runs-list.
func manName(node *kong.Node) string {
	if node.Type == kong.ApplicationNode {
		return "weft"
	}
	return "weft-" + strings.ReplaceAll(node.Path(), " ", "-")
}

// manPage returns the page of a command in the man macros of troff.
func manPage(node *kong.Node) string {
	var out strings.Builder
	name := manName(node)
	fmt.Fprintf(&out, ".TH %s 1 \"\" Weft\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)), roff(name), roff(strings.TrimSuffix(node.Help, ".")))
	fmt.Fprintf(&out, ".SH SYNOPSIS\n.B weft\n%s\n", roff(strings.TrimPrefix(strings.TrimPrefix(node.Summary(), "weft"), " ")))
	if node.Detail != "" {
		fmt.Fprintf(&out, ".SH DESCRIPTION\n%s\n", roff(node.Detail))
	}
	section := func(title string) { fmt.Fprintf(&out, ".SH %s\n", title) }
	entry := func(term, text string) { fmt.Fprintf(&out, ".TP\n.B %s\n%s\n", roff(term), roff(text)) }
	if node.Type == kong.ApplicationNode {
		section("COMMANDS")
		for _, leaf := range node.Leaves(true) {
			entry(manName(leaf)+"(1)", leaf.Help)
		}
		section("EXIT STATUS")
		for code, meaning := range meanings {
			entry(fmt.Sprint(code), meaning)
		}
	}
	if len(node.Positional) > 0 {
		section("ARGUMENTS")
	}
	for _, one := range node.Positional {
		entry(one.Summary(), one.Help)
	}
	section("OPTIONS")
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			entry(flag.String(), flag.Help)
		}
	}
	if text := examples[node.Path()]; text != "" {
		section("EXAMPLES")
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&out, ".PP\n%s\n", roff("weft "+line))
		}
	}
	return out.String()
}

// control matches the characters that start a request of troff at the start of a line.
var control = regexp.MustCompile(`(?m)^[.']`)

// roff escapes text for troff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "…", "...").Replace(strings.TrimSpace(text))
	return control.ReplaceAllString(text, `\&$0`)
}
