package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/oasdiff/yaml"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/utility"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/web/catalog"
	"github.com/weft-automation/weft/internal/web/contract"
)

// real serves the production operations behind the tests' front. The service has no database, so
// only requests that need no database work.
func real(t *testing.T, ready func(context.Context) []Check) *service {
	t.Helper()
	registry, err := component.NewRegistry(utility.Modules()...)
	if err != nil {
		t.Fatal(err)
	}
	catalogue := catalog.New(registry)
	deps := execution.Deps{Modules: registry}
	executions := execution.NewService(deps, execution.NewRunner(deps, &execution.Identity{}, 0, slog.New(slog.DiscardHandler)))
	t.Cleanup(executions.Close)
	return start(t, func(s *service, config *http.Server) {
		s.front.mount(&Server{
			Deps:       Deps{Executions: executions, Guard: egress.New(egress.Policy{}), Catalogue: catalogue, ReadyFunc: ready},
			systemFunc: encodeSystem(catalogue),
		}, nil)
	})
}

func TestAB06ErrorsNeverEchoHostileValues(t *testing.T) {
	s := real(t, nil)
	long := strings.Repeat("LONG", 2500)
	for _, c := range []struct {
		name, body string
		status     int
		pointer    string
	}{
		{"unknown", `{"module":"NO_SUCH_MODULE","input":{},"config":{}}`, 400, "/module"},
		{"in lower case", `{"module":"hash","input":{},"config":{}}`, 400, "/module"},
		{"10 kB", `{"module":"` + long + `","input":{},"config":{}}`, 400, "/module"},
		{"path-like", `{"module":"../../etc/passwd","input":{},"config":{}}`, 400, "/module"},
		{"Cyrillic A", `{"module":"H\u0410SH","input":{},"config":{}}`, 400, "/module"},
		{"full width", `{"module":"ＨＡＳＨ","input":{},"config":{}}`, 400, "/module"},
		{"dotless i", `{"module":"RANDOM_UU\u0131D","input":{},"config":{}}`, 400, "/module"},
		{"trailing space", `{"module":"HASH ","input":{},"config":{}}`, 400, "/module"},
		{"number", `{"module":7,"input":{},"config":{}}`, 400, "/module"},
		{"input is an array", `{"module":"HASH","input":["` + long + `"],"config":{}}`, 400, "/input"},
		{"config is a string", `{"module":"HASH","input":{},"config":"` + long + `"}`, 400, "/config"},
		{"input is null", `{"module":"HASH","input":null,"config":{}}`, 400, "/input"},
		{"input breaks the module's schema", `{"module":"HASH","input":{"data":"a","algorithm":"` + long + `"},"config":{}}`, 422, "/input/algorithm"},
		{"a long unknown header", `{"module":"HASH","input":{"data":"a"},"config":{},"callbackUrl":"https://hooks.example.org/","callbackHeaders":{"` + long[:1000] + `":"a"}}`, 400, "/callbackHeaders/" + long[:64] + "..."},
		{"a reserved header", `{"module":"HASH","input":{"data":"a"},"config":{},"callbackUrl":"https://hooks.example.org/","callbackHeaders":{"X-Svc-Signature":"` + long[:4000] + `"}}`, 400, "/callbackHeaders/X-Svc-Signature"},
		{"a callback to this machine", `{"module":"HASH","input":{"data":"a"},"config":{},"callbackUrl":"https://127.0.0.1/` + long[:1900] + `"}`, 400, "/callbackUrl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.do(t, "POST", executePath, c.body)
			problem := got.problem(t)
			if got.status != c.status || problem.Code != fault.InvalidInput || len(problem.Errors) == 0 || problem.Errors[0].Pointer != c.pointer {
				t.Errorf("%d %s", got.status, got.body)
			}
			if strings.Contains(got.body, long[:101]) {
				t.Errorf("the response contains the value: %s", got.body)
			}
			if strings.Contains(s.logs.String(), long[:101]) {
				t.Error("the log contains the value")
			}
		})
	}
}

