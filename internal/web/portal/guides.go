package portal

import (
	"bytes"
	"embed"
	"fmt"
	htmltemplate "html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	texttemplate "text/template"

	"github.com/weft-automation/weft/internal/account/plan"
)

//go:embed guides
var guideFiles embed.FS

// chapter is a group of guides in the navigation.
type chapter struct {
	Name     string
	Articles []article
}

// article is one guide: guides/NAME.md, at /docs/NAME.
type article struct {
	Name, Title string
	About       string // a line for lists
}

// chapters are the guides in the order in which they are read.
var chapters = []chapter{
	{"Start", []article{
		{"first-call", "First call in five minutes", "Start Weft, make a signed call, and read its result."},
		{"conventions", "Conventions", "What all operations share: IDs, times, lists, headers, and what may change."},
		{"signing", "Signing, step by step", "What is signed, worked out byte by byte, with signers to copy and vectors to test by."},
		{"signers", "Signers to copy", "One file for each of five languages, and how to take it."},
		{"clients", "Clients to copy", "For four languages a client, a reader of streams, a verifier of callbacks, and an example."},
	}},
	{"Build", []article{
		{"streams", "Streams", "Hear each change as a server-sent event, and lose none when a connection breaks."},
		{"callbacks", "Callbacks", "Have results posted to you, and verify them: receivers in five languages."},
		{"workflows", "Workflows", "Connect components into a graph, with branches, loops, waits, schedules and hooks."},
	}},
	{"Run", []article{
		{"limits", "Limits and credits", "What a workspace may ask at a time, what things cost, and what happens beyond."},
		{"proxies", "Behind a proxy", "Configure nginx, HAProxy or a load balancer so that signatures, streams and limits work."},
		{"people", "People and roles", "Sign in, and what each role of a workspace may do."},
		{"errors", "Errors", "Every code, reason and cause: what it means, what to do about it, and whether to try again."},
		{"decisions", "Decisions beyond the contract", "What the contract leaves open, and what Weft does."},
	}},
}

// guidePage is what the page of a guide shows.
type guidePage struct {
	article
	*guide
	Before, After *article // the neighbours
}

// guide is a guide in both forms.
type guide struct {
	Markdown string
	Body     htmltemplate.HTML
	Headings []heading
}

// mountGuides puts the first page at /docs, the guides below it, and the list of all
// pages for programs that read at /llms.txt.
func mountGuides(mux *http.ServeMux, l *library) {
	allFunc := func() (any, error) { return l.summary(), nil }
	mount(mux, "/docs", "home", allFunc)
	for _, path := range []string{"/llms.txt", "/docs/llms.txt"} {
		mux.Handle("GET "+path, newDocument(textType, func() ([]byte, error) { return renderText("llms", allFunc) }))
	}
	var sources []*guideSource
	for _, c := range chapters {
		for _, one := range c.Articles {
			sources = append(sources, &guideSource{one, sync.OnceValues(func() (*guide, error) { return newGuide(one, l) })})
		}
	}
	for i, one := range sources {
		page := guidePage{article: one.article}
		if i > 0 {
			page.Before = &sources[i-1].article
		}
		if i+1 < len(sources) {
			page.After = &sources[i+1].article
		}
		mount(mux, "/docs/"+one.Name, "guide", func() (any, error) {
			made, err := one.renderOnce()
			page := page
			page.guide = made
			return page, err
		})
	}
	mountSearch(mux, l, sources)
}

// guideSource is a guide that is rendered when it is first asked for.
type guideSource struct {
	article
	renderOnce func() (*guide, error)
}

// newGuide renders a guide in both forms.
func newGuide(a article, l *library) (*guide, error) {
	text, err := guideFiles.ReadFile("guides/" + a.Name + ".md")
	if err != nil {
		return nil, err
	}
	markdown, err := expand(a.Name, string(text), l, edition{none, anchor, none, none})
	if err != nil {
		return nil, err
	}
	source, err := expand(a.Name, string(text), l, edition{widget, none, mark, markup})
	if err != nil {
		return nil, err
	}
	body, headings, err := renderMarkdown([]byte(source))
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", a.Name, err)
	}
	return &guide{Markdown: markdown, Body: body, Headings: headings}, nil
}

// edition is what one form of a guide has that the other has not.
type edition struct {
	widgetFunc, anchorFunc, markFunc, markupFunc func(text string) string
}

func none(string) string { return "" }

// anchor names the section of the heading that follows it, for programs that would name it by
// its title.
func anchor(id string) string { return `<a id="` + id + `"></a>` + "\n\n" }

// mark names the section of the heading that it ends.
func mark(id string) string { return " {#" + id + "}" }

// markup is HTML between what it holds.
func markup(tags string) string { return "\n" + tags + "\n\n" }

// expand fills in what a guide takes from the service: the text between <% and %>.
func expand(name, text string, l *library, e edition) (string, error) {
	template := texttemplate.New(name).Delims("<%", "%>")
	_, err := template.Funcs(texttemplate.FuncMap{
		"file":    copied,
		"widget":  e.widgetFunc,
		"anchor":  e.anchorFunc,
		"mark":    e.markFunc,
		"markup":  e.markupFunc,
		"section": section,
		"vectors": readVectors,
		"codes":   codes,
		"plans":   plans,
		"signers": func() []kitFile { return signerFiles },
		"clients": clientFolders,
		"escape":  escapeMarkdown,
		"cell":    cell,
	}).Parse(text)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := template.Execute(&out, l.summary()); err != nil {
		return "", fmt.Errorf("fill in %s: %w", name, err)
	}
	return out.String(), nil
}

// widget is the place of something that only a browser can do, which scripts fill.
func widget(name string) string {
	return `<div class="widget" data-widget="` + name + `" hidden></div>`
}

// terms are what a plan gives, in words.
type terms struct{ Name, RPS, RPH, Waits, Streams, Monthly, Quarter, UsageLimit, Storage string }

// plans are all of them. Where a plan has no terms of its own they are agreed.
func plans() []terms {
	const agreed = "as agreed"
	var all []terms
	for _, name := range plan.Names() {
		given := name.Terms()
		one := terms{Name: strings.ToUpper(string(name[:1])) + string(name[1:])}
		if given.RPS == plan.None {
			one.RPS, one.RPH, one.Waits, one.Streams, one.Monthly, one.Quarter, one.UsageLimit, one.Storage = agreed, agreed, agreed, agreed, agreed, agreed, agreed, agreed
		} else {
			one.RPS, one.RPH, one.Waits, one.Streams = grouped(given.RPS), grouped(given.RPH), grouped(given.Waits), grouped(given.Streams)
			one.Monthly, one.Quarter, one.UsageLimit = given.Monthly.String(), (given.Monthly / 4).String(), given.UsageLimit.String()
			one.Storage = strconv.FormatInt(given.Storage>>30, 10) + " GiB"
		}
		all = append(all, one)
	}
	return all
}

// grouped is a number below a million with its thousands apart.
func grouped(n int) string {
	text := strconv.Itoa(n)
	if len(text) > 3 {
		return text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}
