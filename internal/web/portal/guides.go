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
	About       string // one-line summary for lists
}

// chapters are the guides in reading order.
var chapters = []chapter{
	{"Start", []article{
		{"first-call", "First call in five minutes", "Start Weft, make a signed call, and read its result."},
		{"own-code", "Run your own code", "Use an HTTP endpoint of yours as a step of a workflow."},
		{"dev", "Weft on your machine", "What weft dev needs, starts and stores, and its flags."},
		{"conventions", "Conventions", "What all operations have in common: IDs, times, lists, headers, and compatibility."},
		{"signing", "Signing, step by step", "How signatures are computed, byte by byte, with signers to copy and test vectors."},
		{"signers", "Signers to copy", "One file for each of five languages, and how to use it."},
		{"clients", "Clients to copy", "A client, a stream reader, a callback verifier and an example in four languages."},
		{"proxy", "Sign with a local proxy", "Use curl, Postman and generated clients without signing."},
	}},
	{"Build", []article{
		{"workflows", "Workflows", "Connect components into a graph, with branches, loops, waits, schedules and hooks."},
		{"references", "References and expressions", "Put values of a run into strings and addresses, and compute with them."},
		{"loops", "Loops", "Do something for each item, or again and again until it is done."},
		{"failures", "Failures, retries and compensation", "Try a call for days, make it safe to repeat, and undo what a workflow has done."},
		{"triggers", "Schedules and hooks", "Start runs at set times, or by deliveries of other services."},
		{"streams", "Streams", "Receive each change as a server-sent event, and resume after a lost connection."},
		{"callbacks", "Callbacks", "Receive the results of executions and runs as HTTP POST requests and verify them, with receivers in five languages."},
		{"listen", "Callbacks on your machine", "Receive, check, fail and forward callbacks during development."},
		{"chain", "Payments on a private chain", "Build, sign, send and await EVM transactions with weft dev."},
	}},
	{"Operate", []article{
		{"console", "The console", "See every run of a workspace in a browser, find out why one failed, and act on it."},
		{"install", "Install", "Install Weft as a Debian package, an npm package, an archive or a container."},
		{"deployment", "Deployment", "Run Weft for others: processes, TLS, and a list of what to set up."},
		{"database", "PostgreSQL", "Roles, connections and connection poolers."},
		{"proxies", "Behind a proxy", "Configure nginx, HAProxy or a load balancer so that signatures, streams and limits work."},
		{"operations", "Operations", "Health, monitoring, stops, retention and clocks."},
		{"upgrade", "Upgrade", "Replace a running version by the next one."},
		{"backup", "Backup and failover", "Back up, restore, release the quarantine, and fail over to a standby."},
		{"master-key", "The master key", "Store, change and replace the key that protects secrets."},
		{"credits", "Plans and credits for operators", "Why a deployment has credits, and how to grant and audit them."},
		{"audit", "Audit log and isolation", "What is recorded, and how workspaces are kept apart."},
		{"conform", "Test a deployment", "Run the conformance suite against a deployment."},
	}},
	{"Reference", []article{
		{"limits", "Limits and credits", "Rate limits, prices, and what happens beyond the limits."},
		{"people", "People and roles", "Sign in, invite people, and what each role of a workspace may do."},
		{"keys", "API keys", "Create, rotate, restrict and revoke keys."},
		{"commands", "Commands", "Every command of weft."},
		{"settings", "Settings", "Every environment variable of a deployment."},
		{"errors", "Errors", "Every code, reason and cause: what it means, what to do, and whether to retry."},
		{"decisions", "Decisions beyond the contract", "Where the contract leaves a choice, and what Weft does."},
	}},
}

// guidePage is the data of a guide's page.
type guidePage struct {
	article
	*guide
	Before, After *article // previous and next guide
}

// guide is a rendered guide in both formats.
type guide struct {
	Markdown string
	Body     htmltemplate.HTML
	Headings []heading
}

// mountGuides serves the home page at /docs, /docs/ and /, the guides below /docs, and the list of
// all pages for language models at /llms.txt.
func mountGuides(mux *http.ServeMux, l *library) {
	allFunc := func() (any, error) { return l.summary(), nil }
	mount(mux, "/docs", "home", allFunc)
	for _, path := range []string{"/{$}", "/docs/{$}"} {
		mux.Handle("GET "+path, newDocument(htmlType, func() ([]byte, error) { return renderHTML("home", allFunc) }))
	}
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

// guideSource is a guide that is rendered on first use.
type guideSource struct {
	article
	renderOnce func() (*guide, error)
}

// newGuide renders a guide in both formats.
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

// edition contains the template functions whose results differ between the HTML and the
// Markdown of a guide.
type edition struct {
	widgetFunc, anchorFunc, markFunc, markupFunc func(text string) string
}

func none(string) string { return "" }

// anchor returns an anchor for the heading that follows, in Markdown. Without this anchor,
// renderers would derive one from the title.
func anchor(id string) string { return `<a id="` + id + `"></a>` + "\n\n" }

// mark returns the attribute that sets the anchor of a heading. The attribute belongs at the end of
// the heading.
func mark(id string) string { return " {#" + id + "}" }

// markup returns HTML tags as a separate block, so that the text between them remains Markdown.
func markup(tags string) string { return "\n" + tags + "\n\n" }

// expand executes the template actions of a guide, between <% and %>, which insert data of the
// service.
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
		return "", fmt.Errorf("expand %s: %w", name, err)
	}
	return out.String(), nil
}

// widget returns an empty element that a script fills. It stays hidden without scripts.
func widget(name string) string {
	return `<div class="widget" data-widget="` + name + `" hidden></div>`
}

// terms are the limits and credits of a plan, formatted.
type terms struct{ Name, RPS, RPH, Waits, Streams, Monthly, Quarter, UsageLimit, Storage string }

// plans returns the terms of all plans. A plan without fixed terms has "as agreed".
func plans() []terms {
	const agreed = "as agreed"
	var all []terms
	for _, name := range plan.Names() {
		fixed := name.Terms()
		one := terms{Name: strings.ToUpper(string(name[:1])) + string(name[1:])}
		if fixed.RPS == plan.None {
			one.RPS, one.RPH, one.Waits, one.Streams, one.Monthly, one.Quarter, one.UsageLimit, one.Storage = agreed, agreed, agreed, agreed, agreed, agreed, agreed, agreed
		} else {
			one.RPS, one.RPH, one.Waits, one.Streams = grouped(fixed.RPS), grouped(fixed.RPH), grouped(fixed.Waits), grouped(fixed.Streams)
			one.Monthly, one.Quarter, one.UsageLimit = fixed.Monthly.String(), (fixed.Monthly / 4).String(), fixed.UsageLimit.String()
			one.Storage = strconv.FormatInt(fixed.Storage>>30, 10) + " GiB"
		}
		all = append(all, one)
	}
	return all
}

// grouped formats a number below a million with a comma between the thousands.
func grouped(n int) string {
	text := strconv.Itoa(n)
	if len(text) > 3 {
		return text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}