// The write timeout of the server applies to ordinary responses. A stream outlives it, because
// it sets a deadline for each write.
func TestSS13StreamsAreExemptFromTheWriteTimeout(t *testing.T) {
	const timeout = 300 * time.Millisecond
	release, asked := make(chan struct{}), make(chan struct{}, 8)
	s := start(t, func(s *service, config *http.Server) { config.WriteTimeout = timeout })
	s.operations.get = func(ctx context.Context) (api.ComponentExecution, error) {
		asked <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return api.ComponentExecution{}, nil
	}
	events := make(chan api.ComponentExecutionEvent)
	s.operations.stream = func(ctx context.Context) (api.StreamComponentExecutionResponseObject, error) {
		return executionStream(context.WithoutCancel(ctx), func() {}, events, streams{log: s.front.log}), nil
	}
	began := time.Now()
	answer := s.open(t, getPath+"/stream")
	ordinary := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+getPath, nil)
		if err == nil {
			r.Header.Set(auth.HeaderKey, "ws_test")
			_, err = s.Client().Do(r)
		}
		ordinary <- err
	}()
	<-asked
	<-time.After(2 * timeout) // that much of the timeout must pass
	close(release)
	if err := <-ordinary; err == nil {
		t.Error("an ordinary response outlived the write timeout")
	}
	lines := bufio.NewScanner(answer.Body)
	for i, state := range []status.Execution{status.ExecutionExecuting, status.ExecutionCompleted} {
		events <- api.ComponentExecutionEvent{Status: state}
		if i == 0 {
			expect(t, lines, "event: progress")
		}
		expect(t, lines, fmt.Sprintf("id: %d", i+2))
		expect(t, lines, `data: {`)
		expect(t, lines, "")
	}
	close(events)
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the last event: got %q, %v", lines.Text(), lines.Err())
	}
	if elapsed := time.Since(began); elapsed < timeout {
		t.Errorf("the stream lived only %s", elapsed)
	}
}

// The handler timeout makes an ordinary request fail with 503. It doesn't apply to streams.
func TestSS13OrdinaryHandlersHaveADeadline(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) { s.front.timeouts.handler = 50 * time.Millisecond })
	s.operations.get = func(ctx context.Context) (api.ComponentExecution, error) {
		<-ctx.Done()
		return api.ComponentExecution{}, ctx.Err()
	}
	if got := s.do(t, "GET", getPath, ""); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	s.operations.stream = func(ctx context.Context) (api.StreamComponentExecutionResponseObject, error) {
		if _, bounded := ctx.Deadline(); bounded {
			return nil, errors.New("the stream has a deadline")
		}
		return nil, fault.New(fault.NotFound, "none")
	}
	if got := s.do(t, "GET", getPath+"/stream", ""); got.status != 404 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if defaultTimeouts.handler >= writeTimeout {
		t.Error("the handler timeout plus the body timeout exceeds the write timeout, so the 503 could not be sent")
	}
}

func (s *service) open(t *testing.T, target string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(auth.HeaderKey, "ws_test")
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" || answer.Header.Get("X-Request-Id") == "" {
		t.Fatalf("%d %v", answer.StatusCode, answer.Header)
	}
	return answer
}

func expect(t *testing.T, lines *bufio.Scanner, prefix string) {
	t.Helper()
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), prefix) || prefix == "" && lines.Text() != "" {
		t.Fatalf("got %q, want %q", lines.Text(), prefix)
	}
}

