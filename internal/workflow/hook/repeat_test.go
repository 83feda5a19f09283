package hook_test

import (
	"context"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/workflow/hook"
)

func TestHookThatAcceptsRepeatedBodiesComparesOnlyIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hookWith(t, api.NewVerification{Header: new("X-Mac"), DeliveryHeader: new("X-Delivery"), AcceptRepeatedBodies: new(true)})
	send := func(id string) hook.Received {
		triggered, err := b.Receive(context.Background(), b.delivery(id, "{}"))
		if err != nil {
			t.Fatal(err)
		}
		return triggered
	}
	first := send("a")
	if again := send("a"); !again.Replayed || again.RunID != first.RunID {
		t.Errorf("the same ID: %+v", again)
	}
	if other := send("b"); other.Replayed || other.RunID == first.RunID {
		t.Errorf("another ID with the same body: %+v", other)
	}
}
