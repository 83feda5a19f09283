package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/client"
)

// expectations are what a scenario permits in addition to the rules.
type expectations struct {
	again    int  // deliveries of one callback after its first 2xx, one for each killed process
	failures bool // executions may fail because of what the scenario did to the upstream
}

// breaches runs the query of one rule and returns its breaches.
func (s *scene) breaches(ctx context.Context, query string) ([]string, error) {
	rows, err := s.pool.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		found = append(found, line)
	}
	return found, rows.Err()
}

// number returns the number that a query yields, or -1 while the database does not respond.
func (s *scene) number(query string, args ...any) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n := -1
	if err := s.pool.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		return -1
	}
	return n
}

// alive returns how many executions are not final.
func (s *scene) alive() int {
	return s.number("SELECT count(*) FROM component_executions WHERE finished_at IS NULL")
}

// finish waits until every execution is final, for at most limit, and until every callback is
// settled. Then it checks every invariant. It returns how long the executions took.
func (s *scene) finish(limit time.Duration) time.Duration {
	s.t.Helper()
	took := eventually(s.t, limit, "I2 every execution to be final", func() (bool, string) {
		n := s.alive()
		return n == 0, fmt.Sprintf("%d are not", n)
	})
	eventually(s.t, time.Minute, "I6 every callback to be settled", func() (bool, string) {
		n := s.number("SELECT count(*) FROM callbacks WHERE state IN ('PENDING', 'QUEUED')")
		return n == 0, fmt.Sprintf("%d are not", n)
	})
	eventually(s.t, 45*time.Second, "the queue to remove the jobs of final executions", func() (bool, string) {
		n := s.number(`SELECT count(*) FROM river.river_job WHERE kind = 'component_execution'
			AND state IN ('available', 'pending', 'running', 'retryable', 'scheduled')`)
		return n == 0, fmt.Sprintf("%d jobs are left", n)
	})
	s.check()
	return took
}

// check checks the invariants. All executions must be final.
func (s *scene) check() {
	s.t.Helper()
	for _, rule := range rules {
		found, err := s.breaches(context.Background(), rule.query)
		if err != nil {
			s.t.Fatalf("%s: %v", rule.name, err)
		}
		for _, line := range found[:min(5, len(found))] {
			s.t.Errorf("%s: %d breaches: %s", rule.name, len(found), line)
		}
	}
	s.checkRecords()
	s.ledger.mu.Lock()
	for _, line := range s.ledger.wrong {
		s.t.Errorf("I9: %s", line)
	}
	s.ledger.mu.Unlock()
	s.checkLogs()
}

// checkRecords compares the API's records with the responses that clients got, and with the
// requests that the receiver and the upstream got.
func (s *scene) checkRecords() {
	s.t.Helper()
	p := s.node()
	if p == nil {
		p = s.start("serve")
	}
	records := map[uuid.UUID]json.RawMessage{}
	for _, of := range s.tenants {
		for id, raw := range s.list(p, of) {
			records[id] = raw
		}
	}
	complaints := 0
	for id, a := range s.ledger.acknowledged() {
		for _, problem := range s.checkRecord(id, a, records[id]) {
			if complaints++; complaints <= 10 {
				s.t.Errorf("%s (%s): %s", id, a.ref, problem)
			}
		}
	}
	s.checkStrangers(p)
}

// checkRecord returns what is wrong with an acknowledged execution's record.
func (s *scene) checkRecord(id uuid.UUID, a ack, raw json.RawMessage) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var record api.ComponentExecution
	if raw == nil || json.Unmarshal(raw, &record) != nil {
		return []string{fmt.Sprintf("I1: was acknowledged and does not exist: %.100s", raw)}
	}
	s.ledger.observe(id, record.Status, raw, "the checker", time.Now())
	if record.Completed != (record.Status == status.ExecutionCompleted) {
		report("completed is %v in the state %s", record.Completed, record.Status)
	}
	effects := s.upstream.count(a.ref)
	var failure struct{ Code string }
	_ = json.Unmarshal(record.Error, &failure)
	switch {
	case record.Status == status.ExecutionCompleted && a.module == "" && effects == 0:
		report("is COMPLETED, but had no effect")
	case record.Status == status.ExecutionFailed && a.unsafe && (failure.Code == "WORKER_LOST" || failure.Code == "RESTORE_UNCERTAIN"):
	case record.Status == status.ExecutionFailed && !s.expect.failures:
		report("I2: FAILED with %s", record.Error)
	}
	if a.unsafe && effects > 1 {
		report("an unsafe call had %d effects", effects)
	}
	if a.callback && a.to == "" {
		for _, problem := range s.checkCallback(id, record, raw) {
			report("I6: %s", problem)
		}
	}
	return problems
}

