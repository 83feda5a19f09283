package chaos

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
)

// released is the commit of the release from which the database is upgraded.
//
//go:embed released
var released string

// buildReleased builds the binary of the released commit from the repository's history.
func buildReleased(t *testing.T) string {
	t.Helper()
	commit := strings.TrimSpace(released)
	source := filepath.Join(t.TempDir(), "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(filepath.Dir(source), "weft")
	script := `git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2" && go build -C "$2" -o "$3" ./cmd/weft`
	build := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", script, "build", commit, source, binary)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build commit %s (the test needs a clone with its history): %v\n%s", commit, err, out)
	}
	return binary
}

// newReleasedScene creates a scenario whose database and tenants were created by the released binary.
func newReleasedScene(t *testing.T, binary string) *scene {
	t.Helper()
	name := "chaos_" + strings.ToLower(rand.Text()[:10])
	shared.admin(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { shared.admin(t, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)) })
	dsn := shared.DSN(name)
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append(args, "--database-url", dsn)...)
		cmd.Env = append(os.Environ(), "WEFT_MASTER_KEY="+masterKey)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("weft %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("migrate")
	s := newSceneOn(t, dsn)
	for i := range 2 {
		workspace, file := fmt.Sprintf("tenant %d", i), filepath.Join(t.TempDir(), "credentials.json")
		run("keys", "create", "--workspace", workspace, "--new-workspace", "--plan", "enterprise", "--out", file)
		run("admin", "credits", workspace, "1000000", "--reference", workspace)
		credentials, err := client.ReadCredentials(file)
		if err != nil {
			t.Fatal(err)
		}
		one := tenant{id: credentials.WorkspaceID}
		one.key.APIKey, one.key.APISecret = credentials.APIKey, credentials.APISecret
		if one.signer, err = client.NewSigner(credentials.APIKey, credentials.APISecret); err != nil {
			t.Fatal(err)
		}
		s.tenants = append(s.tenants, one)
	}
	return s
}

const hookSecret = "canary-of-the-hooks"

// twoCalls makes an unsafe call, waits for a signal and makes another call.
const twoCalls = `{"name": "two calls", "components": [
	{"id": "start", "module": "ON_API_CALLED", "name": "start", "input": {}, "config": {}},
	{"id": "before", "module": "API_CALL", "name": "before", "input": {"headers": {}}, "config": {"apiUrl": %[1]q, "method": "POST", "timeoutMs": 60000}},
	{"id": "wait", "module": "WAIT_FOR_SIGNAL", "name": "wait", "input": {}, "config": {"name": "go", "timeoutMs": 3600000}},
	{"id": "after", "module": "API_CALL", "name": "after", "input": {"headers": {}}, "config": {"apiUrl": %[1]q, "method": "POST", "timeoutMs": 60000}}],
	"sequenceEdges": [{"id": "1", "from": "start", "to": "before"}, {"id": "2", "from": "before", "to": "wait"}, {"id": "3", "from": "wait", "to": "after"}],
	"dataConnections": [{"id": "a", "from": {"componentId": "start", "output": "before"}, "to": {"componentId": "before", "input": "query"}},
	{"id": "b", "from": {"componentId": "start", "output": "after"}, "to": {"componentId": "after", "input": "query"}}]}`

// byHook is a workflow that a hook starts.
const byHook = `{"name": "by a hook", "components": [
	{"id": "start", "module": "ON_WEBHOOK", "name": "start", "input": {}, "config": {}},
	{"id": "work", "module": "RANDOM_UUID", "name": "work", "input": {}, "config": {}}],
	"sequenceEdges": [{"id": "1", "from": "start", "to": "work"}]}`

