package portal

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/web/catalog"
)

// entry is one entry of the search index.
type entry struct {
	Kind  string `json:"kind"`
	Title string `json:"title"`
	About string `json:"about"`
	Path  string `json:"path"`
	Text  string `json:"text,omitempty"` // distinct words that are searched but not shown
}

// synonyms contains synonyms by which people search for a guide.
var synonyms = map[string]string{
	"first-call":  "quickstart tutorial getting started",
	"own-code":    "custom component worker function python",
	"dev":         "install local development",
	"conventions": "pagination",
	"signing":     "authentication ed25519",
	"signers":     "sdk library",
	"clients":     "sdk library",
	"proxy":       "curl postman",
	"streams":     "sse eventsource reconnect resume",
	"callbacks":   "webhooks",
	"workflows":   "dag approve approval",
	"triggers":    "cron webhooks github",
	"chain":       "evm ethereum anvil",
	"limits":      "rate throttling quota pricing retry billing",
	"credits":     "billing",
	"proxies":     "reverse tls https load balancer ingress cdn deployment",
	"deployment":  "production docker kubernetes self-hosted",
	"operations":  "monitoring prometheus metrics alerts kubernetes ntp",
	"database":    "postgres pgbouncer",
	"backup":      "restore disaster recovery pitr",
	"people":      "users login invitations",
	"settings":    "environment variables configuration",
}

// mountSearch serves the search index. The browser does the search.
func mountSearch(mux *http.ServeMux, l *library, guides []*guideSource) {
	mux.Handle("GET /docs/search.json", newDocument(jsonType, func() ([]byte, error) { return newIndex(l, guides) }))
}

func newIndex(l *library, guides []*guideSource) ([]byte, error) {
	var all []entry
	for _, findFunc := range []func() ([]entry, error){
		func() ([]entry, error) { return findGuides(guides) }, findKit, findOperations,
	} {
		found, err := findFunc()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, c := range l.all {
		all = append(all, entry{"Component", c.Module, c.Title + ". " + plainText(catalog.FirstSentence(c.Description)), "/docs/components/" + c.Module, ""})
	}
	return json.Marshal(all)
}

// findGuides returns an entry per guide, with the words before its first section, and an entry
// per section.
func findGuides(guides []*guideSource) ([]entry, error) {
	means, err := meanings()
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, one := range guides {
		made, err := one.renderOnce()
		if err != nil {
			return nil, err
		}
		texts := textBySection(string(made.Body))
		path := "/docs/" + one.Name
		all = append(all, entry{"Guide", one.Title, plainText(one.About), path, wordsOf(synonyms[one.Name] + " " + texts[""])})
		for _, h := range made.Headings {
			found := entry{"Section", h.Text, one.Title, path + "#" + h.ID, wordsOf(texts[h.ID])}
			if meaning, ok := means[h.ID]; ok {
				found.Kind, found.About = "Code", plainText(catalog.FirstSentence(meaning))
			}
			all = append(all, found)
		}
	}
	return all, nil
}

// findKit returns an entry per signer and per client.
func findKit() ([]entry, error) {
	var all []entry
	for _, one := range signerFiles {
		all = append(all, entry{"Signer", one.Language + " signer", one.Name, "/docs/signers/" + one.Name, ""})
	}
	folders, err := clientFolders()
	if err != nil {
		return nil, err
	}
	for _, one := range folders {
		all = append(all, entry{"Client", one.Language + " client", strings.Join(one.Files, ", "), "/docs/clients#" + one.Name, ""})
	}
	return all, nil
}

// findOperations returns an entry per operation, with its operationId.
func findOperations() ([]entry, error) {
	read, err := readContract()
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, tag := range read.Tags {
		for _, o := range tag.Operations {
			all = append(all, entry{"Operation", plainText(o.Summary), o.Method + " " + o.Path, "/docs/reference#" + o.Anchor(), wordsOf(o.ID)})
		}
	}
	return all, nil
}

var (
	sectionStart = regexp.MustCompile(`<h[2-6] id="([^"]*)">`)
	titleOrCode  = regexp.MustCompile(`(?s)<h[1-6].*?</h[1-6]>|<pre.*?</pre>`)
	anyTag       = regexp.MustCompile(`<[^>]*>`)
	word         = regexp.MustCompile(`[\p{L}\p{N}]+`)
)

// textBySection returns the text of a rendered guide by the anchor of its section. The text before
// the first heading has the key "". It leaves out code blocks, which make up most of a guide but
// are rarely searched for.
func textBySection(body string) map[string]string {
	texts, id, from := map[string]string{}, "", 0
	keep := func(to int) {
		text := titleOrCode.ReplaceAllString(body[from:to], " ")
		texts[id] = html.UnescapeString(anyTag.ReplaceAllString(text, " "))
	}
	for _, at := range sectionStart.FindAllStringSubmatchIndex(body, -1) {
		keep(at[0])
		id, from = html.UnescapeString(body[at[2]:at[3]]), at[0]
	}
	keep(len(body))
	return texts
}

// wordsOf returns the distinct words of text in lower case. The search ignores their order
// and number.
func wordsOf(text string) string {
	all := word.FindAllString(strings.ToLower(text), -1)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}
