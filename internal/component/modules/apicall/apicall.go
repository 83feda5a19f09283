// Package apicall implements the module API_CALL, which sends an HTTP request (category HTTP).
//
// Every request goes through the egress guard. Every response is considered hostile until it has
// been read within its limits. The package keeps no state between calls.
package apicall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	defaultTimeout = 30 * time.Second
	maxTimeout     = 120 * time.Second
)

// Modules returns the modules of the category HTTP. They connect through the guard.
func Modules(guard *egress.Guard) []component.Module {
	return []component.Module{&apiCall{guard: guard}}
}

type apiCall struct{ guard *egress.Guard }

func (*apiCall) Describe() component.Descriptor {
	return component.Descriptor{
		Module: "API_CALL",
		Title:  "API call",
		Description: "Sends an HTTP request and returns the status, headers and body of the response. " +
			"A status from 400 on is a failure, unless expectStatus allows it. Failures with 408, 425, 429 and 5xx are retryable; retries honor Retry-After up to one hour. " +
			"Up to three redirects are followed, unless followRedirects is false. They keep the method and the body, except that 303, and 301 and 302 after POST, become a GET. A redirect to another origin drops your headers; if it would send a body, the call fails. " +
			"POST and PATCH requests have an Idempotency-Key header unless you set one. It is the same for all attempts and for reruns with the same input and config, so a server that supports it does the work once. " +
			"After a crash, GET, PUT and DELETE requests are sent again. POST and PATCH requests are sent again only if you set an Idempotency-Key.",
		Category: "HTTP",
		Input:    component.Object(inputSchema),
		Config:   component.Object(configSchema),
		Output:   component.Object(outputSchema),
		Price:    credit.Credits(2),
		Timeout:  maxTimeout + 5*time.Second, // longer than timeoutMs, which then stops a slow call
		Effect:   component.EffectWrite,
		Repeat:   component.RepeatUnsafe,
		Modes:    []component.Mode{component.ModeComponent, component.ModeWorkflow},
	}
}

func (*apiCall) Formats() map[string]func(string) error {
	return map[string]func(string) error{
		"value-path": func(text string) error {
			_, err := parsePath(text)
			return err
		},
		"origin": func(text string) error {
			if reason := template.CheckOrigin(text); reason != "" {
				return errors.New(reason)
			}
			return nil
		},
	}
}

// Flow returns a description of the outputs: the fixed fields and the names in outputMapping.
func (*apiCall) Flow() component.Flow { return component.Flow{Gives: gives} }

func gives(_, raw, _ json.RawMessage, _ []string) []graph.Given {
	config, err := component.Decode[config](raw)
	if err != nil {
		return nil
	}
	properties := map[string]bool{"status": true, "headers": true, "setCookies": true, "body": true, "bodyEncoding": true}
	for name := range config.OutputMapping {
		properties[name] = true
	}
	possible, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "additionalProperties": false})
	if err != nil {
		return nil
	}
	return []graph.Given{{Possible: possible}}
}

// RepeatFor returns the repeat rule of a call. The call is idempotent if its HTTP method is, or
// if the caller set an Idempotency-Key.
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

// Keyed reports whether a POST or PATCH has an Idempotency-Key of the caller.
func (a *apiCall) Keyed(call component.Call) bool {
	config, err := component.Decode[config](call.Config)
	return err == nil && changes(config.Method) && a.RepeatFor(call) == component.RepeatIdempotent
}

// Unauthorized reports whether the server answered 401, as a failure or as a value.
func (*apiCall) Unauthorized(result component.Result, err error) bool {
	if failed, ok := errors.AsType[*component.Error](err); ok {
		return failed.Status() == http.StatusUnauthorized
	}
	var output struct{ Status int }
	return err == nil && json.Unmarshal(result.Output, &output) == nil && output.Status == http.StatusUnauthorized
}

type config struct {
	APIURL        string            `json:"apiUrl"`
	Method        string            `json:"method"`
	TimeoutMs     component.Integer `json:"timeoutMs"`
	ExpectStatus  statuses          `json:"expectStatus"`
	OutputMapping map[string]string `json:"outputMapping"`

	FollowRedirects *bool `json:"followRedirects"` // nil: true
}

