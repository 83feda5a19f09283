package component

import (
	"slices"
	"testing"
)

func TestEachWordForAModuleMeansOneModule(t *testing.T) {
	t.Parallel()
	var seen []string
	for ours, words := range foreignModules {
		for _, word := range words {
			if slices.Contains(seen, word) {
				t.Errorf("%s means %s and another module", word, ours)
			}
			seen = append(seen, word)
		}
	}
	r := &Registry{entries: map[string]*Entry{"API_CALL": nil, Delay: nil}}
	for word, want := range map[string]string{"HTTP_REQUEST": "API_CALL", "n8n-http": "", "http": "API_CALL", "apiCall": "API_CALL", "wait": Delay, "Map": ""} {
		if got := r.ours(word); got != want {
			t.Errorf("%s is %q, want %q", word, got, want)
		}
	}
}
