package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/local/client"
)

const password = "correct horse battery"

// tenant is a workspace with a key and an owner.
type tenant struct {
	whole  *whole
	id     uuid.UUID
	key    auth.Created
	owner  person.Person
	token  string // of the owner's session
	signed *http.Client
}

// tenant creates a workspace with a key and an owner.
func (w *whole) tenant(t *testing.T, name string) *tenant {
	t.Helper()
	n := &tenant{whole: w}
	var err error
	system := w.app.pools.system
	if n.id, err = workspace.Create(t.Context(), system, workspace.CreateParams{Name: name, Plan: plan.Enterprise, Paid: credit.Credits(1000)}); err != nil {
		t.Fatal(err)
	}
	if n.key, err = auth.NewKeys(system).Create(t.Context(), auth.CreateParams{WorkspaceID: n.id, Label: name}); err != nil {
		t.Fatal(err)
	}
	if n.owner, err = person.CreateOwner(t.Context(), system, n.id, person.Account{Email: name + "@example.org", Name: name, Password: password}); err != nil {
		t.Fatal(err)
	}
	signer, err := client.NewSigner(n.key.APIKey, n.key.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	n.signed = &http.Client{Transport: &client.Transport{Signer: signer}}
	n.token = w.signIn(t, name+"@example.org")
	return n
}

func (w *whole) signIn(t *testing.T, email string) string {
	t.Helper()
	var session api.Session
	w.ask(t, http.DefaultClient, "", http.MethodPost, "/v1/sessions", map[string]string{"email": email, "password": password}).into(t, &session)
	return session.Token
}

// reply is a response with its body.
type reply struct {
	status int
	header http.Header
	body   string
}

// into decodes a 200 response.
func (r reply) into(t *testing.T, value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), value); r.status != http.StatusOK || err != nil {
		t.Fatalf("got status %d %s: %v", r.status, r.body, err)
	}
}

// ask sends a request, with a session token unless it is "".
func (w *whole) ask(t *testing.T, through *http.Client, token, method, path string, body any) reply {
	t.Helper()
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, w.app.URL()+path, sent)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := through.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{answer.StatusCode, answer.Header, string(text)}
}

// sign sends a request signed with the workspace's key.
func (n *tenant) sign(t *testing.T, method, path string, body any) reply {
	t.Helper()
	return n.whole.ask(t, n.signed, "", method, path, body)
}

// own sends a request of the owner to a path below the workspace.
func (n *tenant) own(t *testing.T, method, path string, body any) reply {
	t.Helper()
	return n.as(t, n.token, method, path, body)
}

// as sends a request with a session token to a path below the workspace.
func (n *tenant) as(t *testing.T, token, method, path string, body any) reply {
	t.Helper()
	return n.whole.ask(t, http.DefaultClient, token, method, "/v1/workspaces/"+n.id.String()+path, body)
}

// joined invites a user, who accepts and signs in.
func (n *tenant) joined(t *testing.T, email string, role person.Role) (userID uuid.UUID, token string) {
	t.Helper()
	var invited struct{ Token string }
	n.own(t, http.MethodPost, "/invitations", map[string]any{"email": email, "role": role}).into(t, &invited)
	var session api.Session
	n.whole.ask(t, http.DefaultClient, "", http.MethodPost, "/v1/invitations/accept",
		map[string]string{"token": invited.Token, "name": strings.ToUpper(email[:1]), "password": password}).into(t, &session)
	return session.User.ID, session.Token
}
