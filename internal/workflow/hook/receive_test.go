package hook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/signature"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/hook"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "correct-horse-battery"

// bench is a service with a hook.
type bench struct {
	*hook.Service
	pool      *pgxpool.Pool // sees all workspaces
	workspace uuid.UUID
	ctx       context.Context // of requests
	id        uuid.UUID
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dsn, log := pgtest.DSN(t), slog.New(slog.DiscardHandler)
	open := func(role postgres.Role) *pgxpool.Pool {
		pool, err := postgres.Open(context.Background(), dsn, "test", role, 10)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	b := &bench{pool: open(postgres.Owner)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	b.workspace, err = workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "test", Plan: plan.Starter})
	must(err)
	b.ctx = postgres.Scope(context.Background(), b.workspace)
	requests, system := open(postgres.API), open(postgres.System)
	modules, err := component.NewRegistry(logic.Modules()...)
	must(err)
	ring, err := seal.NewKeyring(seal.Key{ID: "test", Secret: [32]byte{1, 2, 3, 4, 5, 6, 7, 8}})
	must(err)
	jobs, err := river.NewClient(riverpgxv5.New(requests), &river.Config{Schema: postgres.RiverSchema, Logger: log})
	must(err)
	workflows, hub := workflow.NewService(requests, modules, ring), notify.NewHub()
	deps := execution.Deps{DB: requests, Jobs: jobs, Modules: modules, Keyring: ring, Hub: hub}
	ends := deps
	ends.DB = system
	runner := execution.NewRunner(ends, &execution.Identity{}, 0, log)
	executions := execution.NewService(deps, runner)
	e := orchestrator.New(orchestrator.Deps{
		System: system, Hub: hub, Executions: executions, Modules: modules, Workflows: workflows, Log: log,
	})
	runs := run.NewService(run.Deps{
		API: requests, Hub: hub, Engine: e, Executions: executions, Modules: modules, Workflows: workflows,
	})
	t.Cleanup(func() {
		executions.Close()
		runner.Drain(context.Background())
		runner.Close()
		e.Close()
	})
	b.Service = hook.NewService(hook.Deps{API: requests, System: system, Runs: runs, Keyring: ring, Log: log})
	w, _, err := workflows.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: workflow.Draft{
		Name: "test", Components: []byte(`[{"id":"start","module":"ON_WEBHOOK"}]`),
	}})
	must(err)
	h, _, err := b.Create(b.ctx, hook.CreateParams{WorkspaceID: b.workspace, WorkflowID: w.ID, Draft: hook.Draft{
		Verification: &api.NewVerification{Secret: new(secret), Header: new("X-Mac"), DeliveryHeader: new("X-Delivery")},
	}})
	must(err)
	b.id = h.ID
	return b
}

var anywhere = netip.MustParseAddr("192.0.2.1")

// delivery returns a delivery with a valid signature.
func (b *bench) delivery(id, body string) hook.Delivery {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hook.Delivery{
		HookID: b.id, Client: anywhere, Body: []byte(body), Header: http.Header{"X-Mac": {hex.EncodeToString(mac.Sum(nil))}, "X-Delivery": {id}},
		Admit: func(context.Context, uuid.UUID) error { return nil },
	}
}

func (b *bench) number(t *testing.T, query string, args ...any) (n int64) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A delivery starts one run, however often and however concurrently it is repeated.
func TestEX15SameDeliveryStartsOneRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	runs, replayed := make([]uuid.UUID, 16), 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			begun, err := b.Receive(context.Background(), b.delivery("once", "{}"))
			mu.Lock()
			defer mu.Unlock()
			if runs[i] = begun.RunID; err != nil {
				t.Error(err)
			}
			if begun.Replayed {
				replayed++
			}
		})
	}
	all.Wait()
	for _, id := range runs {
		if id != runs[0] {
			t.Fatalf("the runs are %v", runs)
		}
	}
	if begun := b.number(t, "SELECT count(*) FROM workflow_runs WHERE trigger = 'WEBHOOK' AND trigger_id = $1", b.id); begun != 1 || replayed != 15 {
		t.Errorf("%d runs, %d replayed", begun, replayed)
	}
	if other, err := b.Receive(context.Background(), b.delivery("twice", `{"n":2}`)); err != nil || other.Replayed || other.RunID == runs[0] {
		t.Errorf("another delivery: %+v, %v", other, err)
	}
}

