package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// withPatientLimiter lets the database decide on limits however busy the machine is.
func withPatientLimiter(cfg *Config) { cfg.LimiterPatience = 10 * time.Second }

// customer is a workspace on a plan, with one client for each node.
type customer struct {
	clients []*client.Client
	key     auth.Created
}

func newCustomer(t *testing.T, w *whole, name plan.Name, nodes ...*App) customer {
	t.Helper()
	id, err := workspace.Create(t.Context(), w.app.pools.system, workspace.CreateParams{Name: string(name) + " of " + t.Name() + " " + rand.Text()[:8], Plan: name, Paid: 1e12})
	if err != nil {
		t.Fatal(err)
	}
	c := customer{}
	if c.key, err = auth.NewKeys(w.app.pools.system).Create(t.Context(), auth.CreateParams{WorkspaceID: id, Label: "limits"}); err != nil {
		t.Fatal(err)
	}
	signer, err := client.NewSigner(c.key.APIKey, c.key.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		own, err := client.New(node.URL(), signer, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.clients = append(c.clients, own)
	}
	return c
}

// Several clients send more requests than allowed to two processes on one database. Together the
// processes admit as many requests as a single process would. A submission costs two. On a busy
// machine the clients do not use up the limit, so only the soak checks that enough requests are
// admitted.
func TestRL02TwoNodesShareOneLimit(t *testing.T) {
	t.Parallel()
	first := startWhole(t, withPatientLimiter)
	cfg := first.app.cfg
	second, err := Start(t.Context(), cfg, telemetry.NewLogger(io.Discard, slog.LevelError))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Stop(context.Background()) })
	var long time.Duration
	if waittest.Timed() {
		long = time.Minute
	}
	var plans sync.WaitGroup
	for name, rps := range map[plan.Name]float64{plan.Starter: 5, plan.Growth: 10, plan.Professional: 25} {
		c := newCustomer(t, first, name, first.app, second)
		plans.Go(func() {
			began := time.Now()
			let := float64(c.sendLoad(t, 3*int64(rps), long))
			took := time.Since(began)
			want := rps * (took.Seconds() + 1)
			t.Logf("%s: admitted %v of %.1f in %v", name, let, want, took)
			if let > want || waittest.Timed() && let < 0.98*want {
				t.Errorf("%s: two nodes admitted %v requests within %v, want %.1f", name, let, took, want)
			}
		})
	}
	plans.Wait()
}

// sendLoad sends reads and submissions to each node from two goroutines, until the wanted cost was
// admitted and the time has passed. It returns the admitted cost.
func (c customer) sendLoad(t *testing.T, want int64, long time.Duration) int64 {
	var let atomic.Int64
	var askers sync.WaitGroup
	began, tick := time.Now(), time.NewTicker(5*time.Millisecond) // shared by all clients
	defer tick.Stop()
	for i, node := range append(c.clients, c.clients...) {
		askers.Go(func() {
			for n := i; let.Load() < want || time.Since(began) < long; n++ {
				cost, err := int64(1), error(nil)
				if n%2 == 0 {
					cost = 2
					_, _, err = node.Execute(t.Context(), api.ExecuteComponentRequest{Module: "RANDOM_UUID", Input: []byte("{}"), Config: []byte("{}")}, nil)
				} else {
					_, err = node.Call(t.Context(), http.MethodGet, "/v1/sdk/components/RANDOM_UUID", nil, nil)
				}
				if err == nil {
					let.Add(cost)
				} else if limited(err) == nil {
					t.Errorf("neither admitted nor rate limited: %v", err)
					return
				}
				<-tick.C
			}
		})
	}
	askers.Wait()
	return let.Load()
}

// limited returns the rate limit problem in err, or nil.
func limited(err error) *client.Problem {
	if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusTooManyRequests {
		return problem
	}
	return nil
}

// A request rejected because of the member's role counts like any other, and reports the remaining
// quota. The quota of a member of a different workspace is unchanged.
func TestForbiddenRequestOfMemberCountsAndOfStrangerDoesNot(t *testing.T) {
	t.Parallel()
	w := startWhole(t, withPatientLimiter)
	n, stranger := w.tenant(t, "acme"), w.tenant(t, "other")
	if _, err := w.app.pools.system.Exec(t.Context(), "UPDATE workspaces SET plan = 'starter' WHERE id = $1", n.id); err != nil {
		t.Fatal(err)
	}
	_, viewer := n.joined(t, "viewer@acme.example", person.Viewer) // this is the first request
	for i, c := range []struct {
		token  string
		status int
		left   string
	}{{viewer, http.StatusForbidden, "8998"}, {stranger.token, http.StatusNotFound, ""}, {viewer, http.StatusForbidden, "8997"}} {
		answer := n.as(t, c.token, http.MethodPost, "/api-keys", map[string]any{"label": "x", "allowedWorkflowIds": []string{}})
		if field := answer.header.Get("RateLimit"); answer.status != c.status || (field == "") != (c.left == "") || !strings.Contains(field, `"hour";r=`+c.left) && c.left != "" {
			t.Errorf("request %d: %d with RateLimit %q, want %d with %s left", i+1, answer.status, field, c.status, c.left)
		}
	}
}

