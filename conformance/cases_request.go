package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var requestCases = []Case{
	{Part: "D1.6.id, D1.6.own, D3.form", Name: "request/X-Request-Id from the client, valid and malformed", Run: requestID},
	{Part: "D3.405, D3.table", Name: "AB07 405 with Allow for every other method of every path", Run: methods},
	{Part: "D3.table, D1.8.target, D9.3.metrics", Name: "request/404 paths that do not exist", Run: unknownPaths},
	{Part: "D3.406, D3.table", Name: "AB07 406 what is not acceptable", Run: acceptable},
	{Part: "D1.1.type, D1.1.untyped, D3.table", Name: "AB07 415 another content type, 200 none", Run: contentTypes},
	{Part: "D3.table, D1.1.size, D1.1.type", Name: "AB07 400, 413, 415 the form of every signed request", Run: signedForm},
	{Part: "D3.414, D3.table", Name: "AB03 414 a target of 9 KiB, 431 too many headers", Run: longTarget},
	{Part: "D1.8.order", Name: "request/the order of checks", Run: checkOrder},
	{Part: "D1.8.target, 5.2.path", Name: "AU04 targets that are not in canonical form", Run: targets},
	{Part: "D3.inside, D3.form", Name: "AB12 failures show nothing of the inside", Run: failuresAreClosed},
}

func requestID(t *probe.Trial) {
	get := func(id string) string {
		answer := t.Do(probe.Request{Path: "/v1/sdk/nothing", Header: http.Header{"X-Request-Id": {id}}})
		t.Problem(answer, http.StatusNotFound, "NOT_FOUND")
		return answer.Header.Get("X-Request-Id")
	}
	for _, id := range []string{"a", "checkout-7f3a", "A.b_c-1", strings.Repeat("x", 128)} {
		t.Equal("X-Request-Id", get(id), id)
	}
	for _, id := range []string{"", "a b", "ä", "a/b", strings.Repeat("x", 129), "<script>"} {
		own := get(id)
		t.Check(own != "" && own != id, "X-Request-Id %q for %q", own, id)
	}
	unnamed := probe.Request{Path: "/healthz", Header: http.Header{"X-Request-Id": nil}}
	first, second := t.Do(unnamed).Header.Get("X-Request-Id"), t.Do(unnamed).Header.Get("X-Request-Id")
	t.Check(first != "" && first != second, "two requests have the id %q", first)
}

// concrete returns the path of an operation with values for its parameters.
func concrete(template string) string {
	return strings.NewReplacer("{executionId}", "0193f1c0-0000-7000-8000-000000000000", "{module}", "RANDOM_UUID",
		"{workspaceId}", "0193f1c0-0000-7000-8000-000000000001", "{userId}", "0193f1c0-0000-7000-8000-000000000002",
		"{invitationId}", "0193f1c0-0000-7000-8000-000000000003", "{keyId}", "0193f1c0-0000-7000-8000-000000000004",
		"{workflowId}", "0193f1c0-0000-7000-8000-000000000005", "{componentId}", "call", "{runId}", "0193f1c0-0000-7000-8000-000000000006",
		"{scheduleId}", "0193f1c0-0000-7000-8000-000000000008", "{hookId}", "0193f1c0-0000-7000-8000-000000000009",
		"{signal}", "approved", "{name}", "NOBODYS").Replace(template)
}

func methods(t *probe.Trial) {
	have := map[string]map[string]bool{}
	for _, operation := range t.Target().Spec.Operations() {
		path := concrete(operation.Template)
		if have[path] == nil {
			have[path] = map[string]bool{}
		}
		have[path][operation.Method] = true
	}
	for path, operations := range have {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get"} {
			// .../workflows/executions also matches the path with a workflow ID.
			if operations[method] || t.Target().Spec.Find(method, path) != nil {
				continue
			}
			body := []byte("method-canary")
			if method == http.MethodTrace {
				body = nil
			}
			answer := t.Do(probe.Request{Method: method, Path: path, Body: body})
			t.Problem(answer, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
			allow := strings.Split(strings.ReplaceAll(answer.Header.Get("Allow"), " ", ""), ",")
			for _, allowed := range allow {
				t.Check(t.Target().Spec.Find(allowed, path) != nil,
					"%s: Allow: %s", path, answer.Header.Get("Allow"))
			}
			t.Check(len(allow) >= len(operations), "%s: Allow: %s leaves one out", path, answer.Header.Get("Allow"))
			t.Check(!strings.Contains(string(answer.Body), "canary"), "the body is echoed")
		}
	}
}

