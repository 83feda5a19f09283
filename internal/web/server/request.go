package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/web/protocol"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// call is the state of one request: what the checks found out, for the handler and the log.
type call struct {
	id        string
	hold      *hold               // the memory that its body and its response hold
	operation *contract.Operation // nil if no operation matched
	session   bool                // authenticated by a session; otherwise by a signature, if at all
	principal auth.Principal      // the caller of a signed operation; of a person, only the workspace is set
	member    person.Member       // of the session; zero without one
	visit     visit               // connection and cookies; only of people, hooks and public operations
	origin    string              // URL origin by which the caller reached the deployment; "" if rate-limited
	header    http.Header         // of a delivery to a hook, which verifies it
	body      *protocol.Body      // as received; nil if the request has no body
	sent      []byte              // body as received, of a public operation
	query     url.Values          // parameters in the URL
	failed    fault.Code
	media     string             // negotiated media type of a 200 response
	gzip      bool               // the client accepts gzip
	head      bool               // HEAD: the response has no body
	strict    bool               // unknown fields are faults
	faults    []fault.Detail     // faults in the form of the body, for an operation in reportsForm
	taken     ratelimit.Decision // the charge against the workspace's rate limit; zero if nothing was charged

	path           string
	bodyHash       [sha256.Size]byte
	idempotencyKey string // "" without one
}

// workspaceID returns the workspace of the key or the member, or the zero UUID.
func (c *call) workspaceID() uuid.UUID {
	if c.principal.WorkspaceID != uuid.Nil {
		return c.principal.WorkspaceID
	}
	return c.member.WorkspaceID
}

// owner returns the owner of the lists that the caller sees: the workspace, or the person for the
// list of their workspaces.
func (c *call) owner() uuid.UUID {
	if id := c.workspaceID(); id != uuid.Nil {
		return id
	}
	return c.member.ID
}

// actor returns the authenticated caller for the audit log, or the zero Actor.
func (c *call) actor() audit.Actor {
	switch {
	case c.principal.KeyID != uuid.Nil:
		return audit.Actor{Kind: audit.APIKey, ID: c.principal.KeyID}
	case c.member.ID != uuid.Nil:
		return audit.Actor{Kind: audit.User, ID: c.member.ID}
	}
	return audit.Actor{}
}

// reading returns a context for what the caller may read: members below editor see no secrets.
func (c *call) reading(ctx context.Context) context.Context {
	if c.session && !c.member.Role.Reaches(person.Editor) {
		return vault.Withhold(ctx)
	}
	return ctx
}

type callKey struct{}

