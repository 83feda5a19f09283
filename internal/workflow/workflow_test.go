package workflow_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
)

// faults returns the pointers of the details in an INVALID_INPUT error.
func faults(t *testing.T, err error) []string {
	t.Helper()
	failure, ok := errors.AsType[*fault.Error](err)
	if !ok || failure.Code != fault.InvalidInput || !failure.Unprocessable {
		t.Fatalf("got %v, want INVALID_INPUT", err)
	}
	var pointers []string
	for _, d := range failure.Details {
		pointers = append(pointers, d.Pointer)
	}
	return pointers
}

func TestWorkflowIsStoredWithAllDefaults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := draft("Prices", `[{"id":"start","module":"START"},{"id":"call","module":"CALL","name":"Ask","config":{"url":"https://a.test","big":12345678901234567890.10},"position":[1,2.5],"attempts":3,"timeoutMs":10,"onFailure":"continue"}]`,
		`[{"id":"e","from":"start","to":"call"}]`)
	d.Description, d.InputSchema = "What they cost.", json.RawMessage(`{"type":"object"}`)
	d.DataConnections = json.RawMessage(`[{"id":"d","from":{"componentId":"start","output":"n"},"to":{"componentId":"call","input":"body"}}]`)
	made := b.create(t, d)
	const components = `[{"config":{},"id":"start","input":{},"module":"START","name":"","position":null},` +
		`{"attempts":3,"config":{"url":"https://a.test","big":12345678901234567890.10},"id":"call","input":{},"module":"CALL","name":"Ask","onFailure":"continue","position":[1,2.5],"timeoutMs":10}]`
	if string(made.Components) != components || string(made.SequenceEdges) != `[{"from":"start","id":"e","port":"next","to":"call"}]` ||
		string(made.DataConnections) != `[{"from":{"componentId":"start","output":"n"},"id":"d","to":{"componentId":"call","input":"body"}}]` ||
		string(made.InputSchema) != `{"type":"object"}` || string(made.Triggers) != `[]` {
		t.Errorf("%s\n%s\n%s\n%s\n%s", made.Components, made.SequenceEdges, made.DataConnections, made.InputSchema, made.Triggers)
	}
	if made.Version != 1 || made.Status != api.WorkflowStatusACTIVE || made.Name != "Prices" || made.Description != "What they cost." || made.CreatedAt != made.UpdatedAt {
		t.Errorf("%+v", made)
	}
	got, err := b.Get(b.ctx, b.workspace, made.ID, nil)
	made.Warnings = nil // only in the response of a save
	if err != nil || fmt.Sprint(got) != fmt.Sprint(made) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAllErrorsAreReportedAndNothingIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := draft("x", `[{"id":"a","module":"CALL","config":{"url":"x"},"input":{"count":"many"}},{"id":"a","module":"NO_SUCH"},{"id":"c","module":"ALONE"}]`,
		`[{"id":"e","from":"a","to":"gone","port":"then"}]`)
	d.InputSchema, d.Triggers = json.RawMessage(`{"type":"text"}`), json.RawMessage(`[{}]`)
	_, _, err := b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d})
	got := faults(t, err)
	for _, want := range []string{"/inputSchema/type", "/components/0/config/url", "/components/0/input/count", "/components/1/id", "/components/1/module",
		"/components/2/module", "/sequenceEdges/0/to", "/sequenceEdges/0/port", "/triggers"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	if !strings.Contains(fmt.Sprint(err.(*fault.Error).Details), `component "c": ALONE works only on its own, not inside a workflow`) {
		t.Errorf("a module that workflows cannot use: %v", err)
	}
	if page, err := b.List(b.ctx, b.workspace, workflow.ListParams{Limit: 10}); err != nil || len(page.Data) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestEverySaveCreatesImmutableVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("first", one))
	replace := func(expected []int32, d workflow.Draft) (api.Workflow, error) {
		return b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Expected: expected, Draft: d})
	}
	second := draft("second", `[{"id":"other","module":"CALL","config":{"url":"https://b.test"}}]`)
	second.Status = api.WorkflowStatusPAUSED
	got, err := replace([]int32{1}, second)
	if err != nil || got.Version != 2 || got.Name != "second" || got.Status != api.WorkflowStatusPAUSED || !strings.Contains(string(got.Components), "b.test") {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := replace([]int32{1}, second); fault.CodeOf(err) != fault.PreconditionFailed {
		t.Errorf("another version than expected: %v", err)
	}
	// If a replacement contains no status, a paused workflow stays paused.
	if got, err = replace(nil, draft("third", one)); err != nil || got.Version != 3 || got.Status != api.WorkflowStatusPAUSED {
		t.Errorf("%+v, %v", got, err)
	}
	first, err := b.Get(b.ctx, b.workspace, made.ID, new(int32(1)))
	if err != nil || first.Name != "first" || first.Version != 1 || string(first.Components) != string(made.Components) || first.Status != api.WorkflowStatusPAUSED {
		t.Errorf("version 1 is %+v, %v", first, err)
	}
	if _, err := b.Get(b.ctx, b.workspace, made.ID, new(int32(4))); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("version 4: %v", err)
	}
	if _, err := replace(nil, draft("x", `[{"id":"a","module":"NO_SUCH"}]`)); faults(t, err)[0] != "/components/0/module" {
		t.Errorf("%v", err)
	}
	if now, err := b.Get(b.ctx, b.workspace, made.ID, nil); err != nil || now.Version != 3 {
		t.Errorf("after a refused save: %+v, %v", now, err)
	}
}

