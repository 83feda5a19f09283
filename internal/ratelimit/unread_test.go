package ratelimit

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/telemetry"
)

// A fresh process whose store does not answer does not know the plan of a workspace.
func TestNothingIsRefusedByLimitsThatAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(stalled{}, telemetry.NewMetrics("test"), Patience)
		if err != nil {
			t.Fatal(err)
		}
		id := uuid.New()
		for i := range unread.RPS + 50 {
			if d := l.Take(t.Context(), id, 1); !d.Allowed || d.charged.n != 1 {
				t.Fatalf("request %d: %+v", i, d)
			}
		}
		for i := range unread.Waits + 5 {
			closed, allowed := l.Open(t.Context(), id, Wait)
			if !allowed {
				t.Fatalf("wait %d is not allowed", i)
			}
			defer closed()
		}
		var owed int64
		for _, c := range l.view(id).owed {
			owed += c.n
		}
		if want := int64(unread.RPS + 50); owed != want {
			t.Errorf("the store is owed %d requests of %d", owed, want)
		}
		l.Close(context.Background())
	})
}
