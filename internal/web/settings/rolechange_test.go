package settings_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// If a member loses their role while they create a key, the key isn't created. Otherwise it
// would remain valid without the knowledge of the person who changed the role.
func TestRoleChangeDuringRequestPreventsKeyCreation(t *testing.T) {
	s := start(t)
	workspace := strings.TrimPrefix(s.workspace, "/settings")
	_, header, _ := s.browser(t)(http.MethodPost, "/settings/sign-in", map[string][]string{"email": {email}, "password": {password}})
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	post := func(path, kind, body string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		for name, value := range map[string]string{"Content-Type": kind, "Cookie": cookie, "Sec-Fetch-Site": "same-origin"} {
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	const form, object = "application/x-www-form-urlencoded", "application/json"
	for name, c := range map[string]struct{ path, kind, body string }{
		"by a form":         {s.workspace + "/api-keys", form, "label=x"},
		"by another form":   {s.workspace + "/api-keys/" + uuid.Max.String() + "/rotate", form, "hours=1"},
		"by an operation":   {"/v1" + workspace + "/api-keys", object, `{"label":"x","allowedWorkflowIds":[]}`},
		"by another of one": {"/v1" + workspace + "/api-keys/" + uuid.Max.String() + "/rotate", object, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			s.role(t, "owner")
			tx, err := s.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context()) //nolint:errcheck // already committed
			if _, err := tx.Exec(t.Context(), "UPDATE members SET role = 'viewer'"); err != nil {
				t.Fatal(err)
			}
			var status int
			answered := make(chan error, 1)
			go func() {
				var err error
				status, err = post(c.path, c.kind, c.body)
				answered <- err
			}()
			s.waits(t, answered)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-answered; err != nil || status != http.StatusForbidden {
				t.Errorf("%d, %v", status, err)
			}
		})
	}
	var keys int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM api_keys").Scan(&keys); err != nil || keys != 0 {
		t.Errorf("created %d keys, want 0, and %v", keys, err)
	}
}

// role sets the role of all members.
func (s *service) role(t *testing.T, role string) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), "UPDATE members SET role = $1", role); err != nil {
		t.Fatal(err)
	}
}

// waits returns when a statement waits for a lock. The test fails if the response arrives before
// that.
func (s *service) waits(t *testing.T, answered <-chan error) {
	t.Helper()
	waittest.Until(t, "a statement waits for a lock", func() bool {
		select {
		case err := <-answered:
			t.Fatalf("got a response before the role change was committed: %v", err)
		default:
		}
		var n int
		err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}