func TestArchivedWorkflowIsRestoredOnlyWithStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", one))
	for range 2 {
		gone, err := b.Archive(b.ctx, b.workspace, made.ID, nil)
		if err != nil || gone.Status != api.WorkflowStatusARCHIVED || gone.Version != 1 {
			t.Fatalf("%+v, %v", gone, err)
		}
	}
	if _, err := b.update(made.ID, "call", `{"url":"https://c.test"}`); reason(err) != "workflow_archived" {
		t.Errorf("an update: %v", err)
	}
	p := workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: draft("w", one)}
	if _, err := b.Replace(b.ctx, p); fault.CodeOf(err) != fault.Conflict || reason(err) != "workflow_archived" {
		t.Errorf("a replacement without a status: %v", err)
	}
	p.Draft.Status = api.WorkflowStatusACTIVE
	if back, err := b.Replace(b.ctx, p); err != nil || back.Status != api.WorkflowStatusACTIVE || back.Version != 2 {
		t.Errorf("%+v, %v", back, err)
	}
}

func reason(err error) string {
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		return failure.Reason
	}
	return ""
}

func TestListsAreNewestFirstWithoutArchived(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ids []uuid.UUID
	for i := range 5 {
		ids = append(ids, b.create(t, draft(fmt.Sprint(i), one)).ID)
	}
	slices.Reverse(ids)
	if _, err := b.Archive(b.ctx, b.workspace, ids[2], nil); err != nil {
		t.Fatal(err)
	}
	names := func(status api.WorkflowStatus) (all string) {
		p := workflow.ListParams{Limit: 2, Status: status}
		for {
			page, err := b.List(b.ctx, b.workspace, p)
			if err != nil || page.HasMore != (page.NextCursor != nil) || len(page.Data) > 2 {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, w := range page.Data {
				all += w.Name
			}
			if !page.HasMore {
				return all
			}
			p.Cursor = *page.NextCursor
			b.create(t, draft("later", one))
		}
	}
	if got := names(""); got != "4310" {
		t.Errorf("got %s", got)
	}
	if got := names(api.WorkflowStatusARCHIVED); got != "2" {
		t.Errorf("archived: %s", got)
	}
	if got := names(api.WorkflowStatusPAUSED); got != "" {
		t.Errorf("paused: %s", got)
	}
	if _, err := b.List(b.ctx, b.workspace, workflow.ListParams{Limit: 2, Cursor: "x"}); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("%v", err)
	}
}

