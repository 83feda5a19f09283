package workflow_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
)

// The migration that adds the keys gives each existing workflow its own key.
func TestMigrationGivesKeysToExistingWorkflows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("ALTER TABLE workflows DROP COLUMN key")
	for i, name := range []string{"Ship order", "Ship order!", "Übung 2", "注文", "validate", "Ship order 2", "3 steps"} {
		exec("INSERT INTO workflows (workspace_id, id, name) VALUES ($1, $2, $3)", b.workspace, uuid.MustParse(fmt.Sprintf("019aa5f3-0000-7000-8000-00000000000%d", i)), name)
	}
	exec("INSERT INTO workflows (workspace_id, id, name, status) VALUES ($1, $2, 'Ship order', 'ARCHIVED')", b.workspace, uuid.Max)
	migration, err := os.ReadFile("../platform/postgres/migrations/0069_keys.sql")
	if err != nil {
		t.Fatal(err)
	}
	exec(string(migration))
	var keys string
	if err := b.pool.QueryRow(t.Context(), "SELECT string_agg(key, ' ' ORDER BY id) FROM workflows").Scan(&keys); err != nil {
		t.Fatal(err)
	}
	const want = "ship-order ship-order-019aa5f3000070008000000000000001 ubung-2 workflow-9170aabc validate-2 ship-order-2 steps ship-order"
	if keys != want {
		t.Errorf("%s, want %s", keys, want)
	}
}
