package conformance

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var apiKeyCases = []Case{
	{
		Part: "2.6.creation, 2.6.apiSecret, 2.6.prefix, 4.9, 5.1.4, D9.2.rotate",
		Name: "keys/200 making, listing, rotating, revoking", Run: keyLife, Needs: owner,
	},
	{Part: "2.6.creation, 5.1.2", Name: "keys/400 label and allowedWorkflowIds are both required", Run: keyRefused, Needs: owner},
	{Part: "D1.7.operations", Name: "EX15 keys/200 an Idempotency-Key repeats no key", Run: keyNotRepeated, Needs: owner},
	{Part: "D9.2.rotate", Name: "keys/409 and 404 what cannot be rotated or revoked", Run: keyConflicts, Needs: owner},
	{
		Part: "D9.2.rotate, D2.6.revoked", Name: "AU11AndSS10 a rotated key and its stream end after the overlap", Run: keyOverlap,
		Needs: []probe.Need{probe.NeedOwner, probe.NeedNear},
	},
}

func newKeyOf(t *probe.Trial, boss, label string, workflows ...string) (api.CreatedAPIKey, probe.Credentials) {
	body := map[string]any{"label": label, "allowedWorkflowIds": append([]string{}, workflows...)}
	return keyOf(t, within(t, boss, http.MethodPost, "/api-keys", body))
}

// keyOf decodes a response with a key.
func keyOf(t *probe.Trial, answer probe.Answer) (api.CreatedAPIKey, probe.Credentials) {
	made := probe.Decode[api.CreatedAPIKey](t, answer)
	t.Equal("Cache-Control", answer.Header.Get("Cache-Control"), "no-store")
	der, err := base64.StdEncoding.DecodeString(made.APISecret)
	t.NoError("apiSecret", err)
	private, err := x509.ParsePKCS8PrivateKey(der)
	t.NoError("apiSecret", err)
	_, ok := private.(ed25519.PrivateKey)
	t.Check(ok && strings.HasPrefix(made.APIKey, "ws_"), "a key of the type %T", private)
	credentials := t.Target().Credentials
	credentials.APIKey, credentials.APISecret = made.APIKey, made.APISecret
	return made, credentials
}

// works reports whether a key is accepted.
func works(t *probe.Trial, as probe.Credentials) bool {
	answer := t.Do(probe.Request{Path: probe.Executions + "?limit=1", Sign: probe.Signing{As: &as}})
	if answer.Status != http.StatusOK {
		t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")), "invalid_credentials")
	}
	return answer.Status == http.StatusOK
}

