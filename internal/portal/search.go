package portal

import (
	"encoding/json"
	"net/http"

	"github.com/weft-automation/weft/internal/catalog"
)

// entry is what can be found.
type entry struct {
	Kind  string `json:"kind"`
	Title string `json:"title"`
	About string `json:"about"`
	Path  string `json:"path"`
}

// mountSearch serves what the search looks through; the browser does the looking.
func mountSearch(mux *http.ServeMux, l *library, guides []*guideSource) {
	mux.Handle("GET /docs/search.json", newDocument(jsonType, func() ([]byte, error) { return newIndex(l, guides) }))
}

func newIndex(l *library, guides []*guideSource) ([]byte, error) {
	var all []entry
	means, err := meanings()
	if err != nil {
		return nil, err
	}
	for _, one := range guides {
		all = append(all, entry{"Guide", one.Title, one.About, "/docs/" + one.Name})
		made, err := one.renderOnce()
		if err != nil {
			return nil, err
		}
		for _, h := range made.Headings {
			found := entry{"Section", h.Text, one.Title, "/docs/" + one.Name + "#" + h.ID}
			if meaning, ok := means[h.ID]; ok {
				found.Kind, found.About = "Code", catalog.FirstSentence(meaning)
			}
			all = append(all, found)
		}
	}
	read, err := readContract()
	if err != nil {
		return nil, err
	}
	for _, tag := range read.Tags {
		for _, o := range tag.Operations {
			all = append(all, entry{"Operation", o.Summary, o.Method + " " + o.Path, "/docs/reference#" + o.Anchor()})
		}
	}
	for _, c := range l.all {
		all = append(all, entry{"Component", c.Module, c.Title + ". " + catalog.FirstSentence(c.Description), "/docs/components/" + c.Module})
	}
	return json.Marshal(all)
}
