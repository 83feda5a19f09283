package conformance

import (
	"net/http"
	"slices"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// Undocumented headers, statuses and content types must be reported, even if the response has other
// faults. The test adds one of each.
func TestUndocumentedAnswersAreReported(t *testing.T) {
	t.Parallel()
	behind := target(t)
	if deployment.pool == nil {
		t.Log("answers are planted in a deployment that was booted here")
		return
	}
	spec, err := probe.LoadSpec()
	if err != nil {
		t.Fatal(err)
	}
	planted := map[string]func(*answer){
		"/v1/sdk/limits":     func(a *answer) { a.header.Set("X-Planted", "1") },
		"/v1/sdk/components": func(a *answer) { a.status = http.StatusTeapot },
		"/healthz":           func(a *answer) { a.header.Set("Content-Type", "text/plain") },
		"/v1/sdk/nothing":    func(a *answer) { a.header.Set("X-Planted", "1") },
	}
	proxy := &breaker{breakage: breakage{do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if plant := planted[c.target]; a != nil && plant != nil {
			plant(a)
		}
		return a
	}}}
	through := proxy.before(t, behind)
	through.Spec = spec
	err = probe.Run(t.Context(), through, func(trial *probe.Trial) {
		for _, path := range []string{"/v1/sdk/workspace", "/v1/sdk/limits", "/v1/sdk/components", "/healthz", "/v1/sdk/nothing"} {
			_, _ = trial.Try(trial.Context(), probe.Request{Path: path})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`getLimits 200: the header X-Planted`, `getLiveness 200: the content type "text/plain"`,
		`listComponents 418: the content type "application/json"`, `listComponents 418: the status`, `no operation 404: the header X-Planted`,
	}
	if got := spec.Undocumented(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
