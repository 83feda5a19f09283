package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// Request is a request that is signed as the contract requires, with the exceptions
// in Sign.
type Request struct {
	Method string // GET
	Path   string // after the host, including the query
	Header http.Header
	Body   []byte // sent as application/json unless Header says otherwise
	Sign   Signing

	// Bearer is the token of a session, sent instead of a signature.
	Bearer string
	// Unsigned omits the signature.
	Unsigned bool

	// Unchecked skips the validation of the response, for floods of requests.
	Unchecked bool
	// Once sends the request a single time, for cases that provoke a 429 or 503. Otherwise the
	// request is repeated after Retry-After.
	Once bool
}

// Signing says how a signature differs from a valid one. The zero value is valid.
type Signing struct {
	As        *Credentials // instead of the target's
	Method    string
	Path      string
	Timestamp string
	Body      []byte
	Alter     func(http.Header) // changes the headers last
}

// Answer is a response.
type Answer struct {
	Operation string
	Status    int
	Header    http.Header
	Body      []byte
	Took      time.Duration

	bodiless bool // an answer to HEAD
}

// Do sends a request and validates the response against the document.
func (t *Trial) Do(r Request) Answer {
	answer, err := t.Try(t.ctx, r)
	t.NoError(r.name(), err)
	return answer
}

// Try is like Do with its own context, and returns errors instead of stopping the case.
func (t *Trial) Try(ctx context.Context, r Request) (Answer, error) {
	r, reported := t.withUnknown(t.strictly(r.identified()))
	x, err := t.send(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	answer, err := t.read(x, r)
	if err != nil {
		return answer, err
	}
	t.busy(x.refused)
	if r.Unchecked {
		return answer, nil
	}
	return answer, t.checkIgnored(answer, reported)
}

// identified returns the request with a new request ID, which the response must repeat.
func (r Request) identified() Request {
	if _, given := r.Header["X-Request-Id"]; !given {
		r.Header = maps.Clone(r.Header)
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("X-Request-Id", rand.Text())
	}
	return r
}

// HandleStrictly adds `Prefer: handling=strict` to every later request of Do.
func (t *Trial) HandleStrictly() { t.strict = true }

func (t *Trial) strictly(r Request) Request {
	if t.strict {
		r.Header = maps.Clone(r.Header)
		r.Header.Set("Prefer", "handling=strict")
	}
	return r
}

// decidedBy maps a response header to the part that requires it.
var decidedBy = map[string]string{
	"Cache-Control": "D9.4", "X-Content-Type-Options": "D9.4",
	"X-Request-Id": "D1.6.id", "Ratelimit": "D6.fields", "Ratelimit-Policy": "D6.fields",
	"Idempotent-Replayed": "D1.7.replay", "Preference-Applied": "D1.1.strict", "Weft-Ignored": "D1.1.reported", "Set-Cookie": "D9.2.cookie", "Etag": "D3.412",
}

// judge validates a response against the document and against the rules for every
// response (decisions 1.6, 3).
func (t *Trial) judge(operation *Operation, r Request, answer Answer) error {
	failed := answer.Status >= http.StatusBadRequest
	err := t.target.Spec.check(operation, answer)
	if err != nil {
		err = fmt.Errorf("%d: %w", answer.Status, err)
	}
	if failed { // the contract does not define the form of an error
		err = t.departs("D3.form", err)
	}
	if err != nil {
		return err
	}
	var all []error
	for name, err := range t.target.Spec.checkHeaders(operation, answer) {
		part := cmp.Or(decidedBy[name], "D3.form")
		if name == "Retry-After" { // the contract requires it, but does not define its form
			part = map[bool]string{true: "D6.retry"}[answer.Header.Get(name) != ""]
		}
		if part != "" {
			err = t.departs(part, err)
		}
		all = append(all, err)
	}
	strict := r.Header.Get("Prefer") == "handling=strict" && !failed
	if applied := answer.Header.Get("Preference-Applied"); operation != nil && strict != (applied == "handling=strict") {
		all = append(all, t.departs("D1.1.strict", fmt.Errorf("Preference-Applied is %q for Prefer: %s", applied, r.Header.Get("Prefer"))))
	}
	if answer.Header.Get("Date") == "" {
		all = append(all, t.departs("D2.5.date", errors.New("the header Date is missing")))
	}
	if own, id := r.Header.Get("X-Request-Id"), answer.Header.Get("X-Request-Id"); len(own) <= 128 && requestIDForm.MatchString(own) && own != id {
		all = append(all, t.departs("D1.6.own", fmt.Errorf("X-Request-Id is %q, not our own %q", id, own)))
	}
	if failed && !answer.bodiless {
		all = append(all, t.departs("D3.form", checkProblem(answer)), t.departs("D3.table", checkCode(answer)), t.departs("D3.inside", checkClosed(answer)))
	}
	return errors.Join(all...)
}

func (t *Trial) sign(ctx context.Context, r Request) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, strings.TrimSuffix(t.target.BaseURL, "/")+r.Path, body)
	if err != nil {
		return nil, err
	}
	if r.Body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if t.target.Forwarded {
		request.Header.Set("X-Forwarded-For", t.address)
	}
	request.Header.Set("User-Agent", "weft-conformance")
	maps.Copy(request.Header, r.Header)
	if r.Bearer != "" {
		request.Header.Set("Authorization", "Bearer "+r.Bearer)
	}
	if r.Bearer != "" || r.Unsigned {
		return request, nil
	}
	as := t.target.Credentials
	if r.Sign.As != nil {
		as = *r.Sign.As
	}
	method, path, timestamp, signed := r.Method, request.URL.RequestURI(), Timestamp(time.Now()), r.Body
	override(&method, r.Sign.Method)
	override(&path, r.Sign.Path)
	override(&timestamp, r.Sign.Timestamp)
	if r.Sign.Body != nil {
		signed = r.Sign.Body
	}
	signature, err := Sign(as.APISecret, Message(method, path, timestamp, signed))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Api-Key", as.APIKey)
	request.Header.Set("X-Sdk-Timestamp", timestamp)
	request.Header.Set("X-Sdk-Signature", signature)
	if r.Sign.Alter != nil {
		r.Sign.Alter(request.Header)
	}
	return request, nil
}