// callOf returns the call of ctx. Every request that passed front.ServeHTTP has one.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// setIdempotency records the Idempotency-Key, if the request has one, with the path and the
// hash of the body that the key is bound to.
func (c *call) setIdempotency(r *http.Request, body []byte) {
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

// idempotency returns the scoped idempotency key of the request, or nil.
func (c *call) idempotency() *idempotency.Key {
	if c.idempotencyKey == "" {
		return nil
	}
	return &idempotency.Key{
		WorkspaceID: c.workspaceID(), Operation: c.operation.ID, Path: c.path,
		Key: c.idempotencyKey, BodyHash: c.bodyHash,
	}
}

// repeatCheck returns IDEMPOTENCY_MISMATCH if the key was used with another body.
type repeatCheck func(context.Context, idempotency.Key) error

// mismatchFirst returns the error of an invalid request. If the request's Idempotency-Key was used
// with a different body, mismatchFirst returns the error of that mismatch instead, because it takes
// precedence (decisions 1.8).
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

// authenticate verifies the signature over the bytes as received, and records the principal. It
// returns UNAVAILABLE if the workspace holds too much memory.
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

// finder returns the ID of a workflow of the workspace that is given by its ID or its key. It returns the
// nil UUID if no workflow has the key.
type finder func(ctx context.Context, workspaceID uuid.UUID, name string) (uuid.UUID, error)

// workflowFields are the fields of bodies that name workflows, by operation.
var workflowFields = map[string]string{"createSchedule": "workflowId", "createHook": "workflowId", "createApiKey": "allowedWorkflowIds"}

// resolvePath replaces the key of a workflow in the path of r by its ID. It is the nil UUID if no workflow
// has the key, so that the checks and handlers that follow know only IDs.
func (f *front) resolvePath(r *http.Request, call *call) error {
	name := r.PathValue("workflowId")
	if name == "" {
		return nil
	}
	id, err := f.workflow(r.Context(), call.workspaceID(), name)
	if err == nil {
		r.SetPathValue("workflowId", id)
	}
	return err
}

// resolve replaces the keys of workflows in the query of r and in its body, and sets the body.
func (f *front) resolve(r *http.Request, body []byte, call *call) error {
	if err := f.resolveQuery(r, call); err != nil {
		return err
	}
	body, err := f.resolveBody(r.Context(), body, call)
	setBody(r, body)
	return err
}

// resolveQuery is resolvePath for the query of r, which has passed the checks of its form.
func (f *front) resolveQuery(r *http.Request, call *call) error {
	name := call.query.Get("workflowId")
	if name == "" || !slices.Contains(call.operation.Parameters(), "workflowId") {
		return nil
	}
	id, err := f.workflow(r.Context(), call.workspaceID(), name)
	if err != nil || id == name {
		return err
	}
	query := maps.Clone(call.query) // call.query stays as sent, because cursors are bound to it
	query.Set("workflowId", id)
	target := *r.URL
	target.RawQuery = query.Encode()
	r.URL = &target
	return nil
}

// resolveBody is resolvePath for a body that has passed the checks of its form.
func (f *front) resolveBody(ctx context.Context, body []byte, call *call) ([]byte, error) {
	field, named := workflowFields[call.operation.ID]
	if !named {
		return body, nil
	}
	var (
		fields map[string]json.RawMessage
		names  []string
		err    error
	)
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("decode a body: %w", err)
	}
	single := json.Unmarshal(fields[field], &names) != nil
	if single {
		names = make([]string, 1)
		err = json.Unmarshal(fields[field], &names[0])
	}
	for i, name := range names {
		if err == nil {
			names[i], err = f.workflow(ctx, call.workspaceID(), name)
		}
	}
	if err != nil {
		return nil, err
	}
	if fields[field], err = json.Marshal(names); single {
		fields[field], err = json.Marshal(names[0])
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// workflow returns the ID of a workflow, or what was given if it is neither an ID nor a key.
func (f *front) workflow(ctx context.Context, workspaceID uuid.UUID, name string) (string, error) {
	if !workflow.IsKey(name) {
		return name, nil
	}
	id, err := f.findWorkflow(ctx, workspaceID, name)
	return id.String(), err
}

// checkScope returns FORBIDDEN if the key is restricted to workflows and the operation is
// outside that scope (decisions 2.8). A key that no workflow has is outside, too. Handlers check
// requests that name a run, because the workflow of a run is in its row.
//
// From here on, a workflow in the path is given by its ID.
func (f *front) checkScope(r *http.Request, operation *contract.Operation, call *call) error {
	if err := f.resolvePath(r, call); err != nil {
		return err
	}
	principal := call.principal
	if !principal.Restricted() {
		return nil
	}
	if id, err := uuid.Parse(r.PathValue("workflowId")); err == nil && !principal.MayUse(id) {
		return run.ErrOtherWorkflow
	}
	if operation.Unrestricted {
		return &fault.Error{
			Code: fault.Forbidden, Reason: "key_restricted",
			Message: "This API key is restricted to some workflows. It may not create, replace, archive or list workflows, change schedules or hooks, access environment variables, or stream the changes of the workspace.",
		}
	}
	return nil
}
