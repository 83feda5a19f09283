package hook_test

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/hook"
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
