package app

import (
	"net/http"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// Caps agreed with a workspace replace the caps of its plan.
func TestAgreedCapsReplaceThoseOfThePlan(t *testing.T) {
	t.Parallel()
	w := startWhole(t, withPatientLimiter)
	n := w.tenant(t, "acme")
	err := billing.Books{}.SetPlan(t.Context(), w.app.pools.system, billing.Plan{
		WorkspaceID: n.id, Name: plan.Enterprise, Waits: new(int32(3)), Streams: new(int32(1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the agreed caps", func() bool { // changed terms apply within 3 s
		var limits api.Limits
		n.sign(t, http.MethodGet, "/v1/sdk/limits", nil).into(t, &limits)
		return limits.Plan == "enterprise" && limits.InlineWaits.Limit != nil && *limits.InlineWaits.Limit == 3 &&
			limits.Streams.Limit != nil && *limits.Streams.Limit == 1 && limits.RequestsPerSecond.Limit == nil
	})
	for kind, limit := range map[ratelimit.Kind]int{ratelimit.Wait: 3, ratelimit.Stream: 1} {
		for range limit {
			closed, allowed := w.app.limiter.Open(t.Context(), n.id, kind)
			if !allowed {
				t.Fatalf("cannot open %d calls of kind %d", limit, kind)
			}
			defer closed()
		}
		if _, allowed := w.app.limiter.Open(t.Context(), n.id, kind); allowed {
			t.Errorf("can open more than %d calls of kind %d", limit, kind)
		}
	}
}
