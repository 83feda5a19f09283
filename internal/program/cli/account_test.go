package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/weft-automation/weft/internal/program/app"
)

const workspaceText = `{"id":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e","name":"shop","plan":"growth","credits":{"plan":"growth","monthlyCredits":1000,"usageLimit":null,"planCredits":990.5,` +
	`"paidCredits":10,"reservedCredits":1,"availableCredits":999.5,"usedThisMonth":9.5,"storedBytes":4711,"storageLimit":null,"monthStartsAt":"2026-11-01T00:00:00.000Z",` +
	`"nextReleaseAt":"2026-12-01T00:00:00.000Z","nextResetAt":"2026-12-01T00:00:00.000Z"},"apiKey":{"id":"019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6f","label":"of Ada","allowedWorkflowIds":[]}}`

func TestAccountIsPrinted(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/sdk/limits" {
			fmt.Fprint(w, `{"plan":"growth","requestsPerSecond":{"limit":25,"remaining":24},"requestsPerHour":{"limit":null,"remaining":null},"inlineWaits":{"limit":5,"open":1},"streams":{"limit":5,"open":0}}`)
			return
		}
		fmt.Fprint(w, workspaceText)
	})
	for _, c := range []struct{ command, want string }{
		{"whoami", "Workspace     shop\n"}, {"whoami", "Key           of Ada\n"},
		{"credits", "Available        999.5\n"}, {"usage", "Stored bytes  4711\n"},
		{"limits", "Requests per second  25        24\n"}, {"limits", "Requests per hour    no limit\n"}, {"limits", "Inline waits         5               1\n"},
	} {
		run(t, s.environ(), "", c.command).check(t, 0, c.want, "")
	}
	run(t, s.environ(), "", "credits", "--jq=.availableCredits").check(t, 0, "999.5\n", "")
	run(t, s.environ(), "", "usage", "-o", "jsonl").check(t, 0, `"storedBytes":4711`, "")
	run(t, nil, "", "version").check(t, 0, app.Version+"\n", "")
	run(t, nil, "", "version", "-o", "json").check(t, 0, `"version": "`+app.Version, "")
}

func TestAPISendsSignedRequestsToNoOtherAddress(t *testing.T) {
	t.Parallel()
	visits := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits++ }))
	defer other.Close()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			return
		}
		fmt.Fprint(w, `{"a":1e400}`)
	})
	run(t, s.environ(), "", "api", "get", "/v1/sdk/executions?limit=2").check(t, 0, `"a": 1e400`, "")
	run(t, s.environ(), `{"n": 1}`, "api", "PUT", "//"+other.Listener.Addr().String()+"/x", "--body=-", "--idempotency-key=once").check(t, 0, `"a": 1e400`, "")
	run(t, s.environ(), "", "api", "/v1/sdk/executions?limit=3").check(t, 0, `"a": 1e400`, "")
	run(t, s.environ(), "", "api", "GET", "/moved").check(t, 6, "", "307")
	for _, path := range []string{other.URL, "v1/sdk/limits", "@" + other.Listener.Addr().String(), "/a#b", "/a b", ""} {
		run(t, s.environ(), "", "api", "GET", path).check(t, 2, "", "is not a path such as /v1/sdk/limits")
	}
	want := []string{"GET /v1/sdk/executions?limit=2", "PUT //" + other.Listener.Addr().String() + `/x {"n":1}`, "GET /v1/sdk/executions?limit=3", "GET /moved"}
	if !slices.Equal(s.seen(), want) || visits != 0 {
		t.Errorf("requests %q, and %d to another address", s.seen(), visits)
	}
}