// hookWith replaces the verification of the hook.
func (b *bench) hookWith(t *testing.T, v api.NewVerification) {
	t.Helper()
	v.Secret = new(secret)
	if _, err := b.Replace(b.ctx, notify.Key{WorkspaceID: b.workspace, ID: b.id}, hook.Draft{Verification: &v}); err != nil {
		t.Fatal(err)
	}
}

// These schemes do not sign the ID, so an attacker can replay a captured delivery with a new ID.
func TestReplayedDeliveryWithNewIDStartsNoRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mac := func(algorithm func() hash.Hash, body string) []byte {
		h := hmac.New(algorithm, []byte(secret))
		h.Write([]byte(body))
		return h.Sum(nil)
	}
	for name, c := range map[string]struct {
		verification api.NewVerification
		text         func(body string) string
	}{
		"sha256 in hex": {api.NewVerification{}, func(body string) string { return hex.EncodeToString(mac(sha256.New, body)) }},
		"sha512 in base64": {
			api.NewVerification{Algorithm: new(api.VerificationAlgorithmSha512), Encoding: new(api.VerificationEncodingBase64)},
			func(body string) string { return base64.StdEncoding.EncodeToString(mac(sha512.New, body)) },
		},
	} {
		c.verification.Header, c.verification.DeliveryHeader = new("X-Mac"), new("X-Delivery")
		b.hookWith(t, c.verification)
		body := fmt.Sprintf("%q", name)
		send := func(id, body, proof string) hook.Received {
			d := b.delivery(name+id, body)
			d.Header.Set("X-Mac", proof)
			begun, err := b.Receive(context.Background(), d)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return begun
		}
		first := send("1", body, c.text(body))
		if again := send("2", body, c.text(body)); !again.Replayed || again.RunID != first.RunID {
			t.Errorf("%s: under a new ID: %+v, first %+v", name, again, first)
		}
		if other := send("3", body+" ", c.text(body+" ")); other.Replayed || other.RunID == first.RunID {
			t.Errorf("%s: another body under another ID: %+v", name, other)
		}
		if same := send("1", "0", c.text("0")); !same.Replayed || same.RunID != first.RunID {
			t.Errorf("%s: another body under the same ID: %+v", name, same)
		}
	}
}

// Concurrent replays of a delivery start one run in total, although each replay has a different
// ID.
func TestConcurrentReplaysWithNewIDsStartOneRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if _, err := b.Receive(context.Background(), b.delivery(fmt.Sprint(i), "{}")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if begun := b.number(t, "SELECT count(*) FROM workflow_runs"); begun != 1 {
		t.Errorf("%d runs", begun)
	}
}

// Standard Webhooks signatures cover the ID: a changed ID is rejected, and the same body with a
// different signed ID is a new delivery.
func TestStandardWebhooksSignatureCoversDeliveryID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hookWith(t, api.NewVerification{Scheme: new(api.VerificationSchemeStandardWebhooks)})
	now := time.Now()
	send := func(id, signedID string) (hook.Received, error) {
		d := b.delivery("", "{}")
		d.Header = http.Header{
			"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)},
			"Webhook-Signature": {signature.StandardWebhook(secret, signedID, now, []byte("{}"))},
		}
		return b.Receive(context.Background(), d)
	}
	first, err := send("a", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send("b", "a"); fault.CodeOf(err) != fault.Unauthorized {
		t.Errorf("under another ID: %v", err)
	}
	if again, err := send("a", "a"); err != nil || !again.Replayed || again.RunID != first.RunID {
		t.Errorf("again: %+v, %v", again, err)
	}
	if other, err := send("c", "c"); err != nil || other.Replayed {
		t.Errorf("another delivery: %+v, %v", other, err)
	}
}

