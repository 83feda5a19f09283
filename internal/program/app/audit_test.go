package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// events returns all audit events of the workspace, oldest first.
func (n *tenant) events(t *testing.T) []api.AuditEvent {
	t.Helper()
	var page api.AuditEventPage
	n.own(t, http.MethodGet, "/audit-events?limit=100", nil).into(t, &page)
	slices.Reverse(page.Data)
	return page.Data
}

func TestMT09EveryChangeIsOneAuditEvent(t *testing.T) {
	t.Parallel()
	began := time.Now()
	w := startWhole(t, nil)
	n := w.tenant(t, "acme")
	var want []string
	var secrets []string
	// did records the next expected event: action, actor, subject, request ID.
	did := func(action, actor, subject string, r reply) {
		t.Helper()
		if r.status != http.StatusOK && r.status != http.StatusForbidden {
			t.Fatalf("%s: got status %d %s", action, r.status, r.body)
		}
		want = append(want, fmt.Sprint(action, " ", actor, " ", subject, " ", r.header.Get("X-Request-Id")))
	}
	none := reply{status: http.StatusOK}
	did("credits.granted", "system", "", none)
	did("api_key.created", "system", n.key.KeyID.String(), none) // created by the test itself, not by a command
	did("member.added", "system", n.owner.ID.String(), none)

	var invited api.CreatedInvitation
	r := n.own(t, http.MethodPost, "/invitations", map[string]any{"email": "bob@example.org", "role": "viewer"})
	r.into(t, &invited)
	did("invitation.created", "acme@example.org", invited.ID.String(), r)
	r = w.ask(t, http.DefaultClient, "", http.MethodPost, "/v1/invitations/accept", map[string]string{"token": invited.Token, "name": "Bob", "password": password})
	var bob api.Session
	r.into(t, &bob)
	bobID := bob.User.ID.String()
	did("member.joined", "bob@example.org", bobID, r)
	secrets = append(secrets, invited.Token, bob.Token, password, n.token, n.key.APIKey, n.key.APISecret)
	did("access.denied", "bob@example.org", "createApiKey", n.as(t, bob.Token, http.MethodPost, "/api-keys", map[string]any{"label": "x", "allowedWorkflowIds": []string{}}))
	waittest.Until(t, "the event of the rejected request", func() bool { return len(n.events(t)) == len(want) })
	role := map[string]any{"role": "editor"}
	did("member.changed", "acme@example.org", bobID, n.own(t, http.MethodPut, "/members/"+bobID, role))
	n.own(t, http.MethodPut, "/members/"+bobID, role) // changes nothing
	did("member.removed", "acme@example.org", bobID, n.own(t, http.MethodDelete, "/members/"+bobID, nil))

	r = n.own(t, http.MethodPost, "/invitations", map[string]any{"email": "carol@example.org", "role": "admin"})
	r.into(t, &invited)
	secrets = append(secrets, invited.Token)
	did("invitation.created", "acme@example.org", invited.ID.String(), r)
	replaced := invited.ID.String()
	r = n.own(t, http.MethodPost, "/invitations", map[string]any{"email": "carol@example.org", "role": "owner"})
	r.into(t, &invited)
	secrets = append(secrets, invited.Token)
	did("invitation.revoked", "acme@example.org", replaced, r)
	did("invitation.created", "acme@example.org", invited.ID.String(), r)
	did("invitation.revoked", "acme@example.org", invited.ID.String(), n.own(t, http.MethodDelete, "/invitations/"+invited.ID.String(), nil))
	n.own(t, http.MethodDelete, "/invitations/"+invited.ID.String(), nil) // changes nothing

	var made api.CreatedAPIKey
	r = n.own(t, http.MethodPost, "/api-keys", map[string]any{"label": "Checkout", "allowedWorkflowIds": []string{}})
	r.into(t, &made)
	did("api_key.created", "acme@example.org", made.ID.String(), r)
	secrets = append(secrets, made.APIKey, made.APISecret)
	old := made.ID.String()
	r = n.own(t, http.MethodPost, "/api-keys/"+old+"/rotate", map[string]any{"overlapSeconds": 60})
	r.into(t, &made)
	did("api_key.rotated", "acme@example.org", old, r)
	secrets = append(secrets, made.APIKey, made.APISecret)
	did("api_key.revoked", "acme@example.org", old, n.own(t, http.MethodDelete, "/api-keys/"+old, nil))
	n.own(t, http.MethodDelete, "/api-keys/"+old, nil) // changes nothing

	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	id := n.execution(t, receiver.URL)
	replay := "/v1/sdk/components/executions/" + id + "/replay-callback"
	waittest.Until(t, "the callback to be delivered", func() bool { return strings.Contains(n.sign(t, http.MethodPost, replay, nil).body, `"deliveredAt":"`) }) // changes nothing
	did("callback.replayed", "acme", id, n.sign(t, http.MethodPost, replay+"?force=true", nil))

	// The changes that weft admin makes.
	system := w.app.pools.system
	deed := func(action, subject string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s failed: %v", action, err)
		}
		did(action, "system", subject, none)
	}
	deed("plan.changed", "", billing.Books{}.SetPlan(t.Context(), system, billing.Plan{WorkspaceID: n.id, Name: plan.Growth, RPS: new(int32(7))}))
	grant := func(action string, amount credit.Amount) {
		t.Helper()
		for range 2 { // the second changes nothing
			if _, err := (billing.Books{}).Grant(t.Context(), system, billing.Grant{WorkspaceID: n.id, Amount: amount, Reference: action}); err != nil {
				t.Fatal(err)
			}
		}
		deed(action, "", nil)
	}
	grant("credits.granted", credit.Credits(5))
	grant("credits.taken_back", -credit.Credits(2))
	_, err := person.SetPassword(t.Context(), system, "acme@example.org", password, false)
	deed("password.changed", n.owner.ID.String(), err)
	n.token = w.signIn(t, "acme@example.org")

	var have []string
	for _, e := range n.events(t) {
		actor, subject, request := string(e.Actor.Kind), "", ""
		if e.Actor.Name != nil {
			actor = *e.Actor.Name
		}
		if e.Subject != nil {
			subject = e.Subject.ID
		}
		if e.RequestID != nil {
			request = *e.RequestID
		}
		have = append(have, fmt.Sprint(e.Action, " ", actor, " ", subject, " ", request))
		if age := time.Since(e.At.Std()); age < -time.Second || e.At.Std().Before(began.Add(-time.Second)) {
			t.Errorf("%s was created %v ago", e.Action, age)
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("got events\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	all := n.own(t, http.MethodGet, "/audit-events?limit=100", nil).body + w.log.String()
	for _, secret := range secrets {
		if strings.Contains(all, secret) {
			t.Errorf("the events or the log contain a secret: %.8s...", secret)
		}
	}
	if _, token := n.joined(t, "dora@example.org", person.Editor); n.as(t, token, http.MethodGet, "/audit-events", nil).status != http.StatusForbidden {
		t.Error("an editor can read the events")
	}
}

// execution runs a component whose callback goes to url, and returns its ID.
func (n *tenant) execution(t *testing.T, url string) string {
	t.Helper()
	var record api.ComponentExecution
	n.sign(t, http.MethodPost, "/v1/sdk/components", map[string]any{
		"module": "RANDOM_UUID", "input": map[string]any{}, "config": map[string]any{}, "waitForMs": 15000, "callbackUrl": url,
	}).into(t, &record)
	return record.ID.String()
}