// Anyone with a key can use up the limits. An exhausted limit must not prevent revoking the key, or
// removing a member or an invitation.
func TestExhaustedLimitDoesNotPreventRevocations(t *testing.T) {
	t.Parallel()
	w := startWhole(t, withPatientLimiter)
	n := w.tenant(t, "acme")
	viewer, _ := n.joined(t, "viewer@acme.example", person.Viewer)
	var invited api.CreatedInvitation
	n.own(t, http.MethodPost, "/invitations", map[string]any{"email": "late@acme.example", "role": "viewer"}).into(t, &invited)
	if _, err := w.app.pools.system.Exec(t.Context(), "UPDATE workspaces SET custom_rph = 2 WHERE id = $1", n.id); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the new limit", func() bool { // changed terms apply within 3 s
		return n.sign(t, http.MethodGet, "/v1/sdk/limits", nil).status == http.StatusTooManyRequests
	})
	if answer := n.own(t, http.MethodGet, "/credits", nil); answer.status != http.StatusTooManyRequests {
		t.Fatalf("the limit was not exhausted: %d %s", answer.status, answer.body)
	}
	for _, c := range []struct{ method, path string }{
		{http.MethodGet, "/api-keys"}, {http.MethodDelete, "/api-keys/" + n.key.KeyID.String()},
		{http.MethodGet, "/members"}, {http.MethodDelete, "/members/" + viewer.String()},
		{http.MethodGet, "/invitations"}, {http.MethodDelete, "/invitations/" + invited.ID.String()},
	} {
		answer := n.own(t, c.method, c.path, nil)
		if field := answer.header.Get("RateLimit"); answer.status != http.StatusOK || !strings.Contains(field, `"hour";r=0`) {
			t.Errorf("%s %s: %d with RateLimit %q, %s", c.method, c.path, answer.status, field, answer.body)
		}
	}
	waittest.Until(t, "the key to be revoked", func() bool { return n.sign(t, http.MethodGet, "/v1/sdk/limits", nil).status == http.StatusUnauthorized })
}

// While the tables of limits are locked, requests, waits and streams are still decided.
func TestRL10RequestsAreAnsweredWhileTheLimitsAreLocked(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	c := newCustomer(t, w, plan.Growth, w.app)
	tx, err := w.app.pools.system.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE rate_limits, open_calls IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	answered := 0
	for range 5 {
		made, _, err := c.clients[0].Execute(t.Context(), api.ExecuteComponentRequest{
			Module: "RANDOM_UUID", Input: []byte("{}"), Config: []byte("{}"), WaitForMs: new(int32(5000)),
		}, nil)
		if err == nil {
			for _, failure := range c.clients[0].Stream(t.Context(), made.ID) {
				err = errors.Join(err, failure)
			}
		}
		if err == nil {
			answered++
		} else if limited(err) == nil {
			t.Errorf("a call failed while the limits are locked: %v", err)
		}
	}
	if answered == 0 {
		t.Error("no request was admitted")
	}
}

// Ten thousand requests with the victim's key and invalid signatures do not change its limits. Each
// comes from a different address, so that none is rejected before its signature is checked.
func TestRL06InvalidSignaturesDoNotUseUpLimits(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(cfg *Config) {
		withPatientLimiter(cfg)
		cfg.TrustedProxies = cfg.AllowNetworks // so that the requests seem to come from other addresses
	})
	victim := newCustomer(t, w, plan.Starter, w.app)
	left := func() int32 {
		answer, err := victim.clients[0].Call(t.Context(), http.MethodGet, "/v1/sdk/limits", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var limits api.Limits
		if err := json.Unmarshal(answer, &limits); err != nil {
			t.Fatal(err)
		}
		return *limits.RequestsPerHour.Remaining
	}
	before := left()
	var strangers sync.WaitGroup
	for side := range 4 {
		strangers.Go(func() {
			for n := range waittest.Size(250, 2500) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.app.URL()+"/v1/sdk/limits", nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.%d.%d.%d", 18+side, n/250, n%250))
				r.Header.Set(auth.HeaderKey, victim.key.APIKey)
				r.Header.Set(auth.HeaderTimestamp, fmt.Sprint(time.Now().Unix()))
				r.Header.Set(auth.HeaderSignature, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==")
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get("RateLimit") != "" {
					t.Errorf("an unsigned request returned %d with RateLimit %q", answer.StatusCode, answer.Header.Get("RateLimit"))
					return
				}
			}
		})
	}
	strangers.Wait()
	if after := left(); after != before-1 {
		t.Errorf("the hourly quota left changed from %d to %d", before, after)
	}
}
