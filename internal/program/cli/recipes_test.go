package cli_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/local/workflowfile"
)

func TestRecipesAreListedAndWritten(t *testing.T) {
	t.Parallel()
	run(t, nil, "", "workflows", "new").check(t, 0, "approval       Waits up to a week for an approval", "")
	run(t, nil, "", "workflows", "new", "--from=endpoint").check(t, 0, "name: Endpoint\n", "")
	run(t, nil, "", "workflows", "new", "--from=none").check(t, 2, "", `unknown recipe "none". The recipes are approval-mail, approval, branch, `)
	run(t, nil, "", "workflows", "new", "a.yaml").check(t, 2, "", "set --from to a recipe")
	file := filepath.Join(t.TempDir(), "a.yaml")
	run(t, nil, "", "workflows", "new", "--from=endpoint", file).check(t, 0, "", "written to "+file)
	run(t, nil, "", "workflows", "new", "--from=branch", file).check(t, 1, "", "file exists")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "name: Endpoint\n") {
		t.Errorf("%s, %v", text, err)
	}
}

// recipeAPI is the endpoint of the user that the recipes call.
func recipeAPI(w http.ResponseWriter, r *http.Request) {
	var sent struct {
		N     int
		Order int
		Text  string
	}
	_ = json.NewDecoder(r.Body).Decode(&sent)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case sent.Order == 503 && r.URL.Path == "/orders":
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Method == http.MethodGet && r.URL.Path == "/customers/new":
		w.WriteHeader(http.StatusNotFound)
	}
	fmt.Fprintf(w, `{"doubled":%d,"items":["a","b","c"],"path":%q,"text":%q}`, 2*sent.N, r.URL.Path, sent.Text)
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// Each recipe runs to its end on a real Weft (payment in the test of the chain's examples), and a file that was pushed, pulled and pushed again is
// unchanged.
func TestRecipesRunOnTheRealService(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t, "--allow-network=127.0.0.0/8")
	upstream := httptest.NewServer(http.HandlerFunc(recipeAPI))
	t.Cleanup(upstream.Close)
	for _, name := range []string{"API_URL", "DEV_CHAIN_URL", "DEV_CHAIN_KEY"} { // dev --chain sets the latter
		run(t, environ, "", "env", "set", name, upstream.URL).check(t, 0, "", name+" is set")
	}
	dir, ids := t.TempDir(), map[string]string{}
	all, err := workflowfile.Recipes()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b workflowfile.Recipe) int { return strings.Compare(b.Name, a.Name) }) // child after endpoint
	for _, one := range all {
		file := filepath.Join(dir, one.Name+".yaml")
		run(t, environ, "", "workflows", "new", "--from="+one.Name, file).check(t, 0, "", "")
		if text := strings.Replace(one.Text, "workflowId: WORKFLOW_ID", "workflowId: "+ids["endpoint"], 1); text != one.Text {
			run(t, environ, "", "workflows", "push", file).check(t, 6, "", "workflowId")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		pushed := run(t, environ, "", "workflows", "push", file)
		pushed.check(t, 0, "", "version 1  ACTIVE")
		if strings.Contains(pushed.stderr, "warning") {
			t.Errorf("%s: %s", one.Name, pushed.stderr)
		}
		ids[one.Name] = uuids.FindString(pushed.stderr)
		first := run(t, environ, "", "workflows", "pull", ids[one.Name]).stdout
		run(t, environ, "", "workflows", "pull", ids[one.Name], "--out="+file).check(t, 0, "", "written")
		run(t, environ, "", "workflows", "push", file, "--yes").check(t, 0, "", "version 1  ACTIVE  unchanged")
		run(t, environ, "", "workflows", "push", file, ids[one.Name], "--at=1").check(t, 0, "", "version 2  ACTIVE")
		if again := run(t, environ, "", "workflows", "pull", ids[one.Name]).stdout; again != first {
			t.Errorf("%s changed from\n%s\nto\n%s", one.Name, first, again)
		}
	}
	for name, c := range map[string]struct {
		input, want string
		code        int
	}{
		"endpoint": {`{"n": 21}`, `"doubled": 42`, 0},
		"branch":   {`{"amount": 200}`, `"size": "medium"`, 0},
		"nightly":  {`{}`, `"processed": 3`, 0},
		"for-each": {`{"items": [1, 2]}`, `"failed": 0`, 0},
		"retry":    {`{"order": 503}`, "ORDER_FAILED", 1},
		"child":    {`{"n": 4}`, `"doubled": 8`, 0},
		"upsert":   {`{"id": "new", "name": "Ada"}`, `"created": true`, 0},
		"user":     {`{"id": "a/b"}`, `"User a/b is unnamed."`, 0},
	} {
		run(t, environ, "", "workflows", "run", ids[name], "--watch", "--input="+c.input, "-o", "json").check(t, c.code, c.want, "")
	}
	for name, c := range map[string]struct{ signal, want string }{
		"approval": {"approved", `"/orders"`}, "reminder": {"answered", `"by": "ada"`}, "approval-mail": {"approved", " of Approval by mail waits for you: "},
	} {
		id := startedRun(t, run(t, environ, "", "workflows", "run", ids[name], `--input={"amount": "1", "person": "ada"}`, "-o", "json").stdout)
		run(t, environ, "", "workflows", "signal", id, c.signal, `--payload={"by": "ada"}`).check(t, 0, "", "")
		run(t, environ, "", "workflows", "watch", id).check(t, 0, c.want, "COMPLETED")
	}
	created := run(t, environ, "correct-horse-battery\n", "hooks", "create", ids["github"], "--header=X-Hub-Signature-256", "--prefix=sha256=", "--delivery-header=X-GitHub-Delivery", "-o", "json")
	var hook struct{ Path string }
	if err := json.Unmarshal([]byte(created.stdout), &hook); err != nil {
		t.Fatal(err, created.stderr)
	}
	run(t, environ, "", "workflows", "watch", startedRun(t, deliverPush(t, baseURL+hook.Path))).check(t, 0, `"/deployments"`, "COMPLETED")
}

// startedRun returns the runId of a response.
func startedRun(t *testing.T, response string) string {
	t.Helper()
	var begun struct{ RunID string }
	if err := json.Unmarshal([]byte(response), &begun); err != nil || begun.RunID == "" {
		t.Fatalf("%v: %s", err, response)
	}
	return begun.RunID
}

// deliverPush sends a push as GitHub does, and returns the response.
func deliverPush(t *testing.T, address string) string {
	t.Helper()
	const body = `{"ref": "refs/heads/main", "after": "4d5e"}`
	mac := hmac.New(sha256.New, []byte("correct-horse-battery"))
	mac.Write([]byte(body))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	request.Header.Set("X-GitHub-Delivery", "1")
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
