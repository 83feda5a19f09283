package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	callTimeout = 20 * time.Second // of one JSON-RPC call

	classRPC    = "rpc"    // of an error that the node returned
	classRevert = "revert" // of a call that the contract refused
)

// node is the caller's node for the length of one module call.
type node struct {
	client *http.Client
	url    string
	host   string

	contract *contractABI // what is known of the contract that is called; nil: nothing
	takesABI bool         // the caller may tell that
}

func dial(guard *egress.Guard, address string) (*node, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, component.Permanent(component.CodeInvalidInput, "jsonRpcUrl is not a valid URL")
	}
	return &node{
		client: guard.Client(egress.ClientOptions{Timeout: callTimeout, Redirects: upstream.MaxRedirects, MaxBytes: upstream.MaxAnswer}),
		url:    address,
		host:   target.Host,
	}, nil
}

// dialKnowing is dial for a call of a contract whose interface the caller may have given.
func dialKnowing(guard *egress.Guard, address string, abi json.RawMessage) (*node, error) {
	contract, err := parseABI(abi)
	if err != nil {
		return nil, refused("abi", err)
	}
	n, err := dial(guard, address)
	if err != nil {
		return nil, err
	}
	n.contract, n.takesABI = contract, true
	return n, nil
}

// call asks one method and decodes its result into out, a pointer to something
// that refuses what it should not be. A null result leaves a pointer nil.
// Errors are *component.Error: what the node said, or what is wrong with its
// answer.
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
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "Weft")
	answer, err := upstream.Do(n.client, request)
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

// rpcError is an error of JSON-RPC 2.0.
type rpcError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// result is the result of an answer that keeps to JSON-RPC 2.0.
func (n *node) result(method string, answer upstream.Answer) (json.RawMessage, error) {
	var envelope struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *rpcError       `json:"error"`
	}
	err := json.Unmarshal(answer.Body, &envelope)
	if err == nil && envelope.Error != nil {
		return nil, n.failure(*envelope.Error, answer)
	}
	switch {
	case answer.Status != http.StatusOK:
		return nil, upstream.Refused(n.host, answer, "")
	case err != nil:
		return nil, n.malformed(method, err)
	case envelope.Version != "2.0" || string(envelope.ID) != "1" || len(envelope.Result) == 0:
		return nil, n.malformed(method, breach("it is no JSON-RPC 2.0 answer to the request"))
	}
	return envelope.Result, nil
}

// malformed is an answer that breaks the protocol: a node behind a broken
// proxy may do better the next time.
func (n *node) malformed(method string, cause error) error {
	message := fmt.Sprintf("%s gave a malformed answer to %s", n.host, method)
	if wrong, ok := errors.AsType[breach](cause); ok {
		message += ": " + wrong.Error()
	}
	failed := component.Temporary(component.CodeUpstream, "%s", message)
	failed.Err = cause
	return failed.With(upstream.Details{Class: "malformed"})
}

// failure returns the error of an answer with a JSON-RPC error. It decodes a revert.
func (n *node) failure(e rpcError, answer upstream.Answer) error {
	if data, ok := revertData(e); ok {
		return n.revertedBy(e, data)
	}
	failed := component.Permanent(component.CodeUpstream, "%s: %s (code %d)", n.host, e.Message, e.Code)
	failed.Retryable = temporary(e.Code) || (answer.Status != http.StatusOK && upstream.Temporary(answer.Status))
	failed.RetryAfter = egress.RetryAfter(answer.Header, time.Now())
	return failed.With(upstream.Details{
		Class: classRPC, UpstreamCode: e.Code, UpstreamMessage: component.Cut(e.Message, 4<<10), RetryAfter: answer.Header.Get("Retry-After"),
	})
}

// temporary reports whether a code of JSON-RPC or EIP-1474 may pass: internal
// errors, resources not there yet, limits, and the unspecific -32000.
func temporary(code int64) bool {
	switch code {
	case -32603, -32000, -32001, -32002, -32005:
		return true
	}
	return false
}

// revertData finds the data of a revert, in the places where nodes put it.
func revertData(e rpcError) (data []byte, ok bool) {
	var text string
	if json.Unmarshal(e.Data, &text) != nil {
		var nested struct {
			Data   string `json:"data"`
			Result string `json:"result"`
		}
		_ = json.Unmarshal(e.Data, &nested) // data of another form holds no revert
		text = nested.Data + nested.Result
	}
	data, err := parseBytes(strings.TrimPrefix(text, "Reverted "))
	const reverted = 3 // the code of a revert
	if err == nil && (e.Code == reverted || len(data) >= 4 || strings.Contains(strings.ToLower(e.Message), "revert")) {
		return data, true
	}
	return nil, e.Code == reverted || strings.HasPrefix(strings.ToLower(e.Message), "execution reverted")
}
