package callback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/seal"
)

// Secrets is what of a callback must never be seen again: the signing secret
// and the values of the custom headers.
type Secrets struct {
	Secret  *string           `json:"secret,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Seal encrypts the secrets of one execution's callback; nil when there are
// none.
func Seal(keyring *seal.Keyring, workspaceID, executionID uuid.UUID, s Secrets) ([]byte, error) {
	if s.Secret == nil && len(s.Headers) == 0 {
		return nil, nil
	}
	plain, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode callback secrets: %w", err)
	}
	return keyring.Seal(plain, SealedAt(workspaceID, executionID))
}

// unseal is the reverse of Seal.
func unseal(keyring *seal.Keyring, workspaceID, executionID uuid.UUID, sealed []byte) (Secrets, error) {
	var s Secrets
	if sealed == nil {
		return s, nil
	}
	plain, err := keyring.Open(sealed, SealedAt(workspaceID, executionID))
	if err != nil {
		return s, fmt.Errorf("open callback secrets: %w", err)
	}
	if json.Unmarshal(plain, &s) != nil {
		return s, errors.New("decode callback secrets") // what is wrong may show some of them
	}
	return s, nil
}

// classSecrets is the class of an attempt that sent nothing, because the stored
// secrets do not open under the very key that they name: they never will.
const classSecrets = "secrets"

const (
	// keyPatience is how long a delivery goes on being left to processes that may
	// hold the key of its secrets: longer than a roll-out or a rotation of keys
	// ought to take.
	keyPatience = 24 * time.Hour

	minKeyPause = 5 * time.Second
	maxKeyPause = time.Minute
	keyLogEvery = time.Minute
)

// lacks reports whether a delivery has to wait for a process that holds the key
// of its secrets, and for how long.
func (d *Deliverer) lacks(ctx context.Context, c delivery) (again time.Duration, yes bool) {
	if c.sealed == nil || d.Keyring.Holds(c.sealed) || c.overdue >= keyPatience {
		return 0, false
	}
	d.mu.Lock()
	tell := time.Since(d.lacking) >= keyLogEvery
	if tell {
		d.lacking = time.Now()
	}
	d.mu.Unlock()
	if tell {
		d.Log.WarnContext(ctx, "callbacks are sealed under a master key that this process does not have",
			"workspace_id", c.WorkspaceID, "execution_id", c.ExecutionID)
	}
	return min(max(c.overdue, minKeyPause), maxKeyPause), true
}

// SealedAt names the place of the sealed secrets of one execution's callback.
func SealedAt(workspaceID, executionID uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "callbacks", Row: executionID.String(), Field: "sealed"}
}
