package settings_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/local/client"
)

// An active key can be revoked on the page, however many newer keys have expired.
func TestActiveKeyIsShownAfterManyExpiredOnes(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	send(http.MethodPost, s.workspace+"/api-keys", url.Values{"label": {"the oldest"}})
	_, err := s.pool.Exec(t.Context(), `INSERT INTO api_keys (workspace_id, id, label, key_hash, key_hint, public_key, allowed_workflow_ids, revoked_at)
		SELECT workspace_id, least_id(now() + n * interval '1 s'), 'ended', sha256(n::text::bytea), key_hint, public_key, '{}', now()
		FROM api_keys, generate_series(1, 101) n`)
	if err != nil {
		t.Fatal(err)
	}
	_, _, page := send(http.MethodGet, s.workspace, nil)
	if !strings.Contains(page, "the oldest") || !strings.Contains(page, "Revoke at once") || !strings.Contains(page, "Revoked and expired keys (100)") {
		t.Error("the page doesn't show the active key and the expired ones")
	}
}

// The page warns before the last owner or the last key that stays active goes, also after a rotation.
func TestPageWarnsOnLastOwnerAndLastKey(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	send(http.MethodPost, s.workspace+"/api-keys", url.Values{"label": {"x"}})
	_, _, page := send(http.MethodGet, s.workspace, nil)
	for _, want := range []string{"No other key stays active", "The last owner"} {
		if strings.Count(page, want) != 1 {
			t.Errorf("the page has %q %d times, want once", want, strings.Count(page, want))
		}
	}
	key := textBetween(t, page, s.workspace+"/api-keys/", "/rotate")
	send(http.MethodPost, s.workspace+"/api-keys/"+key+"/rotate", url.Values{"hours": {"24"}})
	if _, _, page = send(http.MethodGet, s.workspace, nil); strings.Count(page, "No other key stays active") != 1 {
		t.Errorf("after a rotation, the page warns on %d keys, want the new key only", strings.Count(page, "No other key stays active"))
	}
}

// The form of a key offers the workflows by name, the list shows the names of those that a key can
// use, and the audit log names workflows.
func TestPageShowsWorkflowsByName(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	_, _, page := send(http.MethodPost, s.workspace+"/api-keys", url.Values{"label": {"x"}})
	signer, err := client.NewSigner(textBetween(t, page, `id="api-key">`, "<"), textBetween(t, page, `id="api-secret">`, "<"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.url, signer, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), http.MethodPost, "/v1/sdk/workflows", []byte(`{"name":"Pay & <wait>","components":[{"id":"start","module":"ON_API_CALLED"}]}`), nil); err != nil {
		t.Fatal(err)
	}
	_, _, page = send(http.MethodGet, s.workspace, nil)
	choice := regexp.MustCompile(`name="workflow" value="([^"]*)"> Pay &amp; &lt;wait&gt;`).FindStringSubmatch(page)
	if choice == nil {
		t.Fatalf("the form does not offer the workflow: %s", page)
	}
	form := url.Values{"label": {" "}, "workflow": {choice[1]}}
	if _, _, page = send(http.MethodPost, s.workspace+"/api-keys", form); !strings.Contains(page, `value="`+choice[1]+`" checked`) {
		t.Error("a rejected form forgets the workflows that were selected")
	}
	form.Set("label", "restricted")
	send(http.MethodPost, s.workspace+"/api-keys", form)
	_, _, page = send(http.MethodGet, s.workspace, nil)
	for _, want := range []string{`<td data-label="Workflows">Pay &amp; &lt;wait&gt;</td>`, `<td data-label="About">Pay &amp; &lt;wait&gt;</td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
