package cli

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/web/catalog"
)

var (
	//go:embed completion/weft.bash
	bashScript string
	//go:embed completion/weft.zsh
	zshScript string
	//go:embed completion/weft.fish
	fishScript string
)

// completionCommand prints the script that makes a shell call completeCommand.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

func (c *completionCommand) Run(s *session) error {
	_, err := io.WriteString(s.stdout, map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell])
	return err
}

// completeCommand is called by the scripts. The script for bash passes bash's word breaks and the
// line up to the cursor. The other scripts pass the words after the program's name. The last word
// is the one being completed.
type completeCommand struct {
	Shell string   `arg:"" enum:"bash,zsh,fish"`
	Words []string `arg:"" optional:""`
}

func (c *completeCommand) Run(s *session) error {
	parser, err := newParser(s, &commands{})
	if err != nil {
		return err
	}
	words, cut := c.Words, 0
	if c.Shell == "bash" && len(words) == 2 {
		words, cut = bashWords(words[1], words[0])
	}
	if len(words) == 0 {
		return nil
	}
	last := len(words) - 1
	if c.Shell != "bash" { // these pass the word with its opening quote
		words[last] = strings.TrimLeft(words[last], `"'`)
	}
	for _, found := range (&completer{offeredFunc: ownModules}).complete(parser.Model.Node, words[:last], words[last]) {
		line := found.text
		if c.Shell == "bash" {
			line = line[min(cut, len(line)):]
		} else {
			line += "\t" + printable(catalog.FirstSentence(found.help))
		}
		if _, err := fmt.Fprintln(s.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// ownModules returns the components of this program.
func ownModules() []api.Component {
	own, err := ownCatalogue()
	if err != nil {
		return nil // a shell ignores errors
	}
	return own.All()
}

// candidate is a possible completion of a word.
type candidate struct{ text, help string }

// completer finds candidates in the grammar and in the schemas of components.
type completer struct {
	offeredFunc func() []api.Component

	given   []string // complete arguments of the command
	pending *kong.Flag
	dashed  bool // after --, nothing is a flag
}

// complete returns the candidates for current, after these words. Most values have no candidates, so
// the shell completes file names.
func (c *completer) complete(root *kong.Node, words []string, current string) []candidate {
	node := root
	for _, word := range words {
		node = c.step(node, word)
	}
	var all []candidate
	switch {
	case c.pending != nil:
		all = values(c.pending.Value, "")
	case !c.dashed && strings.HasPrefix(current, "-"):
		if name, _, ok := strings.Cut(current, "="); ok {
			if flag := find(node, name); flag != nil {
				all = values(flag.Value, name+"=")
			}
			break
		}
		all = flags(node)
	case len(node.Children) > 0:
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, candidate{child.Name, child.Help})
			}
		}
	default:
		all = c.argument(node, current)
	}
	return slices.DeleteFunc(all, func(one candidate) bool { return !strings.HasPrefix(one.text, current) })
}

// step processes one complete word.
func (c *completer) step(node *kong.Node, word string) *kong.Node {
	switch {
	case c.pending != nil:
		c.pending = nil
	case c.dashed:
		c.given = append(c.given, word)
	case word == "--":
		c.dashed = true
	case len(word) > 1 && word[0] == '-':
		name, _, whole := strings.Cut(word, "=")
		if flag := find(node, name); flag != nil && !whole && !flag.IsBool() && !flag.IsCounter() {
			c.pending = flag
		}
	default:
		for _, child := range node.Children {
			if child.Name == word || slices.Contains(child.Aliases, word) {
				return child
			}
		}
		c.given = append(c.given, word)
	}
	return node
}

func find(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if "--"+flag.Name == name || flag.Short != 0 && "-"+string(flag.Short) == name {
				return flag
			}
		}
	}
	return nil
}

func flags(node *kong.Node) []candidate {
	var all []candidate
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			all = append(all, candidate{"--" + flag.Name, flag.Help})
			if flag.Tag.Negatable != "" {
				all = append(all, candidate{"--no-" + flag.Name, flag.Help})
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return strings.Compare(a.text, b.text) })
	return all
}

