package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const hookID = "019aa5f3-2c3d-7e4f-9051-6c7d8e9fa0b1"

func hookText(status string) string {
	return `{"id":"` + hookID + `","workflowId":"` + workflowID + `","name":"of\u001b[2J X","status":"` + status + `","path":"/v1/hooks/` + hookID +
		`","verification":{"scheme":"hmac","header":"X-Mac","prefix":"","algorithm":"sha256","encoding":"hex","deliveryHeader":null},"lastAt":null,"lastRunId":null,` +
		`"lastRefusedAt":"2026-11-20T08:00:00.000Z","lastRefusal":"hook_paused","refusalCount":3,"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`
}

func TestHooksAreCreatedPausedAndDeleted(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			fmt.Fprint(w, hookText("PAUSED"))
			return
		}
		fmt.Fprint(w, hookText("ACTIVE"))
	})
	s.nameWorkflow(t, "pulls")
	hooks := func(stdin string, args ...string) result {
		return run(t, s.environ(), stdin, append([]string{"hooks"}, args...)...)
	}
	token := filepath.Join(t.TempDir(), "token.txt")
	if err := os.WriteFile(token, []byte("hush-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hooks("hush-hush\n", "create", "pulls", "--header=X-Hub-Signature-256", "--prefix=sha256=", "--algorithm=sha256", "--encoding=hex",
		"--delivery-header=X-GitHub-Delivery", "--accept-repeated-bodies", "--name=Pulls", "--paused", "--idempotency-key=once").
		check(t, 0, "/v1/hooks/"+hookID, "deliveries go to "+s.URL+"/v1/hooks/"+hookID+"\n")
	hooks("hush-hush", "create", workflowID, "--standard-webhooks", "--verify-token-file="+token).check(t, 0, "", "")
	hooks("not read", "create", workflowID).check(t, 0, "", "")
	hooks("", "pause", hookID).check(t, 0, "PAUSED\n", "")
	hooks("", "resume", hookID).check(t, 0, hookID+"\n", "")
	hooks("", "delete", hookID).check(t, 0, "", "is deleted")
	path := "/v1/sdk/hooks"
	want := []string{
		"POST " + path + ` {"name":"Pulls","status":"PAUSED","verification":{"acceptRepeatedBodies":true,"algorithm":"sha256","deliveryHeader":"X-GitHub-Delivery","encoding":"hex",` +
			`"header":"X-Hub-Signature-256","prefix":"sha256=","secret":"hush-hush"},"workflowId":"` + workflowID + `"}`,
		"POST " + path + ` {"verification":{"scheme":"standardWebhooks","secret":"hush-hush","verifyToken":"hush-token"},"workflowId":"` + workflowID + `"}`,
		"POST " + path + ` {"workflowId":"` + workflowID + `"}`,
		"GET " + path + "/" + hookID, "PUT " + path + "/" + hookID + ` {"name":"of\u001b[2J X","status":"PAUSED"}`,
		"GET " + path + "/" + hookID, "PUT " + path + "/" + hookID + ` {"name":"of\u001b[2J X","status":"ACTIVE"}`,
		"DELETE " + path + "/" + hookID,
	}
	if !slices.Equal(s.asked(), want) {
		t.Errorf("requests %q\nwant %q", s.asked(), want)
	}
	if key := s.requests[0].Header.Get("Idempotency-Key"); key != "once" {
		t.Errorf("unexpected Idempotency-Key %q", key)
	}
	for text, got := range map[string]result{
		"the secret is missing": hooks("", "create", workflowID, "--header=X-Mac"), "not valid UTF-8": hooks("hush\xff", "create", workflowID, "--header=X-Mac"),
		"verify-token-file needs": hooks("hush-hush", "create", workflowID, "--verify-token-file="+token), "read the verify token": hooks("hush-hush", "create", workflowID, "--header=X", "--verify-token-file="+token+".missing"),
		"need --header": hooks("hush-hush", "create", workflowID, "--prefix=sha256="), "can't be used together": hooks("hush-hush", "create", workflowID, "--header=X", "--standard-webhooks"),
		"there is no workflow": hooks("hush-hush", "create", "none", "--header=X-Mac"), `there is no hook "nonsense"`: hooks("", "pause", "nonsense"),
	} {
		if got.code == 0 || got.stdout != "" || !strings.Contains(got.stderr, text) || strings.Contains(got.stderr, "hush") {
			t.Errorf("%d, %s, want %s", got.code, got.stderr, text)
		}
	}
	if want = append(want, "GET /v1/sdk/hooks?limit=100"); !slices.Equal(s.asked(), want) { // looks for the name
		t.Errorf("rejected requests were sent: %q", s.seen())
	}
}

