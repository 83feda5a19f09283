package workflow_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow"
)

func TestNameMakesKey(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Ship order":                        "ship-order",
		"  Ship -- the order!  ":            "ship-the-order",
		"Überweisung für Zoë":               "uberweisung-fur-zoe",
		"Ⅳ ﬁles":                            "iv-files",
		"3 steps of 12":                     "steps-of-12",
		"注文":                                "",
		"42":                                "",
		strings.Repeat("ab ", 40):           strings.TrimSuffix(strings.Repeat("ab-", 21), "-"),
		strings.Repeat("a", 62) + " tail":   strings.Repeat("a", 62),
		"Straße":                            "stra-e",
		"e\u0301te\u0301":                   "ete",
		"executions":                        "executions",
		"Orders_(new)/" + "2026":            "orders-new-2026",
		"\u212aelvin":                       "kelvin",
		"İstanbul":                          "istanbul",
		"a" + strings.Repeat("\u0301", 198): "a",
	} {
		if got := workflow.KeyOf(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// conflict returns the reason and the pointer of a CONFLICT.
func conflict(err error) string {
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok || failure.Code != fault.Conflict || len(failure.Details) != 1 {
		return "no conflict"
	}
	return failure.Reason + " " + failure.Details[0].Pointer
}

func TestKeyIsUniqueAmongWorkflowsThatAreNotArchived(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keyed := func(key, name string) workflow.Draft {
		d := draft(name, one)
		d.Key = key
		return d
	}
	refused := func(d workflow.Draft) error {
		_, _, err := b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d})
		return err
	}
	replace := func(id uuid.UUID, d workflow.Draft) (api.Workflow, error) {
		return b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: id, Draft: d})
	}
	archive := func(id uuid.UUID) {
		t.Helper()
		if _, err := b.Archive(b.ctx, b.workspace, id, nil); err != nil {
			t.Fatal(err)
		}
	}
	first, second, third := b.create(t, draft("Ship order", one)), b.create(t, draft("Ship order", one)), b.create(t, draft("Ship order!", one))
	if first.Key != "ship-order" || second.Key != "ship-order-2" || third.Key != "ship-order-3" {
		t.Errorf("%s, %s, %s", first.Key, second.Key, third.Key)
	}
	long := strings.Repeat("a", 70)
	if one, two := b.create(t, draft(long, one)), b.create(t, draft(long, one)); one.Key != long[:63] || two.Key != long[:61]+"-2" {
		t.Errorf("%s, %s", one.Key, two.Key)
	}
	if made := b.create(t, draft("Validate", one)); made.Key != "validate-2" {
		t.Errorf("a reserved key: %s", made.Key)
	}
	if made := b.create(t, draft("注文", one)); !strings.HasPrefix(made.Key, "workflow-") || len(made.Key) != len("workflow-")+8 {
		t.Errorf("a name without letters: %s", made.Key)
	}
	if got := conflict(refused(keyed("ship-order", "x"))); got != "key_taken /key" {
		t.Error(got)
	}

	// A new name keeps the key. A key changes only if it is given.
	renamed, err := replace(second.ID, draft("Send order", one))
	if err != nil || renamed.Key != "ship-order-2" || renamed.Name != "Send order" {
		t.Errorf("%+v, %v", renamed, err)
	}
	if _, err := replace(second.ID, keyed("ship-order", "Send order")); conflict(err) != "key_taken /key" {
		t.Errorf("a taken key: %v", err)
	}
	if renamed, err = replace(second.ID, keyed("send-order", "Send order")); err != nil || renamed.Key != "send-order" {
		t.Errorf("%+v, %v", renamed, err)
	}
	if old, err := b.Get(b.ctx, b.workspace, second.ID, new(int32(1))); err != nil || old.Key != "send-order" {
		t.Errorf("an earlier version has the key of the workflow: %+v, %v", old, err)
	}

	// An archived workflow has only its ID, and its key is free.
	archive(first.ID)
	if id, err := b.Find(b.ctx, b.workspace, "ship-order"); err != nil || id != uuid.Nil {
		t.Errorf("an archived workflow by its key: %s, %v", id, err)
	}
	if id, err := b.Find(b.ctx, b.workspace, strings.ToUpper(first.ID.String())); err != nil || id != first.ID {
		t.Errorf("an archived workflow by its ID: %s, %v", id, err)
	}
	heir := b.create(t, keyed("ship-order", "Heir"))
	if id, err := b.Find(b.ctx, b.workspace, "ship-order"); err != nil || id != heir.ID {
		t.Errorf("the key leads to %s, %v", id, err)
	}
	restored := draft("Ship order", one)
	restored.Status = api.WorkflowStatusPAUSED
	if _, err := replace(first.ID, restored); conflict(err) != "key_taken /key" {
		t.Errorf("restored with a taken key: %v", err)
	}
	if now, err := b.Get(b.ctx, b.workspace, first.ID, nil); err != nil || now.Status != api.WorkflowStatusARCHIVED || now.Version != 1 {
		t.Errorf("after a refused restore: %+v, %v", now, err)
	}
	archive(heir.ID)
	if now, err := replace(first.ID, restored); err != nil || now.Key != "ship-order" || now.Status != api.WorkflowStatusPAUSED {
		t.Errorf("restored with a free key: %+v, %v", now, err)
	}
	other := b.another(t, "Other")
	if id, err := b.Find(b.ctx, other, "ship-order"); err != nil || id != uuid.Nil {
		t.Errorf("the key in another workspace: %s, %v", id, err)
	}
}

func TestKeyWithWrongShapeIsMalformed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []string{"executions", "validate", "Upper", "1a", "-a", "a_b", strings.Repeat("a", 64), "é",
		"deadbeefdeadbeefdeadbeefdeadbeef", "deadbeef-dead-beef-dead-beefdeadbeef"} {
		d := draft("x", one)
		d.Key = key
		_, _, err := b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d})
		failure, ok := errors.AsType[*fault.Error](err)
		if !ok || failure.Code != fault.InvalidInput || failure.Unprocessable || len(failure.Details) != 1 || failure.Details[0].Pointer != "/key" {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestWorkflowsOfOneNameGetDifferentKeysAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		keys = map[string]bool{}
	)
	for range 12 {
		all.Go(func() {
			made, _, err := b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: draft("Same", one)})
			mu.Lock()
			defer mu.Unlock()
			if keys[made.Key] = true; err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(keys) != 12 || !keys["same"] || !keys["same-12"] {
		t.Errorf("%v", keys)
	}
}
