// Package apicall implements the module API_CALL, which sends an HTTP request (category HTTP).
//
// Every request goes through the egress guard. Every response is hostile until it has been read
// within its limits. The package keeps no state between calls.
package apicall

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	defaultTimeout = 30 * time.Second
	maxTimeout     = 120 * time.Second
)

// Modules is the table of the family.
func Modules(guard *egress.Guard) []component.Module {
	return []component.Module{&apiCall{guard: guard}}
}

type apiCall struct{ guard *egress.Guard }

func (*apiCall) Describe() component.Descriptor {
	return component.Descriptor{
		Module: "API_CALL",
		Title:  "API call",
		Description: "Sends an HTTP request and returns the answer's status, headers and body. " +
			"Statuses 408, 425, 429 and 5xx fail and may be attempted again, no earlier than the answer's Retry-After says, for which attempts wait up to an hour; every other status is a value, unless expectStatus says otherwise. " +
			"Up to three redirects are followed, with the method and the body as they were but for 303, and 301 and 302 after POST, which lead to a GET; to another origin without your headers, and never with a body: such a call fails. " +
			"POST and PATCH carry an Idempotency-Key unless headers have one. It is the same for each attempt, and for a rerun with the same input and config, so an upstream that honours it does the work once. " +
			"After a crash GET, PUT and DELETE are sent again; POST and PATCH only when headers carry an Idempotency-Key of yours.",
		Category: "HTTP",
		Input:    json.RawMessage(inputSchema),
		Config:   json.RawMessage(configSchema),
		Output:   json.RawMessage(outputSchema),
		Price:    credit.Credits(2),
		Timeout:  maxTimeout + 5*time.Second, // so that timeoutMs is what ends a slow call
		Effect:   component.EffectWrite,
		Repeat:   component.RepeatUnsafe,
		Modes:    []component.Mode{component.ModeComponent, component.ModeWorkflow},
	}
}

func (*apiCall) Formats() map[string]func(string) error {
	return map[string]func(string) error{"value-path": func(text string) error {
		_, err := parsePath(text)
		return err
	}}
}

// Flow says that the outputs beyond those of each answer are the names of outputMapping.
func (*apiCall) Flow() component.Flow { return component.Flow{Gives: gives} }

func gives(_, raw, _ json.RawMessage, _ []string) []graph.Given {
	config, err := component.Decode[config](raw)
	if err != nil {
		return nil
	}
	properties := map[string]bool{"status": true, "headers": true, "body": true, "bodyEncoding": true}
	for name := range config.OutputMapping {
		properties[name] = true
	}
	possible, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "additionalProperties": false})
	if err != nil {
		return nil
	}
	return []graph.Given{{Possible: possible}}
}

// RepeatFor is the rule of this very call: what HTTP calls idempotent, and
// what the caller made so by an Idempotency-Key.
func (*apiCall) RepeatFor(call component.Call) component.Repeat {
	config, err := component.Decode[config](call.Config)
	if err != nil {
		return component.RepeatUnsafe
	}
	input, err := component.Decode[input](call.Input)
	if err != nil {
		return component.RepeatUnsafe
	}
	switch config.Method {
	case http.MethodGet, http.MethodPut, http.MethodDelete:
		return component.RepeatIdempotent
	}
	for name, value := range input.Headers {
		if strings.EqualFold(name, idempotencyKey) && strings.TrimSpace(value) != "" {
			return component.RepeatIdempotent
		}
	}
	return component.RepeatUnsafe
}

type config struct {
	APIURL        string            `json:"apiUrl"`
	Method        string            `json:"method"`
	TimeoutMs     component.Integer `json:"timeoutMs"`
	ExpectStatus  statuses          `json:"expectStatus"`
	OutputMapping map[string]string `json:"outputMapping"`
}

type input struct {
	Headers map[string]string          `json:"headers"`
	Query   map[string]json.RawMessage `json:"query"`
	Body    json.RawMessage            `json:"body"`
}

// statuses is expectStatus: one status or several.
type statuses []component.Integer

func (s *statuses) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]component.Integer)(s))
	}
	*s = make(statuses, 1)
	return json.Unmarshal(data, &(*s)[0])
}

func (a *apiCall) Run(ctx context.Context, call component.Call) (component.Result, error) {
	config, err := component.Decode[config](call.Config)
	if err != nil {
		return component.Result{}, err
	}
	input, err := component.Decode[input](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	timeout := defaultTimeout
	if config.TimeoutMs > 0 {
		timeout = min(time.Duration(config.TimeoutMs)*time.Millisecond, maxTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := newRequest(ctx, config, input, call.EffectKey)
	if err != nil {
		return component.Result{}, err
	}
	client := a.guard.Client(egress.ClientOptions{Timeout: timeout, Redirects: upstream.MaxRedirects, MaxBytes: upstream.MaxAnswer})
	answer, err := upstream.Do(client, request)
	if err != nil {
		return component.Result{}, err
	}
	if err := judge(request.URL.Host, answer, config.ExpectStatus); err != nil {
		return component.Result{}, err
	}
	return render(answer, config.OutputMapping)
}

// judge says whether the status is a value or a failure.
func judge(host string, answer upstream.Answer, expected statuses) error {
	if len(expected) == 0 {
		if upstream.Temporary(answer.Status) {
			return upstream.Refused(host, answer, "")
		}
		return nil
	}
	if slices.Contains(expected, component.Integer(answer.Status)) {
		return nil
	}
	return upstream.Refused(host, answer, "expectStatus does not have it")
}

const idempotencyKey = "Idempotency-Key"

func newRequest(ctx context.Context, config config, input input, effectKey uuid.UUID) (*http.Request, error) {
	target, err := targetOf(config.APIURL, input.Query)
	if err != nil {
		return nil, err
	}
	header, err := headerOf(input.Headers)
	if err != nil {
		return nil, err
	}
	body, err := bodyOf(input.Body, header)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, config.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, component.Permanent(component.CodeInvalidInput, "apiUrl or method cannot be sent")
	}
	request.Header = header
	// A key of our own costs nothing and lets an upstream that knows the header
	// tell a second attempt from a second wish. It does not make the call
	// repeatable after a crash: whether the upstream honours it is not known.
	if (config.Method == http.MethodPost || config.Method == http.MethodPatch) && header.Get(idempotencyKey) == "" {
		header.Set(idempotencyKey, effectKey.String())
	}
	return request, nil
}
