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

// nextMasterKey is what the scenes' master key is rotated to.
const nextMasterKey = "mW8fTq0hYzvG1LrXo5bJcD3kSe7uNa9pVxQ2iRjKt6E="

// command runs weft to its end on the scene's database and returns its exit code
// and all that it said.
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

// replace starts a process and ends the one whose place it takes.
func (s *scene) replace(old *process, command string, settings ...string) *process {
	s.t.Helper()
	next := s.start(command, settings...)
	s.leave(old)
	old.signal(syscall.SIGTERM)
	if code := old.exitCode(s.t, 25*time.Second); code != 0 {
		s.t.Errorf("%s ended with %d", old.name, code)
	}
	return next
}

// MT-07: the master key is rotated while two nodes take traffic. No submission
// fails; what is under the old key is readable all the time; rotate-master says
// when the old key can go; without it everything ends as it should.
func TestMT07TheMasterKeyIsRotatedUnderTraffic(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/rotation.TestMT07WhatIsUnderAnOldKeyIsSealedAnew", "internal/program/rotation.TestMT07AProcessThatEndsDuringThePassStillCounts") {
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
			t.Fatalf("rotate-master ended with %d, not %d saying %q:\n%s", code, want, says, text)
		}
		if found := secretsIn(text, masterKey, nextMasterKey); len(found) > 0 {
			t.Errorf("rotate-master shows %v", found)
		}
	}
	nodes := []*process{s.start("serve", before...), s.start("serve", before...)}
	worker := s.start("work", before...)
	load := s.storm(size(50*time.Millisecond, 10*time.Millisecond), func(i int) order {
		return order{tenant: i % 2, millis: i % 200, callback: true}
	})
	rotate(1, "do not have the key")
	for i := range nodes {
		nodes[i] = s.replace(nodes[i], "serve", knows...)
	}
	worker = s.replace(worker, "work", knows...)
	// No worker from here on: rows gather under both keys.
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
		t.Errorf("%d values are under the old key", n)
	}
	const untold = `SELECT count(*) FROM workspaces w WHERE NOT EXISTS (SELECT FROM audit_events e
		WHERE e.workspace_id = w.id AND e.action = 'master_key.rotated' AND e.actor_kind = 'operator')`
	if n := s.number(untold); n != 0 {
		t.Errorf("the audit log of %d workspaces does not tell of it", n)
	}
	waiting := s.alive()
	for i := range nodes {
		nodes[i] = s.replace(nodes[i], "serve", after...)
	}
	s.start("work", after...)
	if err := load.end(); err != nil {
		t.Errorf("a submission failed after a client's retry: %v", err)
	}
	s.finish(size(30*time.Second, 2*time.Minute))
	if n := s.number("SELECT count(*) FROM component_executions WHERE status <> 'COMPLETED'"); n != 0 {
		t.Errorf("%d executions did not complete", n)
	}
	for _, p := range s.all {
		if found := secretsIn(p.logged(), nextMasterKey); len(found) > 0 {
			t.Errorf("the log of %s holds the new key", p.name)
		}
	}
	figures.note(t, "%d live executions sealed anew or under the new key when the old one went, %d submissions repeated; %s",
		waiting, load.refused.Load(), s.summary())
}

// fingerprint is the name that a key without an id has in sealed values.
func fingerprint(t *testing.T, text string) string {
	t.Helper()
	key, err := seal.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key.ID
}