func (s *scene) checkCallback(id uuid.UUID, record api.ComponentExecution, raw json.RawMessage) (problems []string) {
	got := s.receiver.of(id.String())
	if got == nil {
		return []string{fmt.Sprintf("no callback arrived: the record is %s", raw)}
	}
	if got.differ {
		problems = append(problems, "the deliveries differ")
	}
	if got.forged {
		problems = append(problems, "the signature does not match the body")
	}
	if got.answered && got.after2xx > s.expect.again {
		problems = append(problems, fmt.Sprintf("%d deliveries arrived after the first 2xx, at most %d are allowed", got.after2xx, s.expect.again))
	}
	if got.answered != (record.Callback.DeliveredAt != nil) {
		problems = append(problems, fmt.Sprintf("received %v, deliveredAt %v", got.answered, record.Callback.DeliveredAt))
	}
	if sent, now := finality(got.body), finality(raw); sent != now {
		problems = append(problems, fmt.Sprintf("the body is %.200s, but the record is %.200s", sent, now))
	}
	return problems
}

// finality returns the part of a record that must not change once the record is final: everything
// except the progress of the callback.
func finality(raw []byte) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return "not a record: " + string(raw)
	}
	delete(members, "callback")
	text, _ := json.Marshal(members)
	return string(text)
}

// list returns all executions of a tenant, read page by page.
func (s *scene) list(p *process, of tenant) map[uuid.UUID]json.RawMessage {
	s.t.Helper()
	all := map[uuid.UUID]json.RawMessage{}
	target := "/v1/sdk/components/executions?limit=100"
	for {
		raw, err := s.client(p, of).Call(context.Background(), http.MethodGet, target, nil, nil)
		if err != nil {
			s.t.Fatalf("list executions: %v", err)
		}
		var page struct {
			Data       []json.RawMessage
			NextCursor *string
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			s.t.Fatalf("list executions: %v", err)
		}
		for _, one := range page.Data {
			var record struct{ ID uuid.UUID }
			if err := json.Unmarshal(one, &record); err != nil {
				s.t.Fatalf("list executions: %v", err)
			}
			all[record.ID] = one
		}
		if page.NextCursor == nil {
			return all
		}
		target = "/v1/sdk/components/executions?limit=100&cursor=" + *page.NextCursor
	}
}

// checkStrangers reads a few executions with another tenant's key (I10).
func (s *scene) checkStrangers(p *process) {
	s.t.Helper()
	n := 0
	for id, a := range s.ledger.acknowledged() {
		if n++; n > 3 {
			return
		}
		_, _, err := s.client(p, s.tenants[(a.tenant+1)%len(s.tenants)]).Get(context.Background(), id)
		if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Status != http.StatusNotFound {
			s.t.Errorf("I10: another workspace's key got %v when reading %s", err, id)
		}
	}
}

// checkLogs checks that no log contains a secret or a crash.
func (s *scene) checkLogs() {
	s.t.Helper()
	var secrets []string
	for _, of := range s.tenants {
		secrets = append(secrets, of.key.APIKey, of.key.APISecret)
	}
	secrets = append(secrets, masterKey)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		text := p.logged()
		for _, secret := range secretsIn(text, secrets...) {
			s.t.Errorf("the log of %s contains the secret %s", p.name, secret)
		}
		for _, marker := range []string{"panic:", "goroutine 1 [", "fatal error:"} {
			if at := strings.Index(text, marker); at >= 0 {
				s.t.Errorf("the log of %s: %.600s", p.name, text[at:])
			}
		}
	}
}

