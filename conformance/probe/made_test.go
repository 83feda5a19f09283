package probe

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// departing is a deployment with one session, whose answers to DELETE are conflicts.
type departing struct {
	mu       sync.Mutex
	reason   string
	requests []string
}

const (
	someWorkspace = "019aa5f2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"
	someSession   = `{"token":"Zt3n0qV5b1x8aJ2kR7mP4sW9yC6dF0hL","expiresAt":"2026-12-05T10:15:30.120Z",` +
		`"user":{"id":"019aa5f2-2b3c-7d4e-8f50-6b7c8d9e0f1a","email":"ada@example.org","name":"Ada"},"workspaces":[]}`
)

func (d *departing) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests = append(d.requests, r.Method+" "+r.URL.Path)
	status, body := http.StatusConflict, `{"reason":"`+d.reason+`"}`
	if r.URL.Path == Sessions || r.URL.Path == Current {
		status, body = http.StatusOK, someSession
	}
	header := http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}, "Date": {"Sat, 28 Nov 2026 00:00:00 GMT"},
		"X-Request-Id": r.Header["X-Request-Id"], "Set-Cookie": {"__Host-weft_session=Zt3n0qV5b1x8aJ2kR7mP4sW9yC6dF0hL; Path=/; Secure; HttpOnly; SameSite=Lax"},
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// End ends the session that it starts, and reports a member whom the deployment keeps. A conflict
// means only for an accepted invitation that nothing is left.
func TestEndListsWhatIsLeftAndSignsOut(t *testing.T) {
	for reason, left := range map[string]bool{"last_owner": true, "invitation_accepted": false} {
		deployment := &departing{reason: reason}
		target := scriptedTarget(t, deployment)
		target.WorkspaceID, target.AdminEmail, target.AdminPassword = someWorkspace, "ada@example.org", "a long password"
		undo := Request{Method: http.MethodDelete, Path: Workspace(someWorkspace) + "/members/019aa5f2-2b3c-7d4e-8f50-6b7c8d9e0f1a", Unchecked: true}
		target.made.undos[0] = []Request{undo}
		err := target.End(t.Context())
		if left != (err != nil && strings.Contains(err.Error(), reason)) {
			t.Errorf("%s: End returned %v", reason, err)
		}
		if want := "POST " + Sessions + ", DELETE " + undo.Path + ", DELETE " + Current; strings.Join(deployment.requests, ", ") != want {
			t.Errorf("%s: sent %q, want %s", reason, deployment.requests, want)
		}
	}
}
