package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/content"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	callTimeout = 20 * time.Second // timeout of one JSON-RPC call

	classRPC    = "rpc"    // the node returned an error
	classRevert = "revert" // the contract reverted
)

// node is a client of the caller's node, for one execution.
type node struct {
	client *http.Client
	url    string
	host   string
	header http.Header

	contract   *contractABI // the ABI of the called contract; nil if unknown
	acceptsABI bool         // the module has an abi input
}

// dial returns a client of the node that the input of a module names.
func dial(guard *egress.Guard, input json.RawMessage) (*node, error) {
	to, err := component.Decode[struct {
		JSONRPCURL string            `json:"jsonRpcUrl"`
		Headers    map[string]string `json:"headers"`
	}](input)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(to.JSONRPCURL)
	if err != nil {
		return nil, component.Permanent(component.CodeInvalidInput, "jsonRpcUrl is not a valid URL")
	}
	header := http.Header{"User-Agent": {"Weft"}}
	for _, name := range slices.Sorted(maps.Keys(to.Headers)) {
		header.Set(name, to.Headers[name])
	}
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json")
	return &node{
		client: guard.Client(egress.ClientOptions{Timeout: callTimeout, Redirects: upstream.MaxRedirects, MaxBytes: upstream.MaxAnswer}),
		url:    to.JSONRPCURL,
		host:   target.Host,
		header: header,
	}, nil
}

// dialWithABI is like dial and also parses the optional ABI of the called contract.
func dialWithABI(guard *egress.Guard, input json.RawMessage, abi json.RawMessage) (*node, error) {
	contract, err := parseABI(abi)
	if err != nil {
		return nil, invalidAt("abi", err)
	}
	n, err := dial(guard, input)
	if err != nil {
		return nil, err
	}
	n.contract, n.acceptsABI = contract, true
	return n, nil
}

// call invokes a method and decodes its result into out. The type of out validates the result. If
// the result is null and out points to a pointer, the pointer stays nil. Failures of the node, and
// malformed responses, are returned as *component.Error.
func (n *node) call(ctx context.Context, out any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return component.Permanent(component.CodeInvalidInput, "jsonRpcUrl is not a valid URL")
	}
	request.Header = n.header.Clone()
	answer, err := upstream.Do(n.client, request)
	if err != nil && !upstream.Stopped(err) && upstream.Temporary(answer.Status) {
		return upstream.Refused(n.host, answer, "") // an unreadable error page
	}
	if err != nil {
		return err
	}
	result, err := n.result(method, answer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(result, out); err != nil {
		return n.malformed(method, err)
	}
	return nil
}

// result returns the result in a JSON-RPC 2.0 response. It returns an error if the response has an
// error or is malformed.
func (n *node) result(method string, answer upstream.Answer) (json.RawMessage, error) {
	var envelope struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *rpcError       `json:"error"`
	}
	text, err := content.Text(answer.Header.Get("Content-Type"), answer.Body)
	if err != nil {
		err = protocolError(upstream.ErrCharset.Error())
	} else {
		err = json.Unmarshal(text, &envelope)
	}
	failed := answer.Status != http.StatusOK
	if e := envelope.Error; err == nil && e != nil && !e.empty() && (e.object || envelope.Version != "" || !failed) {
		return nil, n.failure(*e, answer)
	}
	switch {
	case failed:
		return nil, upstream.Refused(n.host, answer, "")
	case err != nil:
		return nil, n.foreign(method, answer, err)
	case envelope.Version != "2.0" || strings.Trim(string(envelope.ID), `"`) != "1" || len(envelope.Result) == 0:
		return nil, n.foreign(method, answer, protocolError("it is not a JSON-RPC 2.0 response to the request"))
	}
	return envelope.Result, nil
}

// foreign is like malformed for a response that isn't JSON-RPC. Like the error of a failure status, it
// has the start of the body: such a body usually says what a proxy in front of the node wants.
func (n *node) foreign(method string, answer upstream.Answer, cause error) error {
	failed := n.malformed(method, cause)
	excerpt := upstream.Excerpt(answer.Body)
	if excerpt == "" {
		return failed
	}
	failed.Message += ". The response starts with: " + excerpt
	return failed.With(upstream.Details{
		Class: egress.ClassMalformed, Reason: egress.ReasonJSONRPC, Sent: answer.Sent, Status: answer.Status, UpstreamMessage: excerpt,
	})
}

// malformed returns the error for a response that violates the protocol. It is retryable, because
// the cause may be a proxy in front of the node.
func (n *node) malformed(method string, cause error) *component.Error {
	message := fmt.Sprintf("%s returned a malformed response to %s", n.host, method)
	if wrong, ok := errors.AsType[protocolError](cause); ok {
		message += ": " + wrong.Error()
	}
	failed := component.Temporary(component.CodeUpstream, "%s", message)
	failed.Err = cause
	return failed.With(upstream.Details{Class: egress.ClassMalformed, Reason: egress.ReasonJSONRPC, Sent: egress.SentAnswered})
}