func keyLife(t *probe.Trial) {
	boss := t.SignIn()
	workflow := create(t, drawn("listed")).ID
	made, credentials := newKeyOf(t, boss, "Checkout", workflow)
	t.Equal("label", made.Label, "Checkout")
	t.Check(len(made.AllowedWorkflowIds) == 1 && made.AllowedWorkflowIds[0].String() == workflow, "workflows %v", made.AllowedWorkflowIds)
	t.Check(works(t, credentials), "the new key is refused")
	answer := within(t, boss, http.MethodGet, "/api-keys?limit=100", nil)
	t.Check(!strings.Contains(string(answer.Body), made.APIKey) && !strings.Contains(string(answer.Body), made.APISecret), "the list shows a secret")
	listed := func(id string) api.APIKey {
		page := probe.Decode[api.APIKeyPage](t, within(t, boss, http.MethodGet, "/api-keys?limit=100", nil))
		t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
		at := slices.IndexFunc(page.Data, func(k api.APIKey) bool { return k.ID.String() == id })
		t.Check(at >= 0, "the key is not in the list")
		return page.Data[at]
	}
	key := listed(made.ID.String())
	t.Equal("createdAt", key.CreatedAt, made.CreatedAt)
	t.Equal("allowedWorkflowIds", key.AllowedWorkflowIds, made.AllowedWorkflowIds)
	t.Check(key.Label == "Checkout" && key.Hint[:5] == made.APIKey[:5] && key.ExpiresAt == nil && key.RevokedAt == nil && key.ReplacedBy == nil, "key %v", key)

	path := "/api-keys/" + made.ID.String()
	next, successor := keyOf(t, within(t, boss, http.MethodPost, path+"/rotate", map[string]int{"overlapSeconds": 3600}))
	t.Check(next.ID != made.ID && next.Label == made.Label && slices.Equal(next.AllowedWorkflowIds, made.AllowedWorkflowIds), "the successor is %s", next.ID)
	t.Equal("createdAt", listed(next.ID.String()).CreatedAt, next.CreatedAt)
	t.Check(works(t, credentials) && works(t, successor), "a key is refused inside the overlap")
	key = listed(made.ID.String())
	t.Check(key.ReplacedBy != nil && *key.ReplacedBy == next.ID && key.ExpiresAt != nil, "the old key is %v", key)
	t.Check(next.Replaces != nil && next.Replaces.ID == made.ID && next.Replaces.ExpiresAt == *key.ExpiresAt, "it replaces %v", next.Replaces)
	t.Check(made.Replaces == nil, "the first key replaces %v", made.Replaces)
	left := time.Until(key.ExpiresAt.Std())
	t.Check(left > 58*time.Minute && left < 61*time.Minute, "it ends in %v", left)

	revoked := probe.Decode[api.APIKey](t, within(t, boss, http.MethodDelete, path, nil))
	t.Check(revoked.RevokedAt != nil, "it is not revoked")
	key.RevokedAt = revoked.RevokedAt
	t.Equal("the revoked key", revoked, key)
	t.Until("the revoked key is refused", time.Second, func() bool { return !works(t, credentials) })
	t.Equal("again", probe.Decode[api.APIKey](t, within(t, boss, http.MethodDelete, path, nil)), revoked)
	t.Check(works(t, successor), "the successor is refused too")
	within(t, boss, http.MethodDelete, "/api-keys/"+next.ID.String(), nil)
}

// keyNotRepeated checks that a response with a secret is never repeated.
func keyNotRepeated(t *probe.Trial) {
	boss := t.SignIn()
	create := probe.Request{
		Method: http.MethodPost, Path: probe.Workspace(t.Target().WorkspaceID) + "/api-keys", Bearer: boss,
		Header: http.Header{"Idempotency-Key": {"key"}}, Body: t.JSON(object{"label": "Checkout", "allowedWorkflowIds": []string{}}),
	}
	first, _ := keyOf(t, t.Do(create))
	answer := t.Do(create)
	second, _ := keyOf(t, answer)
	t.Check(first.ID != second.ID && first.APIKey != second.APIKey, "the key %s was returned twice", first.ID)
	t.Equal("Idempotent-Replayed", answer.Header.Get("Idempotent-Replayed"), "")
	for _, made := range []api.CreatedAPIKey{first, second} {
		within(t, boss, http.MethodDelete, "/api-keys/"+made.ID.String(), nil)
	}
}

