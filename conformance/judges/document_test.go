package judges

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

// document is openapi.yaml without the exclusions for tools.
type document struct{ *openapi3.T }

func readDocument(t *testing.T) document {
	t.Helper()
	read, err := openapi3.NewLoader().LoadFromData(api.SpecJSON())
	if err != nil {
		t.Fatal(err)
	}
	return document{read}
}

// against returns an error if a request is invalid according to the document.
func (d document) against(e exchange) error {
	item := d.Paths.Value(e.operation.Template)
	given := map[string]string{}
	segments := strings.Split(e.request.URL.Path, "/")
	for i, segment := range strings.Split(e.operation.Template, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			given[strings.TrimSuffix(name, "}")] = segments[i]
		}
	}
	request := e.request.Clone(context.Background())
	request.Body = io.NopCloser(bytes.NewReader(e.body))
	return openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
		Request: request, PathParams: given,
		Route:   &routers.Route{Spec: d.T, Path: e.operation.Template, PathItem: item, Method: e.operation.Method, Operation: item.GetOperation(e.operation.Method)},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true},
	})
}

func TestARequestIsSettledByTheDocumentAlone(t *testing.T) {
	const right, wrong = `{"email":"ada@example.org","password":"correct horse"}`, `{"email":7,"password":"correct horse"}`
	spec, err := probe.LoadSpec()
	if err != nil {
		t.Fatal(err)
	}
	spared := exclusions{}
	for _, operation := range spec.Operations() {
		if operation.ID != "createSession" {
			spared["operations"] = append(spared["operations"], exclusion{Name: operation.ID})
		}
	}
	asked := func(body string, wanted, status int) exchange {
		request := httptest.NewRequest(http.MethodPost, "/v1/sessions", nil)
		request.Header.Set("Content-Type", "application/json")
		return exchange{spec.Find(request.Method, request.URL.Path), request, []byte(body), wanted, status}
	}
	law, usual := readDocument(t), asked(right, 200, 200)
	for _, rule := range []struct {
		seen     []exchange
		most     int // number of disputes that exclusions.yaml allows
		disputes int
		fault    string // "" means none
	}{
		{seen: []exchange{usual}},
		{seen: []exchange{usual, asked(wrong, 400, 400)}},
		{seen: []exchange{usual, asked(right, 400, 401)}},
		{seen: []exchange{usual, asked(right, 400, 200)}, disputes: 1, fault: "forgives no request of createSession, and there are 1"},
		{seen: []exchange{usual, asked(right, 400, 200)}, disputes: 1, most: 1},
		{seen: []exchange{usual, asked(wrong, 200, 400)}, disputes: 1, most: 1},
		{seen: []exchange{usual, asked(right, 400, 200), asked(right, 400, 200)}, disputes: 2, most: 1, fault: "forgives at most 1 requests of createSession, and there are 2"},
		{seen: []exchange{usual}, most: 1, fault: "forgives at most 1 requests of createSession, and there are 0"},
		{seen: []exchange{usual, asked(wrong, 400, 200)}, disputes: 1, most: 1, fault: "is accepted, but openapi.yaml does not allow it"},
		{seen: []exchange{usual, asked(right, 200, 401)}, disputes: 1, most: 1, fault: "is rejected, but openapi.yaml allows it"},
		{seen: []exchange{usual, asked(right, 400, 429)}, fault: "is not a documented response of the operation"},
		{seen: []exchange{usual, asked(right, 400, 500)}, disputes: 1, fault: "is not a documented response of the operation"},
		{seen: []exchange{asked(wrong, 400, 400)}, fault: "no valid request of createSession was seen"},
	} {
		delete(spared, "forgiven")
		if rule.most > 0 {
			spared["forgiven"] = []exclusion{{Name: "createSession", Most: rule.most}}
		}
		disputes, faults := (&witness{spec: spec, seen: rule.seen}).settle(law, spared)
		if found := strings.Join(faults, "; "); disputes != rule.disputes || !strings.Contains(found, rule.fault) || (rule.fault == "") != (found == "") {
			t.Errorf("%v, %d forgiven: %d disputes, %s; want %d, %s", rule.seen, rule.most, disputes, found, rule.disputes, rule.fault)
		}
	}
}