// summary describes a finished scenario in one line.
func (s *scene) summary() string {
	return fmt.Sprintf("%d executions, %d repeated effects, %d callbacks (%d sent again after a 2xx), %d postings, %d states read",
		s.ledger.count(), s.upstream.repeats(), s.receiver.delivered(), s.receiver.redelivered(),
		s.number("SELECT count(*) FROM credit_postings WHERE kind = 'EXECUTION'"), s.ledger.reads)
}

// TestCheckerDetectsEveryBreach breaks each rule that SQL checks, one at a time.
func TestCheckerDetectsEveryBreach(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	row := func(columns string) string {
		return fmt.Sprintf(`INSERT INTO component_executions (workspace_id, id, module, call, attempts, job_id, created_at, updated_at, %s)`, columns)
	}
	id := s.tenants[0].id.String()
	values := func(more string) string {
		return fmt.Sprintf(` VALUES ('%s', '%s', 'M', '', 1, 1, now(), now(), %s)`, id, id, more)
	}
	final := row("status, finished_at, usage") + values("'COMPLETED', now(), 2") + ";"
	post := fmt.Sprintf("INSERT INTO credit_postings (workspace_id, id, kind, reference, allowance, usage) VALUES ('%s', '%s', 'EXECUTION', '%s', -%%[1]d, %%[1]d);", id, id, id)
	callback := fmt.Sprintf("INSERT INTO callbacks (workspace_id, execution_id, url, signed, body, created_at, state, attempt_count) VALUES ('%s', '%s', '', false, '', now(), '%%s', 1);", id, id)
	cases := []struct{ rule, breach string }{
		{"I2 every execution is final", row("status") + values("'CREATED'")},
		{"I3 every final execution", final},
		{"I3 every final execution", final + fmt.Sprintf(post, 3)},
		{"I3 no posting", fmt.Sprintf(post, 2)},
		{"I3 completed executions", row("status, finished_at, usage") + values("'COMPLETED', now(), 0") + ";" + fmt.Sprintf(post, 0)},
		{"I4 the entries", "ALTER TABLE credit_postings DROP CONSTRAINT credit_postings_check;" +
			fmt.Sprintf("INSERT INTO credit_postings (workspace_id, id, kind, reference, paid) VALUES ('%s', '%s', 'GRANT', 'x', 1)", id, id)},
		{"I4 an account is", "UPDATE credit_accounts SET paid = paid + 1 WHERE workspace_id = '" + id + "'"},
		{"I4 an account reserves", "UPDATE credit_accounts SET reserved = 1 WHERE workspace_id = '" + id + "'"},
		{"I4 an account reserves", row("status, reserved") + values("'CREATED', 5")},
		{"I5", "ALTER TABLE component_executions DISABLE TRIGGER component_executions_final"},
		{"I6 every callback", final + fmt.Sprintf(post, 2) + fmt.Sprintf(callback, "PENDING")},
		{"I6 the log", final + fmt.Sprintf(post, 2) + fmt.Sprintf(callback, "EXHAUSTED")},
		{"I7 nothing alive", row("status") + values("'CREATED'")},
		{"I7 parked executions", row("status, parked") + values("'CREATED', true")},
		{"I7 accounts", row("status") + values("'CREATED'")},
		{"I8", row("status, error, finished_at") + values(`'FAILED', '{"attempt":2}', now()`)},
		{"I10", fmt.Sprintf(post, 2)},
	}
	for _, c := range cases {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), c.breach); err != nil {
			t.Fatalf("%s: %v", c.breach, err)
		}
		seen := false
		for _, rule := range rules {
			if strings.HasPrefix(rule.name, c.rule) {
				var line string
				seen = tx.QueryRow(t.Context(), rule.query).Scan(&line) == nil
			}
		}
		if !seen {
			t.Errorf("%s does not detect: %s", c.rule, c.breach)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
