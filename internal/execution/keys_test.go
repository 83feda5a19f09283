package execution_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/idempotency"
)

// Earlier versions recorded the first key in a chain of rotations instead of the submitting key.
// So all keys of the chain see such an execution, and no other key does.
func TestAnExecutionOfAnEarlierVersionIsSeenByTheKeysOfItsRotations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := newSlow("SLOW", component.RepeatIdempotent)
	n := b.start(t, options{slots: 2, workers: 1}, s)
	defer close(s.release)
	first, second, other := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	once := idempotency.Key{WorkspaceID: b.workspace, Operation: "executeComponent", Path: "/", Key: "k"}
	id := b.submit(t, n, execution.SubmitParams{Module: "SLOW", KeyID: second, Idempotency: &once}).ID
	<-s.started
	b.exec(t, "UPDATE component_executions SET key_id = NULL, key_root_id = $1 WHERE id = $2", first, id)
	for _, c := range []struct {
		keys []uuid.UUID
		seen bool
	}{
		{keys: []uuid.UUID{first}, seen: true},
		{keys: []uuid.UUID{second, first}, seen: true},
		{keys: []uuid.UUID{other}},
	} {
		if err := n.service.CheckSees(t.Context(), b.workspace, id, c.keys); (err == nil) != c.seen {
			t.Errorf("seen by %v: %v, want %v", c.keys, err, c.seen)
		}
		page, err := n.service.List(t.Context(), b.workspace, execution.ListParams{Limit: 10, Keys: c.keys})
		if err != nil || (len(page.Data) == 1) != c.seen {
			t.Errorf("listed by %v: %v, %v", c.keys, page.Data, err)
		}
		again, err := n.service.Submit(t.Context(), execution.SubmitParams{
			WorkspaceID: b.workspace, Module: "SLOW", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`), Attempts: 1,
			KeyID: c.keys[0], Sees: c.keys, Idempotency: &once,
		})
		if c.seen && (err != nil || again.Record.ID != id) || !c.seen && fault.CodeOf(err) != fault.IdempotencyMismatch {
			t.Errorf("repeated by %v: %s, %v", c.keys, again.Record.ID, err)
		}
	}
}

// Processes of the previous release read key_root_id only, so it is still written.
func TestAnExecutionRecordsTheFirstKeyForThePreviousRelease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{idle: true}, echo())
	key, root := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	b.submit(t, n, execution.SubmitParams{Module: "ECHO", KeyID: key, KeyRootID: root})
	b.submit(t, n, execution.SubmitParams{Module: "ECHO"})
	b.accept(t, n, 1, execution.Stage{RunID: b.run(t, n, 1), Module: "ECHO"})
	var named, unnamed int
	err := b.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE key_id = $1 AND key_root_id = $2),
		count(*) FILTER (WHERE key_id IS NULL AND key_root_id IS NULL) FROM component_executions`, key, root).Scan(&named, &unnamed)
	if err != nil || named != 1 || unnamed != 2 {
		t.Errorf("%d executions name the key and its root, %d name none, %v", named, unnamed, err)
	}
}