func override(value *string, with string) {
	if with != "" {
		*value = with
	}
}

func answered(operation *Operation, response *http.Response, body []byte) Answer {
	answer := Answer{Status: response.StatusCode, Header: response.Header, Body: body}
	if operation != nil {
		answer.Operation = operation.ID
	}
	answer.bodiless = response.Request != nil && response.Request.Method == http.MethodHead
	return answer
}

func (r Request) name() string {
	if r.Method == "" {
		return "GET " + r.Path
	}
	return r.Method + " " + r.Path
}

// Get sends a GET request.
func (t *Trial) Get(path string) Answer { return t.Do(Request{Path: path}) }

// Post sends a value as compact JSON.
func (t *Trial) Post(path string, body any) Answer {
	return t.Do(Request{Method: http.MethodPost, Path: path, Body: t.JSON(body)})
}

// JSON returns a value as compact JSON.
func (t *Trial) JSON(value any) []byte {
	data, err := json.Marshal(value)
	t.NoError("encode", err)
	return data
}

// Decode decodes the body of a response with status 200. Any other status fails the case.
func Decode[T any](t *Trial, answer Answer) T {
	var value T
	t.Check(answer.Status == http.StatusOK, "%s: got %d, want 200: %s", answer.Operation, answer.Status, answer.Body)
	t.NoError(answer.Operation, json.Unmarshal(answer.Body, &value))
	return value
}

// Sessions is the path for signing in. Workspaces is the path of all workspaces.
const (
	Sessions   = "/v1/sessions"
	Current    = Sessions + "/current"
	Workspaces = "/v1/workspaces"
)

// Workspace is the path of one workspace.
func Workspace(id string) string { return Workspaces + "/" + id }

// Entry is a request to sign in.
func (t *Trial) Entry(email, password string) Request {
	return Request{
		Method: http.MethodPost, Path: Sessions, Unsigned: true,
		Body: t.JSON(map[string]string{"email": email, "password": password}),
	}
}