// values returns the values of a flag or an argument that accepts only these.
func values(value *kong.Value, before string) []candidate {
	var all []candidate
	for _, one := range value.EnumSlice() {
		if one != "" {
			all = append(all, candidate{before + one, ""})
		}
	}
	return all
}

// argument returns candidates for the next argument: a component and its fields if the command
// accepts a component, else the argument's values.
func (c *completer) argument(node *kong.Node, current string) []candidate {
	at := len(c.given)
	switch path := node.Path(); {
	case (path == "call" || path == "components get") && at == 0:
		var all []candidate
		for _, one := range c.offeredFunc() {
			if path != "call" || slices.Contains(one.ExecutionModes, api.ExecutionModeCOMPONENT) {
				all = append(all, candidate{one.Module, one.Description})
			}
		}
		return all
	case path == "call":
		return c.fields(current)
	case at < len(node.Positional):
		return values(node.Positional[at], "")
	}
	return nil
}

// fields returns the component's fields that are not set yet, or the values of the field that is
// being set.
func (c *completer) fields(current string) []candidate {
	offered := c.offeredFunc()
	i := slices.IndexFunc(offered, func(one api.Component) bool { return one.Module == c.given[0] })
	if i < 0 {
		return nil
	}
	taken, err := newForms(offered[i])
	if err != nil {
		return nil
	}
	if name, _, ok := strings.Cut(current, "="); ok {
		return taken.values(name)
	}
	set := map[string]bool{}
	for _, word := range c.given[1:] {
		name, _, _ := strings.Cut(word, "=")
		set[name] = true
	}
	return slices.DeleteFunc(taken.candidates(), func(one candidate) bool { return set[strings.TrimSuffix(one.text, "=")] })
}

// candidates returns prefixes that set fields, including nested fields.
func (f forms) candidates() []candidate {
	all := f.input.candidates("")
	for _, one := range f.config.candidates("") {
		if name, _, _ := strings.Cut(one.text, "="); f.input.named(strings.SplitN(name, ".", 2)[0]) {
			one.text = catalog.ConfigPrefix + one.text
		}
		all = append(all, one)
	}
	return all
}

func (f form) candidates(before string) []candidate {
	var all []candidate
	for _, field := range f.fields {
		if len(field.Fields) > 0 && slices.Equal(field.Kinds, []string{"object"}) {
			all = append(all, form{fields: field.Fields}.candidates(before+field.Name+".")...)
			continue
		}
		all = append(all, candidate{before + field.Name + "=", field.Description})
	}
	return all
}

// values returns the values of a field that accepts only these.
func (f forms) values(name string) []candidate {
	rest, inConfig := f.place(name)
	part := f.input
	if inConfig {
		part = f.config
	}
	field, known := part.find(rest)
	for head, tail, nested := strings.Cut(rest, "."); nested && part.named(head); head, tail, nested = strings.Cut(tail, ".") {
		outer, _ := part.find(head)
		part = form{outer.Fields, outer.Values}
		field, known = part.find(tail)
	}
	var all []candidate
	switch {
	case !known:
	case len(field.Enum) > 0:
		for _, value := range field.Enum {
			all = append(all, candidate{name + "=" + field.Write(value), field.Description})
		}
	case slices.Equal(field.Kinds, []string{"boolean"}):
		all = append(all, candidate{name + "=true", ""}, candidate{name + "=false", ""})
	}
	return all
}

// bashWords splits a bash command line, without the program's name. The last word is the one being
// completed. cut is the length of the last word's prefix that bash does not replace, because bash
// breaks words at more characters than spaces.
func bashWords(line, breaks string) (words []string, cut int) {
	var word strings.Builder
	var quote rune
	some, escaped, quoted := false, false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, some = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, some, quoted = r, true, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if some {
				words = append(words, word.String())
			}
			word.Reset()
			some, quoted = false, false
		default:
			word.WriteRune(r)
			some = true
		}
	}
	if len(words) == 0 {
		return nil, 0
	}
	current := word.String()
	if !quoted {
		cut = strings.LastIndexFunc(current, func(r rune) bool { return (r == '=' || r == ':') && strings.ContainsRune(breaks, r) }) + 1
	}
	return append(words[1:], current), cut
}
