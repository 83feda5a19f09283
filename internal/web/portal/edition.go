package portal

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
)

// This file is only for the Markdown edition of pages. Markdown can't run a script that inserts the
// origin of the deployment, and its links lead to Markdown pages.

// local is the origin that the sources of the pages use for a deployment.
const local = "http://127.0.0.1:8080"

type originKey struct{}

// WithOrigin returns a context that makes pages use origin, such as https://weft.example, as the
// origin of the deployment. Pages ignore an origin that isn't plain.
func WithOrigin(ctx context.Context, origin string) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

func originOf(ctx context.Context) string {
	origin, _ := ctx.Value(originKey{}).(string)
	return origin
}

// plainOrigin matches origins that are safe in a command. The client controls the Host header,
// so it may contain shell syntax.
var plainOrigin = regexp.MustCompile(`^https?://(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?$`)

// atOrigin returns the text with origin in place of local. The ETag of the text depends on the
// origin, so that caches don't mix the texts of different origins.
func (t tagged) atOrigin(origin string) tagged {
	if !usableOrigin(origin) {
		return t
	}
	var text []byte
	from := 0
	for _, block := range outputBlock.FindAllIndex(t.text, -1) {
		text = append(append(text, AtOrigin(t.text[from:block[0]], origin)...), t.text[block[0]:block[1]]...)
		from = block[1]
	}
	return tagged{text: append(text, AtOrigin(t.text[from:], origin)...), tag: tagOf([]byte(t.tag + origin))}
}

// outputBlock matches output of weft dev in Markdown, which has the address of the reader's own
// machine.
var outputBlock = regexp.MustCompile("(?ms)^```text$.*?^```$")

// AtOrigin returns text with origin, such as https://weft.example, in place of the local
// address that the sources of pages and of the OpenAPI document have. If origin is not a plain
// origin, it returns text unchanged.
func AtOrigin(text []byte, origin string) []byte {
	if !usableOrigin(origin) {
		return text
	}
	return bytes.ReplaceAll(text, []byte(local), []byte(origin))
}

func usableOrigin(origin string) bool { return origin != local && plainOrigin.MatchString(origin) }

// linkToPage matches a link to a page, with or without an anchor. It doesn't match links to
// files, because their names have a dot.
var linkToPage = regexp.MustCompile(`\]\((/docs(?:/\w[\w-]*)*)(#[^)\s]*)?\)`)

// linkToMarkdown changes the links of a page to the Markdown of other pages. It returns an
// error if a link to the reference names an unknown operation.
func linkToMarkdown(page []byte) ([]byte, error) {
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
				unknown = fmt.Errorf("link %s: unknown operation", link)
			}
			place = "#" + section
		}
		return []byte("](" + path + ".md" + place + ")")
	})
	return out, unknown
}

// sections maps the anchors of operations in the HTML reference to those in the Markdown.
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

// slug returns the anchor that Markdown renderers derive from a heading.
func slug(heading string) string {
	return strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
