package portal

import (
	"bytes"
	"fmt"
	"html"
	htmltemplate "html/template"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	htmlrenderer "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// heading is a section of a page.
type heading struct {
	Level    int
	ID, Text string
}

// markdown returns the renderer of guides. Guides are trusted, so their HTML is kept.
var markdown = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithAttribute()),
		goldmark.WithRendererOptions(htmlrenderer.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))),
	)
})

func renderMarkdown(source []byte) (htmltemplate.HTML, []heading, error) {
	document := markdown().Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{}))))
	var headings []heading
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		if h, ok := node.(*ast.Heading); ok && h.Level > 1 {
			headings = append(headings, heading{h.Level, anchorOf(h), plain(h, source)})
		}
	}
	var out bytes.Buffer
	if err := markdown().Renderer().Render(&out, source, document); err != nil {
		return "", nil, err
	}
	return htmltemplate.HTML(out.String()), headings, nil
}

// prose returns Markdown of the OpenAPI document as HTML.
func prose(source string) (htmltemplate.HTML, error) {
	body, _, err := renderMarkdown([]byte(source))
	return body, err
}

// plainText returns the text of Markdown without formatting, for lists that show it as it is.
func plainText(source string) string {
	return plain(markdown().Parser().Parse(text.NewReader([]byte(source))), []byte(source))
}

// plain returns the text of a node without formatting.
func plain(node ast.Node, source []byte) string {
	var out strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.Text:
			out.Write(child.Segment.Value(source))
		default:
			out.WriteString(plain(child, source))
		}
	}
	return out.String()
}

func anchorOf(h *ast.Heading) string {
	id, _ := h.AttributeString("id")
	name, _ := id.([]byte)
	return string(name)
}

// anchors derives anchors from titles: a code is its own anchor, and any other title becomes lower
// case with hyphens.
type anchors struct{ taken []string }

var (
	codeName = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)
	noWord   = regexp.MustCompile(`[^a-z0-9]+`)
)

func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := section(string(value))
	id := name
	for n := 2; slices.Contains(a.taken, id); n++ {
		id = fmt.Sprintf("%s-%d", name, n)
	}
	a.taken = append(a.taken, id)
	return []byte(id)
}

// section returns the anchor for a title.
func section(title string) string {
	title = strings.Trim(title, "` \n")
	if codeName.MatchString(title) {
		return title
	}
	return strings.Trim(noWord.ReplaceAllString(strings.ToLower(title), "-"), "-")
}

func (a *anchors) Put(value []byte) { a.taken = append(a.taken, string(value)) }

// blocks renders headings with a link, and highlighted code with a title or in tabs.
type blocks struct{}

func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, renderHeading)
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(tables.KindTable, renderTable)
}

// renderTable renders a table in a box that scrolls, so that a wide table is not cut. The keyboard
// reaches the box.
func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<div class="scroll" tabindex="0"><table>` + "\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// breakable returns a name as HTML with line break opportunities after underscores. Otherwise a
// long name such as DECODE_EVM_FUNCTION_RESULT could overflow its table cell. Names in running
// text don't need it, because they can move to the next line.
func breakable(name string) htmltemplate.HTML {
	return htmltemplate.HTML(strings.ReplaceAll(html.EscapeString(name), "_", "_<wbr>"))
}

func renderHeading(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	h := node.(*ast.Heading)
	id := html.EscapeString(anchorOf(h))
	switch {
	case entering:
		fmt.Fprintf(w, `<h%d id="%s">`, h.Level, id)
	case h.Level == 1 || h.Level == 4: // a heading of level 4 is the summary of an entry, which can't contain a link
		fmt.Fprintf(w, "</h%d>\n", h.Level)
	default:
		fmt.Fprintf(w, `<a class="anchor" href="#%s" aria-label="Link to this section">#</a></h%d>`+"\n", id, h.Level)
	}
	return ast.WalkContinue, nil
}

var infoWords = regexp.MustCompile(`(\w+)="([^"]*)"`)

// infoOf returns the info string of a fenced code block: the language, and the attributes
// title, run and tab. Adjacent blocks with a tab are shown as tabs.
func infoOf(node ast.Node, source []byte) (language string, words map[string]string) {
	block, ok := node.(*ast.FencedCodeBlock)
	if !ok || block.Info == nil {
		return "", nil
	}
	info := string(block.Info.Segment.Value(source))
	language, _, _ = strings.Cut(info, " ")
	words = map[string]string{}
	for _, match := range infoWords.FindAllStringSubmatch(info, -1) {
		words[match[1]] = match[2]
	}
	return language, words
}

func renderCode(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language, words := infoOf(node, source)
	var code strings.Builder
	for i := range node.Lines().Len() {
		line := node.Lines().At(i)
		code.Write(line.Value(source))
	}
	box := codeBox(language, words["title"], words["run"], code.String())
	tab := words["tab"]
	if tab == "" {
		_, err := w.WriteString(box)
		return ast.WalkSkipChildren, err
	}
	first := node
	for before(first, source) != nil {
		first = before(first, source)
	}
	group, checked := fmt.Sprintf("tabs-%d", first.Lines().At(0).Start), ""
	if first == node {
		checked = " checked"
		_, _ = w.WriteString(`<div class="tabs">` + "\n")
	}
	id := group + "-" + strings.Trim(noWord.ReplaceAllString(strings.ToLower(tab), "-"), "-")
	fmt.Fprintf(w, `<input type="radio" name="%s" id="%s"%s><label for="%s">%s</label>`+"\n%s", group, id, checked, id, html.EscapeString(tab), box)
	if next := node.NextSibling(); next == nil || tabOf(next, source) == "" {
		_, _ = w.WriteString("</div>\n")
	}
	return ast.WalkSkipChildren, nil
}

// before returns the previous code block in the same group of tabs, or nil.
func before(node ast.Node, source []byte) ast.Node {
	if previous := node.PreviousSibling(); previous != nil && tabOf(previous, source) != "" {
		return previous
	}
	return nil
}

func tabOf(node ast.Node, source []byte) string {
	_, words := infoOf(node, source)
	return words["tab"]
}

// languages are the names of the languages of code.
var languages = map[string]string{
	"sh": "Shell", "console": "Terminal", "json": "JSON", "yaml": "YAML", "python": "Python", "go": "Go", "js": "JavaScript",
	"ts": "TypeScript", "java": "Java", "http": "HTTP", "sql": "SQL", "nginx": "nginx", "haproxy": "HAProxy", "ini": "INI", "perl": "Perl",
}

// codeBox returns code as HTML, below a line with its title, or with its language if it has none,
// and the command that runs it. The button that copies the code is on this line, so it never
// covers code.
func codeBox(language, title, run, code string) string {
	if title == "" {
		title = languages[language]
	}
	if title == "" {
		title = "Text"
	}
	title = html.EscapeString(title)
	if run != "" {
		title += ` <code class="run">` + html.EscapeString(run) + "</code>"
	}
	return fmt.Sprintf(`<div class="code" data-language="%s"><p>%s</p><pre tabindex="0"><code>%s</code></pre></div>`+"\n", html.EscapeString(language), title, highlight(language, code))
}
