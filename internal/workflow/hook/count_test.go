package hook_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow/hook"
)

// A workspace has at most 1,000 hooks, also if none of its workflows has many.
func TestTheHooksOfAWorkspaceAreLimited(t *testing.T) {
	b := newBench(t)
	var workflowID uuid.UUID
	if err := b.pool.QueryRow(t.Context(), "SELECT workflow_id FROM hooks").Scan(&workflowID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.Exec(t.Context(), `WITH others AS (
			INSERT INTO workflows SELECT (jsonb_populate_record(w, jsonb_build_object('id', gen_random_uuid(), 'key', 'other-' || n))).* FROM workflows w, generate_series(1, 20) AS n
			RETURNING id
		) INSERT INTO hooks (workspace_id, id, workflow_id, name, status, verification, sealed, headers)
		SELECT h.workspace_id, gen_random_uuid(), o.id, name, status, verification, sealed, headers FROM hooks h, others o, generate_series(1, 50) LIMIT 999`); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.Create(b.ctx, hook.CreateParams{WorkspaceID: b.workspace, WorkflowID: workflowID, Draft: hook.Draft{
		Verification: &api.NewVerification{Secret: new(secret), Header: new("X-Mac")},
	}})
	if failure, ok := errors.AsType[*fault.Error](err); !ok || failure.Code != fault.Conflict || failure.Reason != "too_many_hooks" {
		t.Errorf("got %v, want too_many_hooks", err)
	}
}