// OP-04: a database filled by the released version is upgraded under load. Its live runs, waiting
// executions, due callbacks, schedules, hooks and keys continue. Nothing is lost, sent twice or
// charged twice. The test builds a second binary, so only the soak runs it.
func TestOP04ADatabaseOfTheReleasedVersionIsUpgradedUnderLoad(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/app.TestOP04RowsOfTheFirstSchemasSurviveEveryMigration") {
		return
	}
	t.Parallel()
	old := buildReleased(t)
	s := newReleasedScene(t, old)
	const longSchedule = "WEFT_CALLBACK_SCHEDULE=0s,1s,1s,2s,2s,5s,5s,10s,20s,30s,60s"
	processes := map[string]*process{}
	for _, command := range []string{"serve", "serve ", "work"} {
		processes[command] = s.join(s.launchOf(old, command, longSchedule))
	}
	u := newUpgrade(s)
	u.fill("before")
	u.awaitFilled()

	load := s.startLoad(10*time.Millisecond, func(i int) order {
		return order{tenant: i % 2, millis: i % 200, unsafe: i%3 == 0, callback: true}
	})
	hold(t, 5*time.Second)
	s.migrateTo(program)
	for _, p := range processes {
		eventually(t, 30*time.Second, "the released version to stay ready on the new schema", func() (bool, string) {
			code, body := p.status("/readyz")
			return code == http.StatusOK, body
		})
	}
	u.fill("between")
	for command, p := range processes {
		s.join(s.launch(command, longSchedule))
		s.drain(p)
		p.signal(syscall.SIGTERM)
		if code := p.exitCode(t, time.Minute); code != 0 {
			t.Errorf("%s exited with %d:\n%s", p.name, code, p.tail(5))
		}
	}
	u.fill("after")
	hold(t, 5*time.Second)
	if err := load.stop(); err != nil {
		t.Errorf("a submission failed: %v", err)
	}
	if n := load.refused.Load(); n != 0 {
		t.Errorf("%d submissions failed before their retry", n)
	}
	u.finish()
	figures.note(t, "%d runs, %d scheduled, %d by hooks; %s", len(u.runs), u.due, u.deliveries, s.summary())
}

// upgrade is the work in flight while one version replaces another.
type upgrade struct {
	*scene
	workflow, loop, scheduled uuid.UUID
	hook                      string
	hooked                    uuid.UUID
	refuse                    atomic.Bool // the receiver rejects callbacks
	runs, loops               []uuid.UUID
	due, deliveries           int
}

// loopItems keeps a loop within the free stages, because the released version charges no fee for
// further stages.
const loopItems = 300

