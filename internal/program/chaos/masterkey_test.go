package chaos

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// nextMasterKey is the new master key of a rotation.
const nextMasterKey = "mW8fTq0hYzvG1LrXo5bJcD3kSe7uNa9pVxQ2iRjKt6E="

// command runs a weft command on the scene's database and returns its exit code and output.
func (s *scene) command(settings []string, args ...string) (int, string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "DATABASE_URL=" + s.dsn}, settings...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// replace starts a process and stops the old one.
func (s *scene) replace(old *process, command string, settings ...string) *process {
	s.t.Helper()
	next := s.start(command, settings...)
	s.leave(old)
	old.signal(syscall.SIGTERM)
	if code := old.exitCode(s.t, 25*time.Second); code != 0 {
		s.t.Errorf("%s exited with code %d", old.name, code)
	}
	return next
}

// MT-07: the master key is rotated while two nodes serve requests. No submission fails, and values
// under the old key stay readable. `weft keys rotate-master` reports when the old key can be
// removed. After its removal, all executions complete.
func TestMT07TheMasterKeyIsRotatedUnderTraffic(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/rotation.TestMT07ValuesUnderOldKeysAreReencrypted", "internal/program/rotation.TestMT07ProcessThatExitsDuringThePassStillCounts") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	var (
		before = []string{"WEFT_MASTER_KEY=" + masterKey}
		knows  = []string{"WEFT_MASTER_KEY=" + masterKey, "WEFT_MASTER_KEYS_OLD=" + nextMasterKey}
		seals  = []string{"WEFT_MASTER_KEY=" + nextMasterKey, "WEFT_MASTER_KEYS_OLD=" + masterKey}
		after  = []string{"WEFT_MASTER_KEY=" + nextMasterKey}
	)
	rotate := func(want int, says string) {
		t.Helper()
		code, text := s.command(seals, "keys", "rotate-master")
		if code != want || !strings.Contains(text, says) {
			t.Fatalf("rotate-master exited with code %d, want %d and %q in its output:\n%s", code, want, says, text)
		}
		if found := secretsIn(text, masterKey, nextMasterKey); len(found) > 0 {
			t.Errorf("rotate-master prints the secrets %v", found)
		}
	}
	nodes := []*process{s.start("serve", before...), s.start("serve", before...)}
	worker := s.start("work", before...)
	load := s.startLoad(size(50*time.Millisecond, 10*time.Millisecond), func(i int) order {
		return order{tenant: i % 2, millis: i % 200, callback: true}
	})
	rotate(1, "do not have the key")
	for i := range nodes {
		nodes[i] = s.replace(nodes[i], "serve", knows...)
	}
	worker = s.replace(worker, "work", knows...)
	// From here on no worker runs, so rows under both keys accumulate.
	nodes[0] = s.replace(nodes[0], "serve", seals...)
	worker.signal(syscall.SIGTERM)
	worker.exitCode(t, 25*time.Second)
	hold(t, size(500*time.Millisecond, 5*time.Second))
	rotate(1, "is still needed")
	nodes[1] = s.replace(nodes[1], "serve", seals...)
	rotate(0, "can be removed")
	const underOld = `SELECT (SELECT count(*) FROM callbacks WHERE sealed IS NOT NULL AND substring(sealed FROM 3 FOR 12) <> $1)
		+ (SELECT count(*) FROM component_executions WHERE finished_at IS NULL AND substring(call FROM 3 FOR 12) <> $1)`
	if n := s.number(underOld, []byte(fingerprint(t, nextMasterKey))); n != 0 {
		t.Errorf("%d values are still under the old key", n)
	}
	const untold = `SELECT count(*) FROM workspaces w WHERE NOT EXISTS (SELECT FROM audit_events e
		WHERE e.workspace_id = w.id AND e.action = 'master_key.rotated' AND e.actor_kind = 'operator')`
	if n := s.number(untold); n != 0 {
		t.Errorf("the audit log of %d workspaces has no event of the rotation", n)
	}
	waiting := s.alive()
	for i := range nodes {
		nodes[i] = s.replace(nodes[i], "serve", after...)
	}
	s.start("work", after...)
	if err := load.stop(); err != nil {
		t.Errorf("a submission failed after a client's retry: %v", err)
	}
	s.finish(size(30*time.Second, 2*time.Minute))
	if n := s.number("SELECT count(*) FROM component_executions WHERE status <> 'COMPLETED'"); n != 0 {
		t.Errorf("%d executions did not complete", n)
	}
	for _, p := range s.all {
		if found := secretsIn(p.logged(), nextMasterKey); len(found) > 0 {
			t.Errorf("the log of %s contains the new key", p.name)
		}
	}
	figures.note(t, "%d live executions were under the new key when the old one was removed, %d submissions repeated; %s",
		waiting, load.refused.Load(), s.summary())
}

// fingerprint returns the name that identifies a key in sealed values.
func fingerprint(t *testing.T, text string) string {
	t.Helper()
	key, err := seal.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key.ID
}