// A refused delivery stores nothing, so it can be repeated.
func TestRefusedDeliveryCanBeRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	refused := errors.New("refused")
	delivery := b.delivery("again", "{}")
	delivery.Admit = func(ctx context.Context, id uuid.UUID) error {
		if id != b.workspace {
			t.Errorf("asked for %s", id)
		}
		return refused
	}
	if _, err := b.Receive(context.Background(), delivery); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	for _, status := range []string{"PAUSED", "ARCHIVED"} {
		if _, err := b.pool.Exec(t.Context(), "UPDATE workflows SET status = $1", status); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Receive(context.Background(), b.delivery("again", "{}")); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("%s: %v", status, err)
		}
	}
	if _, err := b.pool.Exec(t.Context(), "UPDATE workflows SET status = 'ACTIVE'"); err != nil {
		t.Fatal(err)
	}
	if kept := b.number(t, "SELECT count(*) FROM hook_deliveries"); kept != 0 {
		t.Errorf("%d deliveries are remembered", kept)
	}
	if begun, err := b.Receive(context.Background(), b.delivery("again", "{}")); err != nil || begun.Replayed {
		t.Errorf("%+v, %v", begun, err)
	}
}

// Failed deliveries throttle only their own address, before the database is queried.
func TestFailedDeliveriesLimitOnlyTheirAddress(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wrong := b.delivery("x", "{}")
	wrong.Header.Set("X-Mac", "00")
	wrong.Admit = func(context.Context, uuid.UUID) error { t.Error("Admit was called for a failed delivery"); return nil }
	unknown := wrong
	unknown.HookID = uuid.Must(uuid.NewV7())
	var limited error
	for range 2000 {
		for _, d := range []hook.Delivery{wrong, unknown} {
			if _, limited = b.Receive(context.Background(), d); fault.CodeOf(limited) == fault.RateLimited {
				break
			}
		}
		if fault.CodeOf(limited) == fault.RateLimited {
			break
		}
	}
	if fault.CodeOf(limited) != fault.RateLimited {
		t.Fatalf("4,000 attempts, and then %v", limited)
	}
	other := b.delivery("x", "{}")
	other.Client = netip.MustParseAddr("192.0.2.2")
	if _, err := b.Receive(context.Background(), other); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
}

func TestMT05SecretOfHookIsSealed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	found := b.number(t, "SELECT count(*) FROM hooks h WHERE h::text LIKE '%' || $1::text || '%' OR h::text LIKE '%' || encode($1::text::bytea, 'hex') || '%'", secret)
	told := b.number(t, "SELECT count(*) FROM audit_events e WHERE e::text LIKE '%' || $1::text || '%'", secret)
	if found+told != 0 {
		t.Errorf("%d hooks and %d events show it", found, told)
	}
	key := notify.Key{WorkspaceID: b.workspace, ID: b.id}
	replaced, err := b.Replace(b.ctx, key, hook.Draft{Verification: &api.NewVerification{Header: new("X-Other")}})
	if err != nil || replaced.Verification.Header != "X-Other" {
		t.Fatalf("%+v, %v", replaced, err)
	}
	delivery := b.delivery("a", "{}")
	delivery.Header.Set("X-Other", delivery.Header.Get("X-Mac"))
	if _, err := b.Receive(context.Background(), delivery); err != nil {
		t.Errorf("the secret changed: %v", err)
	}
}

// Deliveries are stored for longer than their runs.
func TestRepeatedDeliveryIsRecognizedAfterItsRunIsDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.Receive(context.Background(), b.delivery("old", "{}")); err != nil {
		t.Fatal(err)
	}
	gone := uuid.Must(uuid.NewV7())
	if _, err := b.pool.Exec(t.Context(), "UPDATE hook_deliveries SET run_id = $1", gone); err != nil {
		t.Fatal(err)
	}
	again, err := b.Receive(context.Background(), b.delivery("old", "{}"))
	if err != nil || !again.Replayed || again.RunID != gone || b.number(t, "SELECT count(*) FROM workflow_runs") != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// Deliveries are stored for a week.
func TestDeliveriesAreDeletedAfterAWeek(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"old", "young"} {
		if _, err := b.Receive(context.Background(), b.delivery(id, `"`+id+`"`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.pool.Exec(t.Context(), `UPDATE hook_deliveries SET received_at = now() - interval '8 days'
		WHERE run_id = (SELECT run_id FROM hook_deliveries WHERE delivery = sha256('old'))`); err != nil {
		t.Fatal(err)
	}
	if gone, err := db.New().HookDeliveryDeleteExpired(t.Context(), b.pool); err != nil || gone != 2 || b.number(t, "SELECT count(*) FROM hook_deliveries") != 2 {
		t.Errorf("%d are gone, %v", gone, err)
	}
}
