package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

func health(t *probe.Trial) {
	alive := probe.Decode[api.Liveness](t, t.Get("/healthz"))
	t.Equal("status", string(alive.Status), "alive")
	// A busy machine may delay the readiness.
	var answer probe.Answer
	t.Until("ready", 30*time.Second, func() bool {
		answer = t.Get("/readyz")
		return answer.Status != http.StatusServiceUnavailable
	})
	ready := probe.Decode[api.Readiness](t, answer)
	t.Equal("status", string(ready.Status), "ready")
	var names []string
	for _, check := range ready.Checks {
		t.Equal(check.Name, string(check.Status), "ok")
		names = append(names, check.Name)
	}
	t.Check(len(names) > 0 && slices.Contains(names, "database"), "checks: %v", names)
	head := t.Do(probe.Request{Method: http.MethodHead, Path: "/healthz"})
	t.Equal("HEAD", head.Status, http.StatusOK)
}

func specification(t *probe.Trial) {
	asJSON, asYAML := t.Get("/openapi.json"), t.Get("/openapi.yaml")
	t.Equal("status", asJSON.Status, http.StatusOK)
	t.Equal("status", asYAML.Status, http.StatusOK)
	variesByAll(t, asJSON)
	variesByAll(t, asYAML)
	var texts []string
	for _, data := range [][]byte{asJSON.Body, asYAML.Body, api.SpecYAML()} {
		document, err := openapi3.NewLoader().LoadFromData(data)
		t.NoError("load", err)
		t.Check(len(document.Servers) > 0 && strings.HasPrefix(document.Servers[0].URL, "http"), "no server is named: %v", document.Servers)
		document.Servers = nil // each deployment writes its own address
		text, err := document.MarshalJSON()
		t.NoError("encode", err)
		texts = append(texts, string(text))
	}
	t.Check(texts[0] == texts[1], "openapi.json and openapi.yaml differ")
	t.Check(texts[0] == texts[2], "the document served is another one than these tests know")
	t.Check(strings.Contains(string(asYAML.Body), "openapi: 3.1.0") && strings.HasPrefix(string(asJSON.Body), "{"), "the forms are mixed up")
	edition(t)
}

// variesByAll checks that caches distinguish the answers by all headers on which the document depends.
func variesByAll(t *probe.Trial, answer probe.Answer) {
	names := strings.Split(answer.Header.Get("Vary"), ", ")
	for _, name := range []string{"Accept-Encoding", "Host", "X-Forwarded-Proto"} {
		t.Check(slices.Contains(names, name), "Vary %q lacks %s", names, name)
	}
}

// edition checks that the document in OpenAPI 3.0 is valid and has the same operations.
func edition(t *probe.Trial) {
	answer := t.Get("/openapi-3.0.json")
	variesByAll(t, answer)
	t.Equal("status", answer.Status, http.StatusOK)
	document, err := openapi3.NewLoader().LoadFromData(answer.Body)
	t.NoError("load", err)
	t.Equal("version", document.OpenAPI, "3.0.3")
	t.NoError("validate", document.Validate(t.Context(), openapi3.DisableExamplesValidation()))
	operations := 0
	for template, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			known := t.Target().Spec.Find(method, template)
			t.Check(known != nil && known.ID == operation.OperationID, "OpenAPI 3.0 has %s %s", method, template)
			operations++
		}
	}
	t.Equal("operations", operations, len(t.Target().Spec.Operations()))
}
