package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// In these tests the binary under test is the older version. The newer one is built with an
// additional migration. upgrade_test.go upgrades a database of the released version.

// later is a migration that the next version might have: it only adds.
const later = `-- expand
ALTER TABLE component_executions ADD COLUMN later_note text;
CREATE INDEX later_component_executions ON ONLY component_executions (created_at) WHERE later_note IS NOT NULL;
ALTER TABLE callbacks ADD COLUMN later_rank integer NOT NULL DEFAULT 0;
ALTER TABLE callbacks ADD CONSTRAINT later_check CHECK (later_rank >= 0) NOT VALID;
CREATE TABLE later_things (workspace_id uuid NOT NULL, id uuid NOT NULL, PRIMARY KEY (workspace_id, id));
GRANT SELECT, INSERT ON later_things TO weft_api, weft_system;
`

const laterVersion = "v99.0.0-later"

// nextProgram builds the next version, once for each run.
var nextProgram = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, "internal", "platform", "postgres", "migrations")
	have, err := filepath.Glob(filepath.Join(folder, "*.sql"))
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(program)
	added, overlay := filepath.Join(dir, "later.sql"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(folder, fmt.Sprintf("%04d_later.sql", len(have)+1)): added,
	}})
	if err != nil {
		return "", err
	}
	for path, text := range map[string][]byte{added: []byte(later), overlay: replace} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return "", err
		}
	}
	binary := filepath.Join(dir, "weft-later")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", binary,
		"-ldflags", "-X github.com/weft-automation/weft/internal/program/app.stamp="+laterVersion, "github.com/weft-automation/weft/cmd/weft")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the next version: %w\n%s", err, out)
	}
	return binary, nil
})

func next(t *testing.T) string {
	t.Helper()
	binary, err := nextProgram()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// migrateTo runs the migrations of the given binary.
func (s *scene) migrateTo(binary string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), binary, "migrate", "--database-url", s.dsn)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("migrate: %v\n%s", err, out)
	}
}

// OP-04: an additional migration is applied under load, then the processes are replaced by
// processes of the next version. No request fails, no lock wait exceeds 2 s, and the old version
// stays ready and can start on the new schema.
func TestOP04AMigrationIsRolledForwardUnderLoad(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/app.TestOP04RowsOfTheFirstSchemasSurviveEveryMigration") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	after := next(t)
	old := []*process{s.start("serve"), s.start("serve"), s.start("work")}
	load := s.startLoad(size(40*time.Millisecond, 20*time.Millisecond), func(i int) order {
		return order{tenant: i % 2, millis: i % 200, callback: true}
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var longest float64
	var looking sync.WaitGroup
	looking.Go(func() {
		during(ctx, time.Hour, 50*time.Millisecond, func() { longest = max(longest, s.longestLockWait(ctx)) })
	})
	ready := func(when string) {
		t.Helper()
		for _, p := range s.all {
			eventually(t, 10*time.Second, when, func() (bool, string) { // one response may be late on a busy machine
				code, body := p.status("/readyz")
				return p.ended() || code == 200, fmt.Sprintf("readiness of %s is %d %s", p.name, code, body)
			})
		}
	}
	hold(t, size(time.Second, 10*time.Second))
	s.migrateTo(after)
	ready("after the migration")
	hold(t, size(time.Second, 10*time.Second))
	old = append(old, s.start("serve")) // the old version, on the new schema
	ready("after another process of the old version has started")
	for _, p := range old {
		s.join(s.launchOf(after, p.name))
		s.drain(p)
		p.signal(syscall.SIGTERM)
		if code := p.exitCode(t, 25*time.Second); code != 0 {
			t.Errorf("%s exited with code %d", p.name, code)
		}
	}
	hold(t, size(500*time.Millisecond, 5*time.Second))
	ready("with the next version")
	if err := load.stop(); err != nil {
		t.Error(err)
	}
	stop()
	looking.Wait()
	if n := load.refused.Load(); n != 0 {
		t.Errorf("%d requests failed before their retry", n)
	}
	if longest > 2 {
		t.Errorf("a lock wait took %.2f s", longest)
	}
	s.finish(30 * time.Second)
	if n := s.number("SELECT count(*) FROM component_executions WHERE status <> 'COMPLETED'"); n != 0 {
		t.Errorf("%d executions did not complete", n)
	}
	figures.note(t, "the longest lock wait was %.2f s; %s", longest, s.summary())
}

// longestLockWait returns how long, in seconds, the longest current lock wait has lasted.
func (s *scene) longestLockWait(ctx context.Context) (seconds float64) {
	_ = s.pool.QueryRow(ctx, `SELECT COALESCE(max(extract(epoch FROM clock_timestamp() - l.waitstart)), 0)::float8
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE NOT l.granted AND a.datname = current_database()`).Scan(&seconds)
	return seconds
}

// OP-10: two versions work alongside each other on one database. Nothing fails. Neither version
// changes jobs and notifications of a kind that only a third version supports.
func TestOP10TwoVersionsSideBySide(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/app.TestOP04RowsOfTheFirstSchemasSurviveEveryMigration") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	after := next(t)
	s.migrateTo(after)
	for _, command := range []string{"serve", "work"} {
		one, other := s.start(command), s.join(s.launchOf(after, command))
		for p, want := range map[*process]bool{one: false, other: true} {
			if told := sum(p.metrics(t), "weft_build_info", laterVersion) == 1; told != want {
				t.Errorf("%s: is of the next version: %v", p.name, told)
			}
		}
	}
	const unknown = `INSERT INTO river.river_job (kind, queue, args, max_attempts, state, scheduled_at)
		SELECT 'later_kind', queue, '{"later": true}', 25, 'available', now() FROM unnest(ARRAY['components', 'callbacks']) AS queue`
	for _, statement := range []string{unknown, "NOTIFY weft_changed, 'later:{\"form\":2}'", "NOTIFY weft_later, 'x'"} {
		if err := execute(s.dsn, statement); err != nil {
			t.Fatal(err)
		}
	}
	load := s.startLoad(size(40*time.Millisecond, 20*time.Millisecond), func(i int) order {
		return order{tenant: i % 2, millis: i % 200, unsafe: i%3 == 0, callback: true}
	})
	hold(t, size(4*time.Second, time.Minute))
	if err := execute(s.dsn, "NOTIFY weft_changed, 'later:{\"form\":3}'"); err != nil {
		t.Fatal(err)
	}
	if err := load.stop(); err != nil {
		t.Error(err)
	}
	if n := load.refused.Load(); n != 0 {
		t.Errorf("%d requests failed before their retry", n)
	}
	s.finish(30 * time.Second)
	if n := s.number(`SELECT count(*) FROM river.river_job WHERE kind = 'later_kind' AND state = 'available' AND attempt = 0
		AND attempted_at IS NULL AND COALESCE(cardinality(errors), 0) = 0`); n != 2 {
		t.Errorf("%d of the 2 unknown jobs are untouched", n)
	}
	for _, p := range s.all {
		for line := range strings.Lines(p.logged()) {
			if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "wake-up connection lost") {
				t.Errorf("%s: %s", p.name, line)
			}
		}
	}
	if n := s.number("SELECT count(*) FROM component_executions WHERE status <> 'COMPLETED'"); n != 0 {
		t.Errorf("%d executions did not complete", n)
	}
	figures.note(t, "%s", s.summary())
}
