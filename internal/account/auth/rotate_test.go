package auth_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

func (b *bundle) rotate(t *testing.T, keyID uuid.UUID, overlap time.Duration) (auth.Created, error) {
	t.Helper()
	return b.keys.Rotate(t.Context(), auth.RotateParams{WorkspaceID: b.workspace, KeyID: keyID, Overlap: overlap})
}

func TestARotatedKeyAndItsSuccessorOverlap(t *testing.T) {
	b := setup(t, auth.Options{})
	workflows := []uuid.UUID{b.newWorkflow(t, b.workspace)}
	old, err := b.keys.Create(t.Context(), auth.CreateParams{WorkspaceID: b.workspace, Label: "old", AllowedWorkflowIDs: workflows})
	if err != nil {
		t.Fatal(err)
	}
	next, err := b.rotate(t, old.KeyID, time.Hour)
	if err != nil || next.Label != "old" || len(next.AllowedWorkflowIDs) != 1 || next.AllowedWorkflowIDs[0] != workflows[0] || next.APIKey == old.APIKey {
		t.Fatalf("%v, %v", next, err)
	}
	usable := func(key auth.Created) bool { return auth.Usable(t.Context(), b.pool, key.APIKey) }
	if !usable(old) || !usable(next) {
		t.Error("a key is refused during the overlap")
	}
	if _, err := b.rotate(t, old.KeyID, 0); reasonOf(err) != "key_not_active" {
		t.Errorf("a second rotation: %v", err)
	}
	if _, err := b.pool.Exec(t.Context(), "UPDATE api_keys SET expires_at = now() WHERE id = $1", old.KeyID); err != nil {
		t.Fatal(err)
	}
	if usable(old) || !usable(next) {
		t.Error("after the overlap the old key works, or the new one does not")
	}
	if _, err := b.keys.Revoke(t.Context(), b.workspace, next.KeyID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.rotate(t, next.KeyID, 0); reasonOf(err) != "key_not_active" {
		t.Errorf("the rotation of a revoked key: %v", err)
	}
	if _, err := b.rotate(t, uuid.Max, 0); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("the rotation of an unknown key: %v", err)
	}
	if _, err := b.keys.Rotate(t.Context(), auth.RotateParams{WorkspaceID: b.newWorkspace(t), KeyID: b.key.KeyID}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("by another workspace: %v", err)
	}
}

// A restricted key sees the executions of the keys that it replaced, even if these keys no
// longer work. An unrestricted key sees all executions, so its predecessors are not read.
func TestAPrincipalNamesItsPredecessors(t *testing.T) {
	b := setup(t, auth.Options{})
	for name, workflows := range map[string][]uuid.UUID{"restricted": {b.newWorkflow(t, b.workspace)}, "unrestricted": nil} {
		key, err := b.keys.Create(t.Context(), auth.CreateParams{WorkspaceID: b.workspace, Label: name, AllowedWorkflowIDs: workflows})
		if err != nil {
			t.Fatal(err)
		}
		want := []uuid.UUID{key.KeyID}
		for range 3 {
			next, err := b.rotate(t, key.KeyID, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.keys.Revoke(t.Context(), b.workspace, key.KeyID); err != nil {
				t.Fatal(err)
			}
			private, err := signature.ParseSecret(next.APISecret)
			if err != nil {
				t.Fatal(err)
			}
			if workflows == nil {
				want = nil
			}
			want = slices.Insert(want, 0, next.KeyID)
			principal, err := b.verifier.Verify(t.Context(), signer{next, private}.get(b.clock))
			if err != nil {
				t.Fatal(err)
			}
			if got := principal.Keys(); !slices.Equal(got, want) {
				t.Errorf("%s: the keys are %v, want %v", name, got, want)
			}
			key = next
		}
	}
}

func TestAU11StreamsOfAnExpiredKeyAreClosed(t *testing.T) {
	b := setup(t, auth.Options{})
	ctx, stop := b.verifier.UntilRevoked(t.Context(), auth.Principal{WorkspaceID: b.workspace, KeyID: b.key.KeyID})
	defer stop()
	if _, err := b.rotate(t, b.key.KeyID, 0); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, auth.ErrRevoked) {
		t.Errorf("ended by %v", cause)
	}
}

