package idempotency

import (
	"testing"

	"github.com/google/uuid"
)

// Different scopes must have different locks. The scopes differ in the workspace, or in the
// position at which the same characters are split into parts.
func FuzzMT10ScopesHaveTheirOwnLocks(f *testing.F) {
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