type input struct {
	Headers map[string]string          `json:"headers"`
	Query   map[string]json.RawMessage `json:"query"`
	Body    json.RawMessage            `json:"body"`

	BodyEncoding string `json:"bodyEncoding"` // base64; otherwise the body is sent as it is
}

// statuses is the value of expectStatus: statuses, classes such as 2xx, or any.
type statuses []string

func (s *statuses) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if !bytes.HasPrefix(data, []byte("[")) {
		list = append(list, data)
	} else if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*s = make(statuses, len(list))
	for i, one := range list {
		if json.Unmarshal(one, &(*s)[i]) == nil {
			continue
		}
		var number component.Integer
		if err := json.Unmarshal(one, &number); err != nil {
			return err
		}
		(*s)[i] = strconv.FormatInt(int64(number), 10)
	}
	return nil
}

// allows reports whether a status is a value. By default, statuses below 400 are.
func (s statuses) allows(status int) bool {
	text := strconv.Itoa(status)
	return len(s) == 0 && status < http.StatusBadRequest || slices.ContainsFunc(s, func(one string) bool {
		return one == "any" || one == text || len(text) == 3 && one == text[:1]+"xx"
	})
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
	redirects := upstream.MaxRedirects
	if config.FollowRedirects != nil && !*config.FollowRedirects {
		redirects = 0
	}
	client := a.guard.Client(egress.ClientOptions{Timeout: timeout, Redirects: redirects, MaxBytes: upstream.MaxAnswer})
	answer, err := upstream.Do(client, request)
	if upstream.Stopped(err) {
		return component.Result{}, err
	}
	return result(answer, err, request.URL.Host, config, a.RepeatFor(call) == component.RepeatUnsafe)
}

// result returns the result of a call that was sent. unsafe reports whether the call must not be sent
// again once it may have taken effect.
func result(answer upstream.Answer, err error, host string, config config, unsafe bool) (component.Result, error) {
	cutOff := err != nil && answer.Begun && answer.Sent != egress.SentAnswered
	if answer.Status != 0 && !(unsafe && cutOff) {
		// The status decides first: a failure status says more than a broken body does.
		if refused := checkStatus(host, answer, config.ExpectStatus); refused != nil {
			return component.Result{}, final(refused, answer.Turned && changes(config.Method))
		}
	}
	if err == nil {
		return render(answer, config.OutputMapping)
	}
	failed, ok := errors.AsType[*component.Error](err)
	if ok && unsafe && cutOff && failed.Retryable {
		err = upstream.Unreadable(host, failed)
	}
	err = final(err, unsafe && answer.Begun || answer.Turned && changes(config.Method))
	return component.Result{}, unread(answer, config.OutputMapping, err)
}

// changes reports whether a request with this method may change something each time it is sent.
func changes(method string) bool { return method == http.MethodPost || method == http.MethodPatch }

// final makes an error permanent if the condition holds.
func final(err error, condition bool) error {
	if failed, ok := errors.AsType[*component.Error](err); ok && condition {
		failed.Retryable = false
	}
	return err
}

// checkStatus returns an error if the status is a failure.
func checkStatus(host string, answer upstream.Answer, expected statuses) error {
	switch {
	case expected.allows(answer.Status):
		return nil
	case len(expected) == 0:
		return upstream.Refused(host, answer, "")
	}
	return upstream.Refused(host, answer, "not in expectStatus")
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
	body, err := bodyOf(input, header, "weft-"+effectKey.String())
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, config.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, invalid("apiUrl or method is invalid")
	}
	request.Header = header
	// A server that supports the Idempotency-Key header recognizes a retry by the generated key.
	// The key doesn't make the call repeatable after a crash, because the server may not support
	// the header.
	if changes(config.Method) && header.Get(idempotencyKey) == "" {
		header.Set(idempotencyKey, effectKey.String())
	}
	return request, nil
}