func unknownPaths(t *probe.Trial) {
	for _, path := range []string{"/v1", "/v2/sdk/components", "/v1/sdk", "/v1/sdk/component", "/v1/sdk/components/executions/x/y/z", "/favicon.ico", "/metrics"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Problem(t.Do(probe.Request{Method: method, Path: path}), http.StatusNotFound, "NOT_FOUND")
		}
	}
}

func acceptable(t *probe.Trial) {
	media := map[string]string{"/openapi.yaml": "application/yaml"}
	requests, _ := signed(t, probe.RandomUUID(), probe.Signing{})
	for _, request := range append(requests, probe.Request{Path: "/v1/system/components"},
		probe.Request{Path: "/openapi.json"}, probe.Request{Path: "/openapi-3.0.json"}, probe.Request{Path: "/openapi.yaml"}) {
		own := "application/json"
		if strings.HasSuffix(request.Path, "/stream") {
			own = "text/event-stream"
		}
		if m := media[request.Path]; m != "" {
			own = m
		}
		for _, accept := range []string{"text/html", "image/*;q=0.9", own + ";q=0, */*;q=0"} {
			request.Header = http.Header{"Accept": {accept}}
			t.Problem(t.Do(refusable(request)), http.StatusNotAcceptable, "NOT_ACCEPTABLE")
		}
		for _, accept := range []string{own, "*/*", "text/html, */*;q=0.1", strings.Split(own, "/")[0] + "/*"} {
			request.Header = http.Header{"Accept": {accept}}
			status := t.Do(request).Status
			// Replays and deletions may find nothing left to do.
			t.Check(status == http.StatusOK || status == http.StatusConflict || request.Method == http.MethodDelete && status == http.StatusNotFound, "%s: %d for Accept: %s", request.Path, status, accept)
		}
	}
}