func TestStreamsCloseOnDrain(t *testing.T) {
	draining := make(chan struct{})
	verifier, err := auth.NewVerifier(nil, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t)
	events := make(chan api.ComponentExecutionEvent, 1)
	events <- api.ComponentExecutionEvent{Status: status.ExecutionExecuting}
	s.operations.stream = func(ctx context.Context) (api.StreamComponentExecutionResponseObject, error) {
		all := streams{verifier: verifier, draining: draining, spread: 50 * time.Millisecond, log: s.front.log}
		ctx, stop, err := all.open(ctx)
		return executionStream(ctx, stop, events, all), err
	}
	answer := s.open(t, getPath+"/stream")
	close(draining)
	data, err := io.ReadAll(answer.Body)
	if err != nil || strings.Count(string(data), "data: ") != 1 {
		t.Errorf("%q, %v", data, err)
	}
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

func TestValidRequestIDIsKept(t *testing.T) {
	s := start(t)
	for given, kept := range map[string]bool{
		"checkout-7f3a": true, "A.b_c-9": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "a b": false, "a/b": false, "é": false,
	} {
		got := s.do(t, "GET", getPath, "", "X-Request-Id: "+given).header.Get("X-Request-Id")
		if (got == given) != kept || !requestID.MatchString(got) {
			t.Errorf("request ID %q: got %q", given, got)
		}
	}
}

// Packages put a time.Time into a fault's Extra. This package formats it.
func TestTimesInProblemsHaveContractFormat(t *testing.T) {
	refusal := fault.New(fault.Unauthorized, "late")
	refusal.Extra = map[string]any{"serverTime": time.Date(2026, 11, 21, 11, 15, 30, 999_999_999, time.FixedZone("CET", 3600))}
	if _, body := render(refusal, "r"); !strings.Contains(string(body), `"serverTime":"2026-11-21T10:15:30.999Z"`) {
		t.Errorf("%s", body)
	}
}

func TestPreferStrictRejectsUnknownFields(t *testing.T) {
	s := start(t)
	body := `{"module":"HASH","input":{},"config":{},"colour":"red"}`
	if got := s.do(t, "POST", executePath, body); got.status != 200 || got.header.Get("Preference-Applied") != "" {
		t.Errorf("lenient: %d %s", got.status, got.body)
	}
	for _, prefer := range []string{"handling=strict", `respond-async, Handling="strict"; x=y`} {
		got := s.do(t, "POST", executePath, body, "Prefer: "+prefer)
		if got.status != 400 || got.problem(t).Errors[0].Pointer != "/colour" {
			t.Errorf("%s: %d %s", prefer, got.status, got.body)
		}
		if got := s.do(t, "GET", "/v1/sdk/components?nonce=1", "", "Prefer: "+prefer); got.status != 400 {
			t.Errorf("%s: %d %s", prefer, got.status, got.body)
		}
		if got := s.do(t, "GET", getPath, "", "Prefer: "+prefer); got.status != 200 || got.header.Get("Preference-Applied") != "handling=strict" {
			t.Errorf("%s: %d %v", prefer, got.status, got.header)
		}
	}
	if got := s.do(t, "POST", executePath, body, "Prefer: handling=lenient"); got.status != 200 {
		t.Errorf("handling=lenient: %d", got.status)
	}
}

// The key reaches the service as sent. The generated code would split it at commas.
func TestIdempotencyKeyIsNotSplitAtCommas(t *testing.T) {
	s := start(t)
	for _, key := range []string{"order-4711", "a, b;c=d %41 \"q\"", strings.Repeat("k", 255)} {
		got := s.do(t, "POST", executePath, envelope("1"), "Idempotency-Key: "+key)
		if got.status != 200 || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %d %s", key, got.status, got.body)
		}
	}
	r, err := http.NewRequest("POST", executePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "a,b")
	document, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	execute := slices.IndexFunc(document.Operations, func(o *contract.Operation) bool { return o.Pattern() == "POST "+executePath })
	c := call{operation: document.Operations[execute], principal: auth.Principal{WorkspaceID: uuid.Max}}
	if c.setIdempotency(r, []byte("{}")); c.idempotency().Key != "a,b" || c.idempotency().Path != executePath || c.idempotency().WorkspaceID != uuid.Max {
		t.Errorf("%+v", c.idempotency())
	}
}

