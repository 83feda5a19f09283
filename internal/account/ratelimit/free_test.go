package ratelimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/plan"
)

// After a change to a lower plan, a workspace may have used more than its limits. Requests that
// cost nothing are admitted even then.
func TestWhatCostsNothingIsAlwaysLetIn(t *testing.T) {
	var u usage
	u.take(epoch, 9, Limits{RPS: 10, RPH: 10})
	d := u.take(epoch, 0, Limits{RPS: 1, RPH: 2})
	if !d.Allowed || d.Second.Remaining != 0 || d.Hour.Remaining != 0 || d.Hour.Reset == 0 {
		t.Errorf("%+v", d)
	}
}

// A workspace whose limits are high enough for leases holds no lease while it is idle.
func TestWhatCostsNothingIsLetInWithoutALease(t *testing.T) {
	n := start(t, 1, patient)
	id := n.workspace(t, plan.Enterprise, "custom_rps = 1000, custom_rph = 5000")
	l := n.limiters[0]
	free := func(when string, hour int) {
		t.Helper()
		d := l.Take(t.Context(), id, 0)
		if !d.Allowed || d.Hour.Remaining != hour || d.PolicyField() != `"second";q=1000;w=1, "hour";q=5000;w=3600` {
			t.Errorf("%s: %+v", when, d)
		}
	}
	free("before anything is known", 5000)
	if d := l.Take(t.Context(), id, 2); !d.Allowed {
		t.Fatalf("%+v", d)
	}
	free("with a lease", 4998)
	l.mu.Lock()
	l.view(id).lease.until = time.Now().Add(-time.Second)
	l.mu.Unlock()
	free("after 100 ms without a request", 4998)
}

// Requests that cost nothing neither wait for the store nor are reported to it.
func TestWhatCostsNothingDoesNotReachTheStore(t *testing.T) {
	for whose, terms := range map[string]termsView{
		"is known":             {name: plan.Growth, terms: plan.Growth.Terms(), known: true},
		"has leases":           {name: plan.Enterprise, terms: plan.Terms{RPS: 1000}, known: true},
		"has used its limits":  {name: plan.Starter, terms: plan.Terms{RPS: 2, RPH: 2}, known: true},
		"nobody knows as yet":  {},
		"has no limits at all": {name: plan.Enterprise, terms: plan.Terms{}, known: true},
	} {
		t.Run("a workspace that "+whose, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := New(stalled{}, nil, Patience)
				if err != nil {
					t.Fatal(err)
				}
				id := uuid.New()
				terms.until = time.Now().Add(time.Hour)
				v := l.view(id)
				v.terms = terms
				v.usage.take(v.now(), 2, Limits{RPS: 2, RPH: 2})
				asked := time.Now()
				for range 100 {
					if d := l.Take(t.Context(), id, 0); !d.Allowed {
						t.Fatalf("%+v", d)
					}
				}
				if took := time.Since(asked); took > 0 || len(v.owed) > 0 {
					t.Errorf("it took %v, and is owed as %v", took, v.owed)
				}
				l.Close()
			})
		})
	}
}
