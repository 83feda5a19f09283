package hook_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/hook"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// reject sends a delivery that must be rejected with code.
func (b *bench) reject(t *testing.T, d hook.Delivery, code fault.Code) {
	t.Helper()
	if _, err := b.Receive(context.Background(), d); fault.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// The hook shows its owner why a delivery was rejected. The response to the sender is the same for
// all invalid signatures, and the hook contains nothing that the sender sent.
func TestHookShowsWhyDeliveryWasRejected(t *testing.T) {
	t.Parallel()
	for want, signatures := range map[string][]string{
		"missing_signature":   nil,
		"malformed_signature": {"canary"},
		"invalid_signature":   {hex.EncodeToString([]byte("canary"))},
	} {
		b := newBench(t)
		d := b.delivery("canary", `"canary"`)
		d.Header = http.Header{"X-Mac": signatures, "X-Delivery": {"canary"}}
		b.reject(t, d, fault.Unauthorized)
		shown, err := b.Get(b.ctx, notify.Key{WorkspaceID: b.workspace, ID: b.id}, unrestricted{})
		if err != nil || shown.LastRefusal == nil || *shown.LastRefusal != want || shown.LastRefusedAt == nil || shown.RefusalCount != 1 {
			t.Errorf("want %s: %+v, %v", want, shown, err)
		}
		if stored := b.number(t, "SELECT count(*) FROM hooks h WHERE h::text LIKE '%canary%' OR h::text LIKE '%' || encode('canary'::bytea, 'hex') || '%'"); stored != 0 {
			t.Errorf("%s: the hook contains the delivery", want)
		}
	}
}

// unrestricted may use every workflow.
type unrestricted struct{}

func (unrestricted) MayUse(uuid.UUID) bool { return true }

// A reason that the limit of one write per second left out is recorded by the next delivery.
func TestHookShowsTheLatestReason(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	missing, wrong := b.delivery("x", "{}"), b.delivery("y", "{}")
	missing.Header.Del("X-Mac")
	wrong.Header.Set("X-Mac", strings.Repeat("00", 32))
	b.reject(t, missing, fault.Unauthorized)
	b.reject(t, wrong, fault.Unauthorized)
	if _, err := b.pool.Exec(t.Context(), "UPDATE hooks SET last_refused_at = now() - interval '3 seconds'"); err != nil {
		t.Fatal(err)
	}
	b.reject(t, wrong, fault.Unauthorized)
	shown, err := b.Get(b.ctx, notify.Key{WorkspaceID: b.workspace, ID: b.id}, unrestricted{})
	if err != nil || shown.LastRefusal == nil || *shown.LastRefusal != "invalid_signature" || shown.RefusalCount != 2 {
		t.Errorf("the hook shows %+v, %v", shown, err)
	}
}

// A stranger who knows the address of a hook causes at most one write per reason in 10 seconds.
func TestRejectedDeliveriesCauseFewWrites(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wrong, limited := b.delivery("x", "{}"), b.delivery("y", `"y"`)
	wrong.Header.Set("X-Mac", strings.Repeat("00", 32))
	limited.Admit = func(context.Context, uuid.UUID) error { return fault.New(fault.RateLimited, "Too many requests.") }
	for range 20 {
		for _, d := range []hook.Delivery{wrong, limited} {
			if _, err := b.pool.Exec(t.Context(), "UPDATE hooks SET last_refused_at = now() - interval '1 hour' WHERE last_refusal IS NOT NULL"); err != nil {
				t.Fatal(err) // the limit of one write per second does not apply
			}
			b.reject(t, d, map[bool]fault.Code{true: fault.RateLimited, false: fault.Unauthorized}[d.Header.Get("X-Delivery") == "y"])
		}
	}
	if writes := b.number(t, "SELECT refusal_count FROM hooks"); writes != 2 {
		t.Errorf("40 rejected deliveries with 2 reasons caused %d writes, want 2", writes)
	}
}

// The hook keeps its last 20 reasons, newest first. Consecutive rejections for one reason are one entry.
func TestHookKeepsItsLastRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	reasons := []string{"hook_paused", "hook_paused", "invalid_input"}
	for i := range 24 {
		reasons = append(reasons, fmt.Sprintf("reason_%d", i%2))
	}
	for _, reason := range reasons {
		if _, err := b.pool.Exec(t.Context(), "UPDATE hooks SET last_refused_at = now() - interval '1 hour' WHERE last_refusal IS NOT NULL"); err != nil {
			t.Fatal(err) // the limit of one write per second does not apply
		}
		if n, err := db.New().HookRecordDelivery(t.Context(), b.pool, db.HookRecordDeliveryParams{WorkspaceID: b.workspace, ID: b.id, Refusal: &reason}); err != nil || n != 1 {
			t.Fatalf("%d rows, %v", n, err)
		}
		shown, err := b.Get(b.ctx, notify.Key{WorkspaceID: b.workspace, ID: b.id}, unrestricted{})
		if err != nil || shown.Refusals == nil || (*shown.Refusals)[0].Reason != reason || fmt.Sprint((*shown.Refusals)[0].At) != fmt.Sprint(*shown.LastRefusedAt) {
			t.Fatalf("%+v, %v", shown.Refusals, err)
		}
		if got := *shown.Refusals; len(got) == 2 && (got[1].Reason != "hook_paused" || got[1].Count != 2) || len(got) > 20 {
			t.Fatalf("%+v", got)
		}
	}
	shown, err := b.Get(b.ctx, notify.Key{WorkspaceID: b.workspace, ID: b.id}, unrestricted{})
	if err != nil || len(*shown.Refusals) != 20 || (*shown.Refusals)[19].Count != 1 {
		t.Errorf("%+v, %v", shown.Refusals, err)
	}
	page, err := b.List(b.ctx, b.workspace, run.ListParams{Limit: 10})
	if err != nil || len(page.Data) != 1 || page.Data[0].Refusals != nil {
		t.Errorf("a list shows %+v, %v", page.Data, err)
	}
}

// Both secrets are accepted until the previous one is removed.
func TestBothSecretsAreAcceptedDuringARotation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	save := func(v api.NewVerification) {
		t.Helper()
		v.Header = new("X-Mac")
		shown, err := b.Replace(b.ctx, notify.Key{WorkspaceID: b.workspace, ID: b.id}, hook.Draft{Verification: &v})
		if err != nil || (shown.Verification.HasPreviousSecret != nil) != (v.PreviousSecret == nil || *v.PreviousSecret != "") {
			t.Fatalf("%+v, %v", shown, err)
		}
	}
	deliver := func(want fault.Code) {
		t.Helper()
		if _, err := b.Receive(context.Background(), b.delivery("x", "{}")); fault.CodeOf(err) != want && (err != nil || want != "") {
			t.Fatalf("got %v, want %q", err, want)
		}
	}
	save(api.NewVerification{Secret: new("the-next-secret"), PreviousSecret: new(secret)})
	deliver("")
	save(api.NewVerification{})
	deliver("")
	if stored := b.number(t, "SELECT count(*) FROM hooks h WHERE h::text LIKE '%correct-horse%'"); stored != 0 {
		t.Error("the previous secret is stored in plain text")
	}
	save(api.NewVerification{PreviousSecret: new("")})
	deliver(fault.Unauthorized)
}