func TestReadinessNamesFailedChecksWithoutCause(t *testing.T) {
	var failing error
	s := real(t, func(context.Context) []Check {
		return []Check{{Name: "database"}, {Name: "workers", Err: failing}}
	})
	if got := s.do(t, "GET", "/readyz", ""); got.status != 200 || strings.TrimSpace(got.body) != `{"checks":[{"name":"database","status":"ok"},{"name":"workers","status":"ok"}],"status":"ready"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	failing = errors.New("password of 10.0.0.7 refused")
	got := s.do(t, "GET", "/readyz", "")
	if got.status != 503 || got.header.Get("Retry-After") == "" || got.problem(t).Errors[0].Pointer != "/checks/workers" || strings.Contains(got.body, "10.0.0.7") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := s.do(t, "GET", "/healthz", "", "X-Api-Key: "); got.status != 200 || strings.TrimSpace(got.body) != `{"status":"alive"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestContractIsServedInEachFormat(t *testing.T) {
	s := real(t, nil)
	asJSON, asYAML, edition := s.do(t, "GET", "/openapi.json", ""), s.do(t, "GET", "/openapi.yaml", ""), s.do(t, "GET", "/openapi-3.0.json", "")
	var fromJSON, fromYAML map[string]any
	if err := json.Unmarshal([]byte(asJSON.body), &fromJSON); err != nil {
		t.Fatal(err)
	}
	converted, err := yaml.YAMLToJSON([]byte(asYAML.body))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(converted, &fromYAML); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fromJSON, fromYAML) || asJSON.header.Get("Content-Type") != "application/json" || asYAML.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("%v, %v", asJSON.header, asYAML.header)
	}
	var from30 map[string]any
	if err := json.Unmarshal([]byte(edition.body), &from30); err != nil || edition.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v, %v", edition.header, err)
	}
	if fromJSON["openapi"] != "3.1.0" || from30["openapi"] != "3.0.3" {
		t.Errorf("OpenAPI versions: got %v and %v", fromJSON["openapi"], from30["openapi"])
	}
	for _, ours := range []string{"x-go-type", "timestamp.Time"} {
		if strings.Contains(asJSON.body+asYAML.body+edition.body, ours) {
			t.Errorf("%s is in the contract", ours)
		}
	}
}

func TestCatalogueIsPagedAndMatchesSchema(t *testing.T) {
	s := real(t, nil)
	page, component := schemaOf(t, "/components/schemas/ComponentPage"), schemaOf(t, "/components/schemas/Component")
	var names []string
	for cursor := ""; ; {
		got := s.do(t, "GET", "/v1/sdk/components?limit=1"+cursor, "")
		var read api.ComponentPage
		if err := json.Unmarshal([]byte(got.body), &read); err != nil || got.status != 200 || len(read.Data) != 1 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if err := page.Validate(normal(t, jsonOf(t, got.body))); err != nil {
			t.Error(err)
		}
		names = append(names, read.Data[0].Module)
		if !read.HasMore {
			break
		}
		cursor = "&cursor=" + *read.NextCursor
	}
	if !slices.IsSorted(names) || len(names) != len(utility.Modules()) || !slices.Contains(names, "HASH") {
		t.Errorf("%v", names)
	}
	got := s.do(t, "GET", "/v1/sdk/components/HASH", "")
	if err := component.Validate(normal(t, jsonOf(t, got.body))); err != nil || got.status != 200 {
		t.Errorf("%d %v", got.status, err)
	}
	for target, want := range map[string]int{"/v1/sdk/components/NO_SUCH": 404, "/v1/sdk/components/hash": 404, "/v1/sdk/components?cursor=A": 400, "/v1/sdk/components?limit=101": 400} {
		if got := s.do(t, "GET", target, ""); got.status != want {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
	system := s.do(t, "GET", "/v1/system/components", "", "X-Api-Key: ")
	all := schemaOf(t, "/paths/~1v1~1system~1components/get/responses/200/content/application~1json/schema")
	if err := all.Validate(normal(t, jsonOf(t, system.body))); err != nil || system.status != 200 {
		t.Errorf("%d %v", system.status, err)
	}
}

func TestHealthServesOnlyHealthChecks(t *testing.T) {
	s := start(t)
	handler, err := Health(func(context.Context) []Check { return nil }, nil, s.front.log)
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Handler = handler
	for target, want := range map[string]int{"/healthz": 200, "/readyz": 200, getPath: 404, "/openapi.json": 404, executePath: 404} {
		if got := s.do(t, "GET", target, ""); got.status != want {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
}