func contentTypes(t *probe.Trial) {
	send := func(header http.Header) probe.Answer {
		return t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.RandomUUID()), Header: header})
	}
	for _, kind := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", "application/jsonx",
		"application/json; charset=utf-16", "application/json; charset=latin1", "json", "application/problem+json",
	} {
		t.Problem(send(http.Header{"Content-Type": {kind}}), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	}
	for _, encoding := range []string{"gzip", "br", "deflate", "x"} {
		t.Problem(send(http.Header{"Content-Encoding": {encoding}}), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	}
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		t.Equal(kind, send(http.Header{"Content-Type": {kind}}).Status, http.StatusOK)
	}
	t.Equal("without a Content-Type", send(http.Header{"Content-Type": nil}).Status, http.StatusOK)
	open := checking(t, object{"method": "GET", "path": "/", "timestamp": "1"})
	open.Header = http.Header{"Content-Type": nil}
	t.Problem(t.Do(open), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE") // an open operation: requests are not signed
}

// signedForm sends malformed requests to each signed operation, in every way for which the document
// has an error response.
func signedForm(t *probe.Trial) {
	for _, operation := range t.Target().Spec.Operations() {
		if !operation.Signed() {
			continue
		}
		request := probe.Request{Method: operation.Method, Path: concrete(operation.Template)}
		refuseForm(t, request)
		if operation.NeedsBody() {
			t.Problem(t.Do(request), http.StatusBadRequest, "INVALID_INPUT")
		}
		for _, wrong := range []string{"limit=0", "force=x", "version=0", "after=-1", "stages=x"} {
			if name, _, _ := strings.Cut(wrong, "="); operation.Takes(name) {
				asked := request
				asked.Path += "?" + wrong
				t.Problem(t.Do(asked), http.StatusBadRequest, "INVALID_INPUT")
			}
		}
	}
}

// manyHeaders returns more headers than a request may have.
func manyHeaders() http.Header {
	many := http.Header{}
	for i := range 200 {
		many.Set(fmt.Sprint("X-Many-", i), "1")
	}
	return many
}

func longTarget(t *probe.Trial) {
	for _, path := range []string{"/" + strings.Repeat("x", 9<<10), probe.Executions + "?nonce=" + strings.Repeat("x", 9<<10)} {
		t.Problem(t.Get(path), http.StatusRequestURITooLong, "URI_TOO_LONG")
	}
	answer := t.Do(probe.Request{Path: probe.Executions, Header: manyHeaders()})
	t.Problem(answer, http.StatusRequestHeaderFieldsTooLarge, "PAYLOAD_TOO_LARGE")
	answers := t.Raw(t.Head(http.MethodGet, probe.Executions, nil) + "X-Large: " + strings.Repeat("x", 17<<10) + "\r\n\r\n")
	t.Check(len(answers) == 1 && answers[0].Status == http.StatusRequestHeaderFieldsTooLarge, "17 KiB of headers: %v", answers)
}

// checkOrder violates two rules at a time. The response must be for the rule that is checked first
// (decisions 1.8).
func checkOrder(t *probe.Trial) {
	wrong := probe.Signing{Method: "PUT"}
	large := []byte(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	post := func(body string, sign probe.Signing, header http.Header) probe.Answer {
		return t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(body), Sign: sign, Header: header})
	}
	t.Problem(t.Do(probe.Request{Path: "/v1/sdk//components", Sign: wrong}), http.StatusNotFound, "NOT_FOUND")
	t.Problem(t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: large, Sign: wrong}), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	header := probe.Signing{Method: "PUT", Alter: without("X-Sdk-Signature")}
	refuse(t, probe.Request{Path: probe.Executions, Sign: header}, "missing_signature")
	unknown := t.Target().Credentials
	unknown.APIKey = "ws_unknown"
	refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{As: &unknown, Timestamp: "0"}}, "invalid_credentials")
	refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Method: "PUT", Timestamp: "0"}}, "invalid_credentials")
	stale := probe.Signing{Timestamp: "5"}
	refuse(t, probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte("not json"), Sign: stale}, "timestamp_expired")
	t.Problem(post("not json", wrong, nil), http.StatusUnauthorized, "UNAUTHORIZED")
	t.Problem(post("not json", probe.Signing{}, http.Header{"Content-Type": {"text/plain"}}), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	t.Problem(post(`{"module":1,"module":2}`, probe.Signing{}, nil), http.StatusBadRequest, "INVALID_INPUT")
	// An unknown ID is rejected after authentication and before the check of its state.
	refuse(t, probe.Request{Path: probe.Execution("nope"), Sign: wrong}, "invalid_credentials")
	t.Problem(t.Do(probe.Request{Path: "/v1/sdk/nothing", Sign: wrong}), http.StatusNotFound, "NOT_FOUND")
	// The envelope is checked before the schema of the module.
	invalid(t, `{"module":"HASH","input":{"data":7},"config":{},"attempts":9}`, "/attempts")
}

