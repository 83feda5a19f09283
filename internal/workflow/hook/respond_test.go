package hook_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/hook"
)

// However many deliveries wait, they hold no more than the inline waits of their workspace. The
// others get the ID of their run at once.
func TestDeliveriesThatWaitHoldNoMoreThanTheInlineWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := notify.Key{WorkspaceID: b.workspace, ID: b.id}
	saved, err := b.Replace(b.ctx, key, hook.Draft{Respond: new(true)})
	if err != nil || saved.Respond == nil || len(*saved.Warnings) != 1 || (*saved.Warnings)[0].Code != "NO_RESPOND" {
		t.Fatalf("%+v, %v", saved, err)
	}
	const deliveries, waits = 100, 3
	var open, most, granted atomic.Int64
	wait := func(_ context.Context, workspaceID uuid.UUID, wanted time.Duration) (time.Duration, func()) {
		if workspaceID != b.workspace || wanted != 15*time.Second {
			t.Errorf("%s wants %s", workspaceID, wanted)
		}
		now := open.Add(1)
		if now > waits {
			open.Add(-1)
			return 0, func() {}
		}
		granted.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		return wanted, func() { open.Add(-1) }
	}
	var all sync.WaitGroup
	for i := range deliveries {
		all.Go(func() {
			d := b.delivery(fmt.Sprint(i), fmt.Sprint(i))
			d.Wait = wait
			received, err := b.Receive(context.Background(), d)
			if err != nil || received.RunID == uuid.Nil || received.Finished == nil || received.Output != nil {
				t.Errorf("%+v, %v", received, err)
			}
		})
	}
	all.Wait()
	if open.Load() != 0 || most.Load() > waits || granted.Load() == 0 {
		t.Errorf("%d waits are open, at most %d were, %d were granted", open.Load(), most.Load(), granted.Load())
	}
	if runs := b.number(t, "SELECT count(*) FROM workflow_runs"); runs != deliveries {
		t.Errorf("%d runs", runs)
	}
}

func TestHandshakesStartNoRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hookWith(t, api.NewVerification{Header: new("X-Mac"), Handshake: &api.VerificationHandshake{"urlVerification", "validationToken"}})
	key := notify.Key{WorkspaceID: b.workspace, ID: b.id}
	if _, err := b.Replace(b.ctx, key, hook.Draft{Status: "PAUSED"}); err != nil {
		t.Fatal(err)
	}
	const markup = "<script>é</script>"
	admitted := 0
	send := func(body, query string, signed bool) (hook.Received, error) {
		d := b.delivery("", body)
		d.Query, _ = url.ParseQuery(query)
		d.Admit = func(context.Context, uuid.UUID) error { admitted++; return nil }
		if !signed {
			d.Header.Del("X-Mac")
		}
		return b.Receive(context.Background(), d)
	}
	token := "validationToken=" + url.QueryEscape(markup)
	for name, c := range map[string]struct {
		body, query string
		signed      bool
		want        string
		code        fault.Code
	}{
		"urlVerification":           {body: `{"type":"url_verification","challenge":"` + markup + `"}`, signed: true, want: markup},
		"urlVerification, unsigned": {body: `{"type":"url_verification","challenge":"x"}`, code: fault.Unauthorized},
		"without a challenge":       {body: `{"type":"url_verification"}`, signed: true, code: fault.InvalidInput},
		"a challenge of a number":   {body: `{"type":"url_verification","challenge":7}`, signed: true, code: fault.InvalidInput},
		"an event":                  {body: `{"type":"event"}`, signed: true, code: fault.Conflict},
		"validationToken":           {query: token, want: markup},
		"with a body":               {body: `{}`, query: token, code: fault.Unauthorized},
		"two tokens":                {query: token + "&" + token, code: fault.InvalidInput},
		"an empty token":            {query: "validationToken=", code: fault.InvalidInput},
		"a token of 4 KiB":          {query: "validationToken=" + strings.Repeat("x", 4096), want: strings.Repeat("x", 4096)},
		"a longer token":            {query: "validationToken=" + strings.Repeat("x", 4097), code: fault.InvalidInput},
		"invalid UTF-8":             {query: "validationToken=%ff", code: fault.InvalidInput},
	} {
		admitted = 0
		received, err := send(c.body, c.query, c.signed)
		if c.code != "" {
			if fault.CodeOf(err) != c.code || err == nil {
				t.Errorf("%s: got %v; want %s", name, err, c.code)
			}
			continue
		}
		if err != nil || received.Challenge == nil || *received.Challenge != c.want || admitted != 1 {
			t.Errorf("%s: %+v, %v, admitted %d times", name, received, err, admitted)
		}
	}
	b.hookWith(t, api.NewVerification{Header: new("X-Mac")})
	if _, err := send("", token, false); fault.CodeOf(err) != fault.Unauthorized {
		t.Errorf("a hook without handshakes: %v", err)
	}
	if _, err := b.Validate(context.Background(), hook.Delivery{HookID: b.id, Client: anywhere}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a hook without handshakes: %v", err)
	}
	if runs := b.number(t, "SELECT count(*) FROM workflow_runs"); runs != 0 {
		t.Errorf("%d runs", runs)
	}
}