func TestAShortSecretIsAWarning(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/sdk/hooks" { // the service warns, because the secret may be that of an ON_WEBHOOK
			fmt.Fprint(w, strings.TrimSuffix(hookText("ACTIVE"), "}")+`,"warnings":[{"code":"SHORT_SECRET","message":"The secret is short.","pointer":"/verification/secret"}]}`)
			return
		}
		fmt.Fprint(w, record("COMPLETED", "{}", "null"))
	})
	run(t, s.environ(), "", "hooks", "create", workflowID).check(t, 0, "", "Warning: The secret is short.\n")
	for secret, want := range map[string]string{
		"hush-hush": "9 bytes", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM=": "20 bytes", "0123456789abcdef0123456789abcdef": "",
	} {
		got := run(t, append(s.environ(), "WEFT_CALLBACK_SECRET="+secret), "", "call", "M", "--callback-url=https://example.com/")
		if _, warned, _ := strings.Cut(got.stderr, "Warning: the key of the callback's signature has "); got.code != 0 || (warned == "") != (want == "") || !strings.HasPrefix(warned, want) || strings.Contains(got.stderr, secret) {
			t.Errorf("%d bytes: exit code %d, %s", len(secret), got.code, got.stderr)
		}
	}
}

func TestHooksAreListed(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, hookText("ACTIVE"))
	})
	got := run(t, s.environ(), "", "hooks", "list")
	got.check(t, 0, "\nof\uFFFD[2J X  "+workflowID+"  ACTIVE  hmac    X-Mac   -     2026-11-20 08:00:00  hook_paused  3      "+hookID+"\n", "")
	if want := "GET /v1/sdk/hooks?limit=20"; s.seen()[0] != want || got.stderr != "" {
		t.Errorf("sent %s, want %s: %s", s.seen()[0], want, got.stderr)
	}
}

func TestHooksAreUpdated(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, hookText("ACTIVE")) })
	update := func(args ...string) result {
		return run(t, s.environ(), "hush\n", append([]string{"hooks", "update", hookID}, args...)...)
	}
	run(t, s.environ(), "", "hooks", "get", hookID).check(t, 0, "Address        "+s.URL+"/v1/hooks/"+hookID+"\n", "")
	update("--name=Shop", "--header=X-Sig", "--new-secret").check(t, 0, hookID+"\n", "")
	update("--standard-webhooks").check(t, 0, hookID+"\n", "")
	update("--preset=stripe").check(t, 0, hookID+"\n", "")
	for want, args := range map[string][]string{
		"nothing to update": {}, "--new-secret needs": {"--new-secret"}, "need --header": {"--prefix=x"}, "can't be used with": {"--preset=stripe", "--header=X-Sig"},
	} {
		update(args...).check(t, 2, "", want)
	}
	path := "/v1/sdk/hooks/" + hookID
	sent := s.asked()
	for i, want := range []string{
		"GET " + path, "GET " + path, "PUT " + path + ` {"name":"Shop","verification":{"header":"X-Sig","secret":"hush"}}`,
		"GET " + path, "PUT " + path + ` {"name":`, "GET " + path, "PUT " + path + ` {"name":`,
	} {
		if got := sent[i]; !strings.HasPrefix(got, want) {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
	if len(sent) != 7 || !strings.Contains(sent[6], `"verification":{"preset":"stripe"}`) || !strings.Contains(sent[4], `"verification":{"scheme":"standardWebhooks"}`) {
		t.Errorf("sent %q", sent)
	}
}
