package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/web/protocol"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// call is what the gates learn about one request, for the handler and the log.
type call struct {
	id        string
	hold      *hold               // the memory of its body and its answer
	operation *contract.Operation // nil where none matched
	principal auth.Principal      // whose key signed; zero where none did
	member    person.Member       // who signed in; zero where nobody did
	visit     visit               // how a person comes, or a delivery
	origin    string              // by which the caller reached the deployment; "" where no answer shows it
	header    http.Header         // of a delivery, which is signed as its hook says
	body      *protocol.Body      // as received; nil if the request has no body
	sent      []byte              // by whom nobody knows: the body as it came
	failed    fault.Code
	media     string             // of the answer 200, as the caller likes it best
	gzip      bool               // the caller takes it
	head      bool               // HEAD: the answer has no body
	strict    bool               // unknown members are faults
	unknown   []fault.Detail     // such members, of an operation that tells them with all else
	taken     ratelimit.Decision // of the workspace's limits; zero where nothing was taken

	path           string
	bodyHash       [sha256.Size]byte
	idempotencyKey string // "" for none
}

// workspaceID is the one workspace that the request is about, zero for none.
func (c *call) workspaceID() uuid.UUID {
	if c.principal.WorkspaceID != uuid.Nil {
		return c.principal.WorkspaceID
	}
	return c.member.WorkspaceID
}

// actor is who asks, zero where nobody said.
func (c *call) actor() audit.Actor {
	switch {
	case c.principal.KeyID != uuid.Nil:
		return audit.Actor{Kind: audit.APIKey, ID: c.principal.KeyID}
	case c.member.ID != uuid.Nil:
		return audit.Actor{Kind: audit.User, ID: c.member.ID}
	}
	return audit.Actor{}
}

type callKey struct{}

// callOf is the call that ctx belongs to; there always is one behind the front.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// keep notes what an Idempotency-Key needs, when there is one.
func (c *call) keep(r *http.Request, body []byte) {
	if c.idempotencyKey = r.Header.Get("Idempotency-Key"); c.idempotencyKey != "" {
		c.path = pathOf(r, c.operation)
		c.bodyHash = sha256.Sum256(body)
	}
}

var pathParameter = regexp.MustCompile(`\{\w+\}`)

// pathOf returns the path of r with its IDs in lower case. Callers may send them in any case.
func pathOf(r *http.Request, operation *contract.Operation) string {
	return pathParameter.ReplaceAllStringFunc(operation.Path, func(parameter string) string {
		name := strings.Trim(parameter, "{}")
		if strings.HasSuffix(name, "Id") {
			return strings.ToLower(r.PathValue(name))
		}
		return r.PathValue(name)
	})
}

// idempotency is the key of this request in its scope, nil when it has none.
func (c *call) idempotency() *idempotency.Key {
	if c.idempotencyKey == "" {
		return nil
	}
	return &idempotency.Key{
		WorkspaceID: c.principal.WorkspaceID, Operation: c.operation.ID, Path: c.path,
		Key: c.idempotencyKey, BodyHash: c.bodyHash,
	}
}

// repeatCheck refuses a key that was used for another body.
type repeatCheck func(context.Context, idempotency.Key) error

// mismatchFirst is the refusal of an input, or that of its Idempotency-Key,
// which comes before it (decisions 1.8), when the key was used for another body.
func mismatchFirst(ctx context.Context, check repeatCheck, call *call, refusal error) error {
	key := call.idempotency()
	if key == nil || check == nil {
		return refusal
	}
	if err := check(ctx, *key); err != nil && fault.CodeOf(err) == fault.IdempotencyMismatch {
		return err
	}
	return refusal
}

// authenticate proves who sends the request, over the bytes as received.
func (f *front) authenticate(r *http.Request, body []byte, call *call) error {
	principal, err := f.verify(r.Context(), auth.Request{
		Method: r.Method, Target: r.RequestURI, Header: r.Header, Body: body,
		Client: f.proxies.Client(r.RemoteAddr, r.Header),
	})
	if err != nil {
		return err
	}
	if err := call.hold.move(principal.WorkspaceID); err != nil {
		return err
	}
	call.principal = principal
	telemetry.Identify(r.Context(), principal.WorkspaceID, principal.KeyID)
	return nil
}

// scope refuses a key what it may not touch, before anything is looked up
// (decisions 2.8). What names a run is for the handler: only its look-up tells the
// workflow.
func scope(r *http.Request, operation *contract.Operation, principal auth.Principal) error {
	if !principal.Restricted() {
		return nil
	}
	if id, err := uuid.Parse(r.PathValue("workflowId")); err == nil && !principal.MayUse(id) {
		return run.ErrOtherWorkflow
	}
	if operation.Unrestricted {
		return &fault.Error{
			Code: fault.Forbidden, Reason: "key_restricted",
			Message: "This API key is restricted to some workflows; it may not create, replace, archive or list workflows, change schedules or hooks, nor touch environment variables.",
		}
	}
	return nil
}
