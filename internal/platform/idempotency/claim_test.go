package idempotency

import (
	"testing"

	"github.com/google/uuid"
)

// FuzzMT10 looks for two scopes with one lock: by another workspace, and by moving
// the borders between the parts.
func FuzzMT10ScopesHaveLocksOfTheirOwn(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), "executeComponent", "/v1/sdk/components", "key", "executeComponent", "/v1/sdk/components", "key")
	f.Add([]byte("a"), []byte("a"), "ab", "c", "d", "a", "bc", "d")
	f.Add([]byte("a"), []byte("a"), "", "", "key", "", "key", "")
	f.Add([]byte("a"), []byte("a"), "x\x00\x00\x00\x01y", "", "", "x", "y", "")
	f.Fuzz(func(t *testing.T, workspaceA, workspaceB []byte, operationA, pathA, keyA, operationB, pathB, keyB string) {
		var a, b uuid.UUID
		copy(a[:], workspaceA)
		copy(b[:], workspaceB)
		one := Key{WorkspaceID: a, Operation: operationA, Path: pathA, Key: keyA}
		other := Key{WorkspaceID: b, Operation: operationB, Path: pathB, Key: keyB}
		if same := one.lock() == other.lock(); same != (one == other) {
			t.Errorf("%+v and %+v have one lock: %v", one, other, same)
		}
	})
}
