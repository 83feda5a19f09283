package portal

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
)

// What the Markdown edition of a page has for itself: nobody runs scripts on it, which name
// the deployment in the HTML one, and its links lead to Markdown.

// local is the address of a Weft as the sources of the pages write it.
const local = "http://127.0.0.1:8080"

type originKey struct{}

// ReachedAt has the pages that are served under ctx name origin, such as
// https://weft.example, as the address of the deployment. One that is none is not named.
func ReachedAt(ctx context.Context, origin string) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

func originOf(ctx context.Context) string {
	origin, _ := ctx.Value(originKey{}).(string)
	return origin
}

// plainOrigin is an origin that may stand in a command: the host is what the client says, and
// a Host header may hold what a shell obeys.
var plainOrigin = regexp.MustCompile(`^https?://(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?$`)

// reachedAt is the text as a deployment at that origin shows it. Its tag is another for each
// origin, so that what was kept under one is not taken for what another shows.
func (t tagged) reachedAt(origin string) tagged {
	if !canName(origin) {
		return t
	}
	return tagged{text: AtOrigin(t.text, origin), tag: tagOf([]byte(t.tag + origin))}
}

// AtOrigin returns text with origin, such as https://weft.example, in place of the local
// address that the sources of pages and of the OpenAPI document have. If origin is not a plain
// origin, it returns text unchanged.
func AtOrigin(text []byte, origin string) []byte {
	if !canName(origin) {
		return text
	}
	return bytes.ReplaceAll(text, []byte(local), []byte(origin))
}

func canName(origin string) bool { return origin != local && plainOrigin.MatchString(origin) }

// linkToPage is a link to a page, or to a place of one: the names of files have a dot.
var linkToPage = regexp.MustCompile(`\]\((/docs(?:/\w[\w-]*)*)(#[^)\s]*)?\)`)

// leadToMarkdown has the links of a page lead to the Markdown of other pages.
func leadToMarkdown(page []byte) ([]byte, error) {
	var sections map[string]string
	if bytes.Contains(page, []byte("](/docs/reference#")) {
		read, err := readContract()
		if err != nil {
			return nil, err
		}
		sections = read.sections()
	}
	var unknown error
	out := linkToPage.ReplaceAllFunc(page, func(link []byte) []byte {
		found := linkToPage.FindSubmatch(link)
		path, place := string(found[1]), string(found[2])
		if path == "/docs/reference" && place != "" {
			section, ok := sections[place[1:]]
			if !ok {
				unknown = fmt.Errorf("%s leads to no operation", link)
			}
			place = "#" + section
		}
		return []byte("](" + path + ".md" + place + ")")
	})
	return out, unknown
}

// sections are where the Markdown of the reference tells operations, by their anchors in HTML.
func (c contract) sections() map[string]string {
	all := map[string]string{}
	for _, tag := range c.Tags {
		for _, o := range tag.Operations {
			all[o.Anchor()] = slug(o.Summary)
		}
	}
	return all
}

var noSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// slug is what programs that read Markdown call the section of a heading.
func slug(heading string) string {
	return strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
