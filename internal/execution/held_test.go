package execution_test

import (
	"sync"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Calls of several workspaces share commits. A transaction that holds the account of one workspace
// delays only the calls of that workspace: the others finish while the account is held, and its own
// finish once, after it is released.
func TestAHeldAccountDelaysOnlyItsWorkspace(t *testing.T) {
	t.Parallel()
	for way, params := range map[string]func(b *bench) execution.SubmitParams{
		"accepted": func(*bench) execution.SubmitParams { return execution.SubmitParams{Module: "ECHO"} },
		"direct":   (*bench).waiting,
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			others := b.other(t, "others")
			n := b.start(t, options{slots: 20}, echo(), computes())
			release := b.hold(t)
			var held sync.WaitGroup
			for range heldCalls {
				held.Go(func() { b.insist(t, n, params(b)) })
			}
			b.until(t, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
			for range 5 {
				got := others.await(t, n, others.submit(t, n, params(others)).ID)
				if got.Status != status.ExecutionCompleted {
					t.Errorf("an execution of another workspace ended %s", got.Status)
				}
			}
			release()
			held.Wait()
			b.settled(t)
			if n := b.count(t, "credit_postings WHERE kind = 'EXECUTION' AND workspace_id = $1", b.workspace); n != heldCalls {
				t.Errorf("%d postings for %d calls", n, heldCalls)
			}
		})
	}
}

const heldCalls = 3

// hold locks the account of the workspace until release is called.
func (b *bench) hold(t *testing.T) (release func()) {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM credit_accounts WHERE workspace_id = $1 FOR UPDATE", b.workspace); err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback(t.Context()) }
}

// insist submits an execution until it is accepted. Like every client, it repeats a 503.
func (b *bench) insist(t *testing.T, n *node, p execution.SubmitParams) {
	p.WorkspaceID, p.Attempts, p.Input, p.Config = b.workspace, 1, []byte(`{}`), []byte(`{}`)
	for {
		_, err := n.service.Submit(t.Context(), p)
		if err == nil {
			return
		}
		if !postgres.Unavailable(err) {
			t.Error(err)
			return
		}
	}
}

// Finishes of several workspaces share a commit too.
func TestAHeldAccountDelaysNoFinishOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	others := b.other(t, "others")
	s := newSlow("SLOW", component.RepeatPure)
	n := b.start(t, options{slots: 20}, s)
	id := b.submit(t, n, execution.SubmitParams{Module: "SLOW"}).ID
	other := others.submit(t, n, execution.SubmitParams{Module: "SLOW"}).ID
	<-s.started
	<-s.started
	release := b.hold(t)
	close(s.release)
	if got := others.await(t, n, other); got.Status != status.ExecutionCompleted {
		t.Errorf("the execution of another workspace ended %s", got.Status)
	}
	if n := b.count(t, "component_executions WHERE id = $1 AND finished_at IS NULL", id); n != 1 {
		t.Error("an execution finished although its account was held")
	}
	release()
	if got := b.await(t, n, id); got.Status != status.ExecutionCompleted {
		t.Errorf("the execution of the held workspace ended %s", got.Status)
	}
	if n := b.count(t, "credit_postings WHERE kind = 'EXECUTION' AND workspace_id = $1", b.workspace); n != 1 {
		t.Errorf("%d postings", n)
	}
}
