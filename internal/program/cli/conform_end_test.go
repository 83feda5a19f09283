package cli_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// active counts what a deployment has in use, by kind.
func active(t *testing.T, dsn string) map[string]int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	counts := map[string]int{}
	for kind, query := range map[string]string{
		"open invitations": "SELECT count(*) FROM invitations WHERE accepted_at IS NULL AND revoked_at IS NULL",
		"active hooks":     "SELECT count(*) FROM hooks WHERE status <> 'DELETED'",
		"active schedules": "SELECT count(*) FROM schedules WHERE status <> 'DELETED'",
		"active workflows": "SELECT count(*) FROM workflows WHERE status <> 'ARCHIVED'",
		"active keys":      "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL",
		"members":          "SELECT count(*) FROM members",
		"variables":        "SELECT count(*) FROM environment_variables",
	} {
		var n int
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		counts[kind] = n
	}
	return counts
}

func TestConformRemovesWhatItCreated(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t)
	dsn := strings.TrimPrefix(environ[1], "DATABASE_URL=")
	before := active(t, dsn)
	unchanged := func(t *testing.T) {
		t.Helper()
		for kind, n := range active(t, dsn) {
			if n != before[kind] {
				t.Errorf("%s: %d before conform, %d after it", kind, before[kind], n)
			}
		}
	}
	conform := []string{"conform", "--only=4.9", "--only=D2.8", "--only=D8.14", "--only=D8.15", "--only=D8.16", "--only=D9.2"}
	t.Run("after all cases", func(t *testing.T) {
		run(t, environ, "", conform...).check(t, 0, "proven", "")
		unchanged(t)
		run(t, environ, "", "conform", "--guests", "--only=D2.8").check(t, 0, "proven", "")
		unchanged(t)
	})
	creations := []string{"/invitations", "/v1/sdk/hooks", "/api-keys", "/v1/sdk/workflows", "/v1/sdk/schedules", "/v1/sdk/environment-variables"}
	for _, creation := range waittest.Size(creations[:1], creations) {
		t.Run("interrupted after a response of "+creation, func(t *testing.T) {
			created := make(chan struct{})
			var once sync.Once
			through := broken(t, baseURL, func(answer *http.Response) {
				made := answer.Request.Method == http.MethodPost || answer.Request.Method == http.MethodPut
				if made && answer.StatusCode == http.StatusOK && strings.Contains(answer.Request.URL.Path, creation) {
					once.Do(func() { close(created) })
				}
			})
			lines, stop := background(t, environ, append(conform, "--base-url="+through)...)
			go func() {
				for range lines {
				}
			}()
			waittest.Receive(t, "a response of "+creation, created)
			if got := stop(); got.code != 1 {
				t.Errorf("code %d, want 1", got.code)
			}
			unchanged(t)
		})
	}
}

// busy changes the responses of an operation to a refusal with this status and Retry-After.
func busy(path string, status int, after string, times int) func(*http.Response) {
	var mu sync.Mutex
	return func(answer *http.Response) {
		mu.Lock()
		defer mu.Unlock()
		if answer.Request.Method != http.MethodPost || answer.Request.URL.Path != path || times == 0 {
			return
		}
		times--
		code := map[int]string{http.StatusTooManyRequests: "RATE_LIMITED", http.StatusServiceUnavailable: "UNAVAILABLE"}[status]
		answer.StatusCode = status
		answer.Header.Del("Set-Cookie")
		answer.Header.Set("Retry-After", after)
		answer.Header.Set("Content-Type", "application/problem+json")
		id := answer.Header.Get("X-Request-Id")
		replace(answer, `{"type":"urn:weft:problem:`+code+`","title":"Busy","status":`+strconv.Itoa(status)+`,"detail":"Wait and try again.",`+
			`"instance":"urn:weft:request:`+id+`","code":"`+code+`","error":"`+code+`","message":"Wait and try again.",`+
			`"reason":"sign_in_attempts","requestId":"`+id+`","retryable":true}`)
	}
}

func TestConformCallsABusyDeploymentNotJudged(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t)
	for name, c := range waittest.Chosen(map[string]struct {
		change func(*http.Response)
		code   int
		stdout string
	}{
		"429 for a second":     {busy("/v1/sessions", http.StatusTooManyRequests, "1", 2), 0, "1 part of the contract: 1 proven"},
		"503 for a second":     {busy("/v1/sessions", http.StatusServiceUnavailable, "1", 2), 0, "1 part of the contract: 1 proven"},
		"429 for ten minutes":  {busy("/v1/sessions", http.StatusTooManyRequests, "600", -1), 3, "NOT JUDGED: "},
		"503 without end":      {busy("/v1/sessions", http.StatusServiceUnavailable, "61", -1), 3, "NOT JUDGED: "},
		"503 without a number": {busy("/v1/sessions", http.StatusServiceUnavailable, "soon", -1), 1, "FAILED: "},
	}, "503 for a second", "429 for ten minutes", "503 without a number") {
		t.Run(name, func(t *testing.T) {
			got := run(t, environ, "", "conform", "--only=4.9", "--base-url="+broken(t, baseURL, c.change))
			got.check(t, c.code, c.stdout, "")
			if c.code != 1 && strings.Contains(got.stdout, "FAILED: ") {
				t.Errorf("a busy deployment is called a violation: %s", got.stdout)
			}
		})
	}
}