func keyRefused(t *probe.Trial) {
	boss := t.SignIn()
	for want, body := range map[string]map[string]any{
		"/label":                {"allowedWorkflowIds": []string{}},
		"/allowedWorkflowIds":   {"label": "Checkout"},
		"/label ":               {"label": "", "allowedWorkflowIds": []string{}},
		"/label  ":              {"label": 7, "allowedWorkflowIds": []string{}},
		"/allowedWorkflowIds ":  {"label": "Checkout", "allowedWorkflowIds": nil},
		"/allowedWorkflowIds/0": {"label": "Checkout", "allowedWorkflowIds": []string{"x"}},
		"/allowedWorkflowIds/1": {"label": "Checkout", "allowedWorkflowIds": []string{create(t, drawn("known")).ID, "0193f1c0-0000-7000-8000-00000000000a"}},
	} {
		p := t.Problem(within(t, boss, http.MethodPost, "/api-keys", body), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", slices.Compact(probe.Pointers(p)), []string{strings.TrimSpace(want)})
	}
	all, credentials := newKeyOf(t, boss, "all")
	t.Equal("allowedWorkflowIds", len(all.AllowedWorkflowIds), 0)
	t.Check(works(t, credentials), "the key for all workflows is refused")
	within(t, boss, http.MethodDelete, "/api-keys/"+all.ID.String(), nil)
}

func keyConflicts(t *probe.Trial) {
	boss := t.SignIn()
	inactive := func(id string) {
		answer := within(t, boss, http.MethodPost, "/api-keys/"+id+"/rotate", nil)
		t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusConflict, "CONFLICT")), "key_not_active")
	}
	made, old := newKeyOf(t, boss, "rotated at once")
	next, successor := keyOf(t, within(t, boss, http.MethodPost, "/api-keys/"+made.ID.String()+"/rotate", nil))
	t.Until("the rotated key is refused", time.Second, func() bool { return !works(t, old) })
	t.Check(works(t, successor), "the successor is refused")
	inactive(made.ID.String())
	within(t, boss, http.MethodDelete, "/api-keys/"+next.ID.String(), nil)
	inactive(next.ID.String())
	for _, id := range []string{"0193f1c0-0000-7000-8000-000000000009", "x"} {
		t.Problem(within(t, boss, http.MethodDelete, "/api-keys/"+id, nil), http.StatusNotFound, "NOT_FOUND")
		t.Problem(within(t, boss, http.MethodPost, "/api-keys/"+id+"/rotate", nil), http.StatusNotFound, "NOT_FOUND")
	}
	for _, seconds := range []any{-1, 604801, "1", 1.5} {
		answer := within(t, boss, http.MethodPost, "/api-keys/"+made.ID.String()+"/rotate", map[string]any{"overlapSeconds": seconds})
		t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	}
	t.Problem(within(t, boss, http.MethodGet, "/api-keys?cursor=x", nil), http.StatusBadRequest, "INVALID_INPUT")
	seen := map[string]bool{}
	for query := "?limit=1"; query != ""; {
		page := probe.Decode[api.APIKeyPage](t, within(t, boss, http.MethodGet, "/api-keys"+query, nil))
		t.Check(len(page.Data) == 1 && !seen[page.Data[0].ID.String()], "page %v", page.Data)
		seen[page.Data[0].ID.String()] = true
		if query = ""; page.NextCursor != nil && len(seen) < 3 {
			query = "?limit=1&cursor=" + *page.NextCursor
		}
	}
}

func keyOverlap(t *probe.Trial) {
	boss := t.SignIn()
	made, old := newKeyOf(t, boss, "overlap")
	url, _, asked := held(t)
	as := probe.Signing{As: &old}
	call := probe.Request{Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.Fetch(url)), Sign: as}
	id := probe.Decode[api.ComponentExecution](t, t.Do(call)).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	stream := t.StreamOf(probe.Request{Path: probe.Execution(id) + "/stream", Sign: as})
	_, ok := stream.Next()
	t.Check(ok, "the stream ended before the execution")
	began := time.Now()
	next, _ := keyOf(t, within(t, boss, http.MethodPost, "/api-keys/"+made.ID.String()+"/rotate", map[string]int{"overlapSeconds": 2}))
	t.Check(works(t, old) || time.Since(began) > 2*time.Second, "the key is refused inside the overlap")
	t.Until("the key is refused after the overlap", 4*time.Second, func() bool { return !works(t, old) })
	t.Check(time.Since(began) >= 1900*time.Millisecond, "the key ended %v after the rotation", time.Since(began))
	stream.Rest()
	t.Soon(time.Since(began), 7*time.Second, "the stream ended %v after the rotation", time.Since(began))
	within(t, boss, http.MethodDelete, "/api-keys/"+next.ID.String(), nil)
}
