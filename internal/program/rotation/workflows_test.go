package rotation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/apicall"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/workflow"
)

func TestMT07WorkflowSecretsAreReencrypted(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	id := newID(t)
	if _, err := workspace.Create(t.Context(), pool, workspace.CreateParams{ID: id, Name: "a", Plan: plan.Starter}); err != nil {
		t.Fatal(err)
	}
	modules, err := component.NewRegistry(apicall.Modules(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := workflow.NewService(pool, modules, ring(t, old)).Create(t.Context(), workflow.CreateParams{WorkspaceID: id, Draft: workflow.Draft{
		Name: "w", Components: []byte(`[{"id":"call","module":"API_CALL","config":{"apiUrl":"https://a.example","method":"GET"},"input":{"headers":{"X-Key":"sesame"}}}]`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if missing, err := rotation.MissingKeys(t.Context(), pool, ring(t, fresh)); err != nil || !slices.Equal(missing, []string{"2025"}) {
		t.Errorf("missing keys %v (%v)", missing, err)
	}
	if report, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), nil); err != nil || !report.Done() || report.Sealed != 1 {
		t.Errorf("unexpected report %+v (%v)", report, err)
	}
	loaded, err := workflow.NewService(pool, modules, ring(t, fresh)).Load(t.Context(), pool, id, made.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := loaded.Plan.Component("call"); !strings.Contains(string(c.Input), "sesame") {
		t.Errorf("the input lacks the secret: %s", c.Input)
	}
}