// Clients can choose the ID of a key, so a different workspace may have a key with the same ID.
func TestRevokingDoesNotCloseStreamsOfTheSameIDInAnotherWorkspace(t *testing.T) {
	b := setup(t, auth.Options{})
	namesakes := b.newWorkspace(t)
	namesake, err := b.keys.Create(t.Context(), auth.CreateParams{ID: b.key.KeyID, WorkspaceID: namesakes, Label: "x"})
	if err != nil || namesake.KeyID != b.key.KeyID {
		t.Fatalf("%v, %v", namesake, err)
	}
	ends, stop := b.verifier.UntilRevoked(t.Context(), auth.Principal{WorkspaceID: b.workspace, KeyID: b.key.KeyID})
	defer stop()
	stays, stopOther := b.verifier.UntilRevoked(t.Context(), auth.Principal{WorkspaceID: namesakes, KeyID: namesake.KeyID})
	defer stopOther()
	if _, err := b.keys.Revoke(t.Context(), b.workspace, b.key.KeyID); err != nil {
		t.Fatal(err)
	}
	<-ends.Done()
	stop() // waits until the check has cancelled all streams of this key
	if !errors.Is(context.Cause(ends), auth.ErrRevoked) || stays.Err() != nil {
		t.Errorf("revoked: %v, the other: %v", context.Cause(ends), context.Cause(stays))
	}
}

func reasonOf(err error) string {
	if failure, ok := errors.AsType[*fault.Error](err); ok {
		return failure.Reason
	}
	return ""
}

func TestAKeyIsCreatedOncePerID(t *testing.T) {
	b := setup(t, auth.Options{})
	id := uuid.Must(uuid.NewV7())
	p := auth.CreateParams{ID: id, WorkspaceID: b.workspace, Label: "x"}
	made, err := b.keys.Create(t.Context(), p)
	if err != nil || made.KeyID != id {
		t.Fatalf("%v, %v", made, err)
	}
	if _, err := b.keys.Create(t.Context(), p); reasonOf(err) != "already_made" {
		t.Errorf("again: %v", err)
	}
	rotation := auth.RotateParams{ID: uuid.Must(uuid.NewV7()), WorkspaceID: b.workspace, KeyID: id, Overlap: time.Hour}
	next, err := b.keys.Rotate(t.Context(), rotation)
	if err != nil || next.KeyID != rotation.ID || next.Replaces == nil || time.Until(next.Replaces.EndsAt) < 50*time.Minute {
		t.Fatalf("%v, %v", next, err)
	}
	if _, err := b.keys.Rotate(t.Context(), rotation); reasonOf(err) != "already_made" {
		t.Errorf("again: %v", err)
	}
	if keys, err := b.keys.List(t.Context(), b.workspace); err != nil || len(keys) != 3 { // including the key of the setup
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

func TestKeysAreNotCreatedWithoutPermission(t *testing.T) {
	b := setup(t, auth.Options{})
	no := fault.New(fault.Forbidden, "not any more")
	may := func(context.Context, pgx.Tx) error { return no }
	_, created := b.keys.Create(t.Context(), auth.CreateParams{WorkspaceID: b.workspace, Label: "x", May: may})
	_, rotated := b.keys.Rotate(t.Context(), auth.RotateParams{WorkspaceID: b.workspace, KeyID: b.key.KeyID, May: may})
	if !errors.Is(created, no) || !errors.Is(rotated, no) {
		t.Errorf("%v, %v", created, rotated)
	}
	if keys, err := b.keys.List(t.Context(), b.workspace); err != nil || len(keys) != 1 || keys[0].ReplacedBy != nil { // only the key of the setup
		t.Errorf("%+v, %v", keys, err)
	}
}
