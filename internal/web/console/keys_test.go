package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
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