func TestIdempotencyKeyCreatesOneWorkflow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := func(body string) *idempotency.Key {
		return &idempotency.Key{WorkspaceID: b.workspace, Operation: "createWorkflow", Path: "/v1/sdk/workflows", Key: "k", BodyHash: sha256.Sum256([]byte(body))}
	}
	create := func(d workflow.Draft, body string) (api.Workflow, bool, error) {
		return b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d, Idempotency: key(body)})
	}
	if _, _, err := create(draft("bad", `[{"id":"a","module":"NO_SUCH"}]`), "bad"); fault.CodeOf(err) != fault.InvalidInput {
		t.Fatal(err)
	}
	made, replayed, err := create(draft("w", one), "good")
	if err != nil || replayed {
		t.Fatalf("after a refused request: %v, %v", replayed, err)
	}
	if _, err := b.update(made.ID, "call", `{"url":"https://c.test"}`); err != nil {
		t.Fatal(err)
	}
	// A replay returns the current record, even if the rules of the module have changed.
	again, replayed, err := create(draft("bad", `[{"id":"a","module":"NO_SUCH"}]`), "good")
	if err != nil || !replayed || again.ID != made.ID || again.Version != 2 {
		t.Errorf("%+v, %v, %v", again, replayed, err)
	}
	if _, _, err := create(draft("w", one), "other"); fault.CodeOf(err) != fault.IdempotencyMismatch {
		t.Errorf("%v", err)
	}
}

func TestAnotherWorkspaceFindsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", one))
	other := b.another(t, "Other")
	nobodys := uuid.Must(uuid.NewV7())
	b.ctx, b.workspace = postgres.Scope(t.Context(), other), other
	for name, call := range map[string]func(uuid.UUID) error{
		"get":     func(id uuid.UUID) error { _, err := b.Get(b.ctx, other, id, nil); return err },
		"version": func(id uuid.UUID) error { _, err := b.Get(b.ctx, other, id, new(int32(1))); return err },
		"archive": func(id uuid.UUID) error { _, err := b.Archive(b.ctx, other, id, nil); return err },
		"replace": func(id uuid.UUID) error {
			_, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: other, WorkflowID: id, Draft: draft("x", one)})
			return err
		},
		"update": func(id uuid.UUID) error { _, err := b.update(id, "call", `{"url":"https://c.test"}`); return err },
		"load":   func(id uuid.UUID) error { _, err := b.Load(b.ctx, b.scoped, other, id, nil); return err },
	} {
		got, want := call(made.ID), call(nobodys)
		if fault.CodeOf(got) != fault.NotFound || got.Error() != want.Error() {
			t.Errorf("%s: %v, of nobody's %v", name, got, want)
		}
	}
}

func TestConcurrentChangesAreNeverLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", one))
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if _, err := b.update(made.ID, "call", fmt.Sprintf(`{"options":{"k%d":true}}`, i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	now, err := b.Get(b.ctx, b.workspace, made.ID, nil)
	if err != nil || now.Version != 13 || strings.Count(string(now.Components), ":true") != 12 {
		t.Errorf("%d, %s, %v", now.Version, now.Components, err)
	}
	// If several concurrent saves expect the same version, one succeeds.
	saved := make(chan error, 8)
	for range cap(saved) {
		all.Go(func() {
			_, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Expected: []int32{13}, Draft: draft("w", one)})
			saved <- err
		})
	}
	all.Wait()
	close(saved)
	done := 0
	for err := range saved {
		if err == nil {
			done++
		} else if fault.CodeOf(err) != fault.PreconditionFailed {
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d saved", done)
	}
}

// The audit log has an entry for each save, with the version and without the config.
func TestMT09EverySaveIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", one))
	if _, err := b.update(made.ID, "call", `{"token":"canary-4711"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: draft("w", one)}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := b.Archive(b.ctx, b.workspace, made.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := b.pool.Query(t.Context(), "SELECT action || ' ' || details::text FROM audit_events WHERE subject_id = $1 ORDER BY id", made.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	want := []string{
		`workflow.created {"name": "w", "version": 1}`, `workflow.component_updated {"version": 2, "componentId": "call"}`,
		`workflow.replaced {"name": "w", "status": "ACTIVE", "version": 3}`, `workflow.archived {"name": "w", "version": 3}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