func newUpgrade(s *scene) *upgrade {
	u := &upgrade{scene: s}
	u.refuse.Store(true)
	s.receiver.answer = func(w http.ResponseWriter, _ *http.Request, _ string) {
		if u.refuse.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	u.workflow = s.makeWorkflow(fmt.Sprintf(twoCalls, s.upstream.URL+"/effect"))
	u.loop, u.scheduled = s.makeWorkflow(fanOut), s.makeWorkflow(byClock)
	s.makeSchedules(u.scheduled, 5)
	s.exec("CREATE TABLE due (schedule_id uuid, at timestamptz)")
	u.hooked = s.makeWorkflow(byHook)
	body := fmt.Appendf(nil, `{"workflowId":%q,"verification":{"secret":%q,"header":"X-Hub-Signature-256","prefix":"sha256=","deliveryHeader":"X-GitHub-Delivery"}}`, u.hooked, hookSecret)
	var made api.Hook
	s.ask(http.MethodPost, "/v1/sdk/hooks", body, &made)
	u.hook = made.Path
	return u
}

// fill starts runs and executions of each kind. Those of an earlier phase are still unfinished.
func (u *upgrade) fill(phase string) {
	u.t.Helper()
	for i := range 20 {
		body := fmt.Appendf(nil, `{"input":{"before":{"ref":"%[1]s-%[2]d-first","ms":%[3]d},"after":{"ref":"%[1]s-%[2]d-second"}}}`, phase, i, i*100)
		var begun api.TriggerResult
		u.ask(http.MethodPost, "/v1/sdk/workflows/"+u.workflow.String(), body, &begun)
		u.runs = append(u.runs, begun.RunID)
	}
	u.loops = append(u.loops, u.trigger(u.loop, loopItems))
	u.load(100, func(i int) order {
		return order{tenant: i % 2, millis: 100 * (i % 30), unsafe: i%2 == 0, callback: true}
	})
	u.exec(`WITH now_due AS (UPDATE schedules SET next_at = date_trunc('milliseconds', now()) RETURNING id, next_at)
		INSERT INTO due SELECT id, next_at FROM now_due`)
	u.due += 5
	for i := range 10 {
		u.deliver(fmt.Sprint(phase, "-", i))
		u.deliveries++
		u.deliver(fmt.Sprint("before-", i)) // a duplicate of a delivery to the released version
	}
	eventually(u.t, time.Minute, "the schedules to start their runs", func() (bool, string) {
		n := u.number("SELECT count(*) FROM schedules WHERE next_at <= now()")
		return n == 0, fmt.Sprint(n, " are due")
	})
}

// awaitFilled waits until each kind of work is in flight.
func (u *upgrade) awaitFilled() {
	u.t.Helper()
	for what, query := range map[string]string{
		"runs that wait for a signal":           "SELECT count(*) FROM run_stages WHERE module = 'WAIT_FOR_SIGNAL' AND status = 'RUNNING'",
		"callbacks that wait for their retries": "SELECT count(*) FROM callbacks WHERE state IN ('PENDING', 'QUEUED') AND attempt_count > 0",
	} {
		eventually(u.t, time.Minute, what, func() (bool, string) { n := u.number(query); return n >= 20, fmt.Sprint(n) })
	}
}

// deliver sends a signed delivery to the hook.
func (u *upgrade) deliver(id string) {
	u.t.Helper()
	body := fmt.Appendf(nil, `{"delivery":%q}`, id)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write(body)
	p, done := u.lease()
	defer done()
	base, _ := p.addresses()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+u.hook, bytes.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Github-Delivery": {id},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
	answer, err := u.http.RoundTrip(request)
	if err != nil {
		u.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		u.t.Errorf("delivery %s was answered %d", id, answer.StatusCode)
	}
}

// finish lets all work complete and checks the results.
func (u *upgrade) finish() {
	u.t.Helper()
	u.refuse.Store(false)
	for _, run := range u.runs {
		var answer api.WorkflowRun
		u.ask(http.MethodPut, "/v1/sdk/workflows/executions/"+run.String()+"/signals/go", []byte(`{}`), &answer)
	}
	eventually(u.t, 2*time.Minute, "every run to be final", func() (bool, string) {
		n := u.number("SELECT count(*) FROM workflow_runs WHERE finished_at IS NULL")
		return n == 0, fmt.Sprint(n, " are not final")
	})
	u.scene.finish(2 * time.Minute)
	for _, run := range u.loops {
		u.checkRun(run, loopItems)
	}
	for what, count := range map[string]struct {
		query string
		want  int
	}{
		"completed runs":              {"SELECT count(*) FROM workflow_runs WHERE status = 'COMPLETED'", len(u.runs) + len(u.loops) + u.due + u.deliveries},
		"completed runs of hooks":     {"SELECT count(*) FROM workflow_runs WHERE status = 'COMPLETED' AND trigger = 'WEBHOOK'", u.deliveries},
		"due times with one run":      {"SELECT count(DISTINCT (schedule_id, at)) FROM due JOIN workflow_runs ON trigger_id = schedule_id AND (input ->> 'scheduledAt')::timestamptz = at", u.due},
		"runs of schedules":           {"SELECT count(*) FROM workflow_runs WHERE trigger = 'SCHEDULE'", u.due},
		"executions that failed":      {"SELECT count(*) FROM component_executions WHERE status <> 'COMPLETED'", 0},
		"accounts that do not add up": {`SELECT count(*) FROM credit_accounts a WHERE a.paid <> (SELECT sum(p.paid) FROM credit_postings p WHERE p.workspace_id = a.workspace_id)`, 0},
	} {
		if n := u.number(count.query); n != count.want {
			u.t.Errorf("%d %s, want %d", n, what, count.want)
		}
	}
	if n := u.upstream.repeats(); n != 0 {
		u.t.Errorf("%d effects were repeated", n)
	}
	if n := u.receiver.redelivered(); n != 0 {
		u.t.Errorf("%d callbacks were delivered again after a 2xx", n)
	}
}
