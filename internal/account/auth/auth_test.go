package auth_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/secret/signature"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is a database with one workspace and one key, and a verifier with a fixed
// clock.
type bundle struct {
	pool      *pgxpool.Pool
	keys      *auth.Keys
	verifier  *auth.Verifier
	workspace uuid.UUID
	clock     time.Time
	key       signer
}

// signer signs as a client does.
type signer struct {
	auth.Created
	private ed25519.PrivateKey
}

var home = netip.MustParseAddr("192.0.2.1")

func setup(t *testing.T, opts auth.Options) *bundle {
	t.Helper()
	b := &bundle{pool: pgtest.DB(t), clock: time.Date(2026, 11, 21, 10, 15, 30, 999_000_000, time.UTC)}
	b.keys = auth.NewKeys(b.pool)
	if opts.Now == nil {
		opts.Now = func() time.Time { return b.clock }
	}
	if opts.FailureBurst == 0 {
		opts.FailureBurst = 1e9
	}
	verifier, err := auth.NewVerifier(b.pool, opts)
	if err != nil {
		t.Fatal(err)
	}
	b.verifier = verifier
	b.workspace = b.newWorkspace(t)
	b.key = b.newKey(t, b.workspace)
	return b
}

func (b *bundle) newWorkspace(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := workspace.Create(t.Context(), b.pool, workspace.CreateParams{ID: id, Name: id.String(), Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// newWorkflow stores the head of a workflow.
func (b *bundle) newWorkflow(t *testing.T, workspace uuid.UUID) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := db.New().WorkflowInsert(t.Context(), b.pool, db.WorkflowInsertParams{WorkspaceID: workspace, ID: id, Key: "w-" + id.String(), Name: "w", Status: "ACTIVE"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (b *bundle) newKey(t *testing.T, workspace uuid.UUID) signer {
	t.Helper()
	created, err := b.keys.Create(t.Context(), auth.CreateParams{WorkspaceID: workspace, Label: "test"})
	if err != nil {
		t.Fatal(err)
	}
	private, err := signature.ParseSecret(created.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	return signer{created, private}
}

// sign makes a request whose signed body may differ from the sent body.
func (s signer) sign(at time.Time, method, target, body, signedBody string) auth.Request {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	sig := signature.Sign(s.private, signature.Message(method, target, timestamp, []byte(signedBody)))
	return auth.Request{
		Method: method, Target: target, Body: []byte(body), Client: home,
		Header: http.Header{
			"X-Api-Key":       {s.APIKey},
			"X-Sdk-Timestamp": {timestamp},
			"X-Sdk-Signature": {signature.Format(sig)},
		},
	}
}

func (s signer) get(at time.Time) auth.Request {
	return s.sign(at, "GET", "/v1/sdk/components?limit=1", "", "")
}

// reason is the reason of a refusal, or "" if the request was accepted.
func reason(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.Unauthorized || f.Header["WWW-Authenticate"] == "" || f.Message == "" {
		t.Fatalf("not a full UNAUTHORIZED: %#v", err)
	}
	return f.Reason
}

func verify(t *testing.T, v *auth.Verifier, r auth.Request) string {
	t.Helper()
	_, err := v.Verify(t.Context(), r)
	return reason(t, err)
}

func TestVerifyReturnsThePrincipal(t *testing.T) {
	b := setup(t, auth.Options{})
	workflow := b.newWorkflow(t, b.workspace)
	created, err := b.keys.Create(t.Context(), auth.CreateParams{
		WorkspaceID: b.workspace, Label: "restricted", AllowedWorkflowIDs: []uuid.UUID{workflow},
	})
	if err != nil {
		t.Fatal(err)
	}
	private, _ := signature.ParseSecret(created.APISecret)
	principal, err := b.verifier.Verify(t.Context(), signer{created, private}.get(b.clock))
	if err != nil {
		t.Fatal(err)
	}
	if principal.WorkspaceID != b.workspace || principal.KeyID != created.KeyID {
		t.Errorf("principal %+v", principal)
	}
	if !principal.MayUse(workflow) || principal.MayUse(uuid.Must(uuid.NewV7())) {
		t.Error("the restricted key may not use its workflow, or may use another")
	}
	open, err := b.verifier.Verify(t.Context(), b.key.get(b.clock))
	if err != nil || !open.MayUse(workflow) {
		t.Errorf("the open key may not use a workflow: %v", err)
	}
}

func TestLookUpFailuresAreNotRefusals(t *testing.T) {
	b := setup(t, auth.Options{})
	b.pool.Close()
	_, err := b.verifier.Verify(t.Context(), b.key.get(b.clock))
	if _, refused := errors.AsType[*fault.Error](err); err == nil || refused {
		t.Errorf("after the pool was closed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.verifier.Verify(ctx, b.key.get(b.clock)); err == nil {
		t.Error("accepted without a look-up")
	}
}