func targets(t *probe.Trial) {
	host := strings.TrimPrefix(strings.TrimPrefix(t.Target().BaseURL, "http://"), "https://")
	for _, target := range []string{
		"//v1/sdk/components/executions", "/v1//sdk/components/executions", "/v1/./sdk/components/executions",
		"/v1/x/../sdk/components/executions", "/v1/sdk/components/executions/", "/v1/sdk/components/%65xecutions",
		"/v1/sdk%2Fcomponents/executions", "/v1/sdk/components/executions%2e", "/V1/SDK/components/executions",
		"/v1/sdk/components/executions|x", "/v1/sdk/components/executions?a|b", "/v1/sdk/components/executions;x=1",
		"/v1/sdk/components/executions?", "/v1/sdk/components/ex\xc3\xa4cutions", "/v1/sdk/components/executions?\xc3\xa4",
		"/v1/sdk/components/executions?a=%zz", "/v1/sdk/components/executions?a=%4", `/v1\sdk\components\executions`,
		"/v1/sdk/components/executions#x", "/v1/sdk/components/executions?a#b", "http://user@" + host + "/v1/sdk/components/executions",
		"ftp://" + host + "/v1/sdk/components/executions", "http://" + host + "/v1/sdk/components/executions/", "http:/v1/sdk/components/executions",
	} {
		answers := t.Raw(t.Head(http.MethodGet, target, nil) + "Connection: close\r\n\r\n")
		t.Check(len(answers) == 1, "%q: %d answers", target, len(answers))
		answer := answers[0]
		if answer.Status == http.StatusBadRequest && answer.Header.Get("X-Request-Id") == "" {
			continue // net/http itself rejects a target that is not a URL
		}
		t.JudgeFailure(answer)
		t.Check(answer.Status == http.StatusNotFound && answer.Header.Get("Location") == "", "%q: %d", target, answer.Status)
	}
	page := func(path string) probe.Answer {
		return t.Do(probe.Request{Path: path, Unsigned: true, Unchecked: true})
	}
	home := page("/docs")
	for _, target := range []string{"/", "/docs/"} {
		answer := page(target)
		t.Check(answer.Status == http.StatusOK && bytes.Equal(answer.Body, home.Body), "%s is not the home page of the docs: %d", target, answer.Status)
	}
	answers := t.Raw(t.Head(http.MethodGet, probe.Executions+"?limit=3&a=%7C", nil) + "Connection: close\r\n\r\n")
	t.Check(len(answers) == 1 && answers[0].Status == http.StatusOK, "a canonical target: %v", answers)
	head := t.Head(http.MethodGet, probe.Executions+"?limit=3", nil)
	answers = t.Raw(strings.Replace(head, " /", " http://"+host+"/", 1) + "Connection: close\r\n\r\n")
	t.Check(len(answers) == 1 && answers[0].Status == http.StatusOK, "a target in absolute form, signed from the path on: %v", answers)
}

func failuresAreClosed(t *probe.Trial) {
	// Every response is checked for traces of internals. These requests fail in
	// different layers.
	id := t.Execute(probe.RandomUUID().Waiting(15000)).ID.String()
	for _, request := range []probe.Request{
		{Path: "/v1/nothing"},
		{Method: http.MethodDelete, Path: probe.Components},
		{Path: probe.Executions, Sign: probe.Signing{Method: "PUT"}},
		{Path: probe.Executions + "?cursor=AAAA"},
		{Path: probe.Executions + "?limit=9999999999999999999999"},
		{Path: probe.Execution(strings.Repeat("f", 36))},
		{Method: http.MethodPost, Path: probe.Components, Body: []byte(`{`)},
		{Method: http.MethodPost, Path: probe.Components, Body: []byte(`{"module":"HASH","input":{"data":{}},"config":{}}`)},
		{Method: http.MethodPost, Path: probe.Execution(id) + "/replay-callback"},
	} {
		answer := t.Do(request)
		t.Check(answer.Status >= 400 && answer.Status < 500, "%s: %d", request.Path, answer.Status)
		for _, name := range []string{"Server", "X-Powered-By"} {
			t.Equal(name, answer.Header.Get(name), "")
		}
		var p api.Problem = t.Problem(answer, answer.Status, statusCode(answer.Status))
		t.Check(strings.HasPrefix(p.Instance, "urn:") || strings.HasPrefix(p.Instance, "/"), "instance %q", p.Instance)
		t.Soon(answer.Took, 10*time.Second, "a failure took %v", answer.Took)
	}
}

func statusCode(status int) string {
	return map[int]string{
		400: "INVALID_INPUT", 401: "UNAUTHORIZED", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 409: "NO_CALLBACK", 422: "INVALID_INPUT",
	}[status]
}
