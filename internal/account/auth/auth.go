// Package auth stores API keys and authenticates signed requests: Verifier turns a request as
// received into a Principal, and Keys creates, lists, rotates and revokes keys (contract 5,
// decisions 2).
//
// The package doesn't depend on routes. Of a principal's permissions, it handles only the list of
// workflows. An unknown key, a revoked key and a wrong signature get the same response and cause
// the same work.
package auth

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// The headers of a signed request (contract 5.2).
const (
	HeaderKey       = "X-Api-Key"
	HeaderTimestamp = "X-Sdk-Timestamp"
	HeaderSignature = "X-Sdk-Signature"
)

// Request is the signed part of a request: the method, the target as on the request
// line, the headers, and the body as received. Client is the address of the client.
type Request struct {
	Method, Target string
	Header         http.Header
	Body           []byte
	Client         netip.Addr
}

// Principal is the API key that made a request. Workflows is the list to which the key is
// restricted; empty means all workflows. RootID is the ID of the first key in the chain of
// rotations that led to this key; without rotations, it is the ID of this key. Predecessors are
// the keys that these rotations replaced. An unrestricted key doesn't need its predecessors, so
// its list is empty.
type Principal struct {
	WorkspaceID, KeyID uuid.UUID
	RootID             uuid.UUID
	Predecessors       []uuid.UUID
	Workflows          []uuid.UUID
}

// Restricted reports whether the key is restricted to a list of workflows.
func (p Principal) Restricted() bool { return len(p.Workflows) > 0 }

// Keys returns the keys whose executions a restricted key sees: itself and its
// predecessors (decisions 2.8).
func (p Principal) Keys() []uuid.UUID { return append([]uuid.UUID{p.KeyID}, p.Predecessors...) }

// MayUse reports whether the key may be used on a workflow (contract 5.1).
func (p Principal) MayUse(workflowID uuid.UUID) bool {
	return !p.Restricted() || slices.Contains(p.Workflows, workflowID)
}

// ErrRevoked is the cause for which a stream's context is cancelled when its key is revoked.
var ErrRevoked = errors.New("the API key was revoked")

// challenge is the WWW-Authenticate header of a 401, which RFC 9110 requires.
const challenge = `Weft-Signature headers="X-Api-Key X-Sdk-Timestamp X-Sdk-Signature"`

// The reasons of decisions 2.5.
const (
	reasonMissingKey         = "missing_api_key"
	reasonMissingTimestamp   = "missing_timestamp"
	reasonMissingSignature   = "missing_signature"
	reasonMalformedTimestamp = "malformed_timestamp"
	reasonMalformedSignature = "malformed_signature"
	reasonInvalid            = "invalid_credentials"
	reasonExpired            = "timestamp_expired"
	reasonInFuture           = "timestamp_in_future"
)

func unauthorized(reason, format string, args ...any) *fault.Error {
	return &fault.Error{
		Code:    fault.Unauthorized,
		Reason:  reason,
		Message: fmt.Sprintf(format, args...),
		Header:  map[string]string{"WWW-Authenticate": challenge},
	}
}
