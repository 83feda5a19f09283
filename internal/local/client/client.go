// Package client calls a Weft over HTTP as a customer's program would: it signs requests and reads
// records, problems and event streams.
//
// The CLI and the benchmark use it. The conformance cases never use it, so that they don't share
// its mistakes. Invariant: The client signs exactly the bytes and the target that it sends, without
// the path of the base URL.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// maxAnswer bounds the body of a response: an output of a mebibyte and the record around it.
const maxAnswer = 8 << 20

// Client calls one Weft with one key. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
	// Ignored is called with the Weft-Ignored header of each response that has one: the query
	// parameters and fields that the service does not know. Nil: not reported.
	Ignored func(names string)
}

// New returns a client for the Weft at baseURL. transport may be nil.
func New(baseURL string, signer *Signer, transport http.RoundTripper) (*Client, error) {
	base, err := ParseBase(baseURL)
	if err != nil {
		return nil, err
	}
	return &Client{base: base, http: &http.Client{
		Transport: &Transport{Signer: signer, Prefix: base.EscapedPath(), Base: transport},
		// A signature is valid for one target, and a redirect would need a different signature.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// ParseBase reads the base URL of a Weft: scheme, host, and a path if a proxy removes one
// before the request reaches Weft.
func ParseBase(baseURL string) (*url.URL, error) {
	base, err := url.Parse(baseURL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("%q is not a base URL such as http://127.0.0.1:8080", baseURL)
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("the base URL %q must not contain a user, query or fragment", baseURL)
	}
	path := strings.TrimRight(base.Path, "/")
	if strings.HasSuffix(path, "/v1") || strings.HasSuffix(path, "/v1/sdk") {
		return nil, fmt.Errorf("the base URL %q must end before /v1", baseURL)
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: path, RawPath: strings.TrimRight(base.RawPath, "/")}, nil
}

// Execute submits a component. It returns the record and the bytes that it was decoded from.
func (c *Client) Execute(ctx context.Context, request api.ExecuteComponentRequest, header http.Header) (api.ComponentExecution, json.RawMessage, error) {
	body, err := strictjson.Encode(request)
	if err != nil {
		return api.ComponentExecution{}, nil, fmt.Errorf("encode the request: %w", err)
	}
	return c.record(ctx, http.MethodPost, "/v1/sdk/components", body, header)
}

// Get returns the current record of an execution.
func (c *Client) Get(ctx context.Context, executionID uuid.UUID) (api.ComponentExecution, json.RawMessage, error) {
	return c.record(ctx, http.MethodGet, executionPath(executionID), nil, nil)
}

func executionPath(executionID uuid.UUID) string {
	return "/v1/sdk/components/executions/" + executionID.String()
}

func (c *Client) record(ctx context.Context, method, target string, body []byte, header http.Header) (api.ComponentExecution, json.RawMessage, error) {
	var record api.ComponentExecution
	raw, err := c.Call(ctx, method, target, body, header)
	if err != nil {
		return record, nil, err
	}
	if err := json.Unmarshal(raw, &record); err != nil {
		return record, nil, fmt.Errorf("read the execution record: %w", err)
	}
	return record, raw, nil
}

// Call makes one signed request and returns the body of a 200 response. It returns a *Problem for any
// other status.
func (c *Client) Call(ctx context.Context, method, target string, body []byte, header http.Header) ([]byte, error) {
	answer, err := c.do(ctx, method, target, body, header)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	return raw, nil
}

// do returns a response with status 200. The caller closes its body.
func (c *Client) do(ctx context.Context, method, target string, body []byte, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base.String()+target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		return nil, c.readProblem(answer, body)
	}
	if names := answer.Header.Get("Weft-Ignored"); names != "" && c.Ignored != nil {
		c.Ignored(names)
	}
	return answer, nil
}
