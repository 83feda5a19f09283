package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

const sdk = "/v1/sdk/"

// Every write that creates something or adds credits is looked up if the response to its commit is
// lost.
func TestAWriteWhoseCommitIsInDoubtSucceedsOnce(t *testing.T) {
	t.Parallel()
	var c *pgtest.Cutter
	w := startWhole(t, func(cfg *Config) {
		c = pgtest.NewCutter(t, cfg.DatabaseURL)
		cfg.DatabaseURL = c.DSN
	})
	direct, err := pgx.Connect(t.Context(), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(context.Background())
	post := func(t *testing.T, target, body string) (uuid.UUID, error) {
		answer, err := w.client.Call(t.Context(), http.MethodPost, sdk+target, []byte(body), nil)
		var made struct{ ID, RunID uuid.UUID }
		if err == nil {
			err = json.Unmarshal(answer, &made)
		}
		if made.RunID != uuid.Nil {
			return made.RunID, err
		}
		return made.ID, err
	}
	workflow, err := post(t, "workflows", `{"name":"waits","components":[{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":600000}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	run, err := post(t, "workflows/"+workflow.String(), `{}`)
	if err != nil {
		t.Fatal(err)
	}
	committed := pgtest.Loss{Request: "a-mark", Response: []string{"COMMIT\x00"}}
	for _, write := range []struct {
		name, count string
		loss        pgtest.Loss
		send        func() error
	}{
		{"execution", "component_executions WHERE $1 <> ''", pgtest.Loss{Request: string(w.id[:]), Response: []string{"D\x00\x00\x00\x27\x00\x04\x00\x00\x00\x00\x00\x00\x00\x08"}}, func() error {
			_, err := post(t, "components", `{"module":"RANDOM_UUID","input":{},"config":{}}`)
			return err
		}},
		{"run", "workflow_runs WHERE metadata::text LIKE '%' || $1 || '%'", committed, func() error {
			_, err := post(t, "workflows/"+workflow.String(), `{"metadata":{"text":"a-mark"}}`)
			return err
		}},
		{"signal", "run_signals WHERE payload::text LIKE '%' || $1 || '%'", pgtest.Loss{Request: "a-mark", Response: []string{"SELECT 1\x00"}}, func() error {
			_, err := w.client.Call(t.Context(), http.MethodPut, sdk+"workflows/executions/"+run.String()+"/signals/go", []byte(`{"text":"a-mark"}`), nil)
			return err
		}},
		{"workflow", "workflows WHERE name = $1", committed, func() error {
			_, err := post(t, "workflows", `{"name":"a-mark","components":[{"id":"a","module":"RANDOM_UUID"}]}`)
			return err
		}},
		{"schedule", "schedules WHERE name = $1", committed, func() error {
			_, err := post(t, "schedules", `{"name":"a-mark","workflowId":"`+workflow.String()+`","cron":"@yearly"}`)
			return err
		}},
		{"hook", "hooks WHERE name = $1", committed, func() error {
			_, err := post(t, "hooks", `{"name":"a-mark","workflowId":"`+workflow.String()+`","verification":{"secret":"a long secret","header":"X-Mac"}}`)
			return err
		}},
		{"grant", "credit_postings WHERE reference = $1", committed, func() error {
			granted, err := billing.Books{}.Grant(t.Context(), w.app.pools.system, billing.Grant{WorkspaceID: w.id, Amount: credit.Credits(1), Reference: "a-mark"})
			if err == nil && !granted {
				err = errors.New("reported as a repeat")
			}
			return err
		}},
	} {
		c.Lose(write.loss)
		if err := write.send(); err != nil || !c.Lost() {
			t.Errorf("%s: %v; lost: %v", write.name, err, c.Lost())
		}
		var count int
		if err := direct.QueryRow(t.Context(), "SELECT count(*) FROM "+write.count, "a-mark").Scan(&count); err != nil || count != 1 {
			t.Errorf("%s: %d rows, want 1 (%v)", write.name, count, err)
		}
	}

	c.Lose(pgtest.Loss{Request: "b-mark", Response: committed.Response, Down: true})
	_, err = post(t, "workflows/"+workflow.String(), `{"metadata":{"text":"b-mark"}}`)
	c.Restore() // so that the process stops quickly
	var id uuid.UUID
	if err := direct.QueryRow(t.Context(), "SELECT id FROM workflow_runs WHERE metadata::text LIKE '%b-mark%'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Status != http.StatusServiceUnavailable || p.Retryable || p.RetryAfter != 0 || p.Reason == nil || *p.Reason != fault.ReasonOutcomeUnknown ||
		p.RunID == nil || *p.RunID != id {
		t.Errorf("database down: %v, want outcome_unknown with run %s", err, id)
	}
}
